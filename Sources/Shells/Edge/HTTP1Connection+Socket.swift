import NIOCore
import NIOHTTP1
import NIOWebSocket

// How a connection of HTTP/1.1 becomes a WebSocket.

/// The opening handshake of RFC 6455 §4.2.
enum WebSocketUpgrade {
    /// Characters of `Sec-WebSocket-Key`: 16 bytes in base64.
    private static let keyLength = 24

    /// Whether the request has the form of a handshake. The parser must read it as one too, because it goes
    /// on with HTTP behind any other request. The parser passes over a word of `Connection` with a tab behind
    /// it. So a field with a tab counts for nothing here, though RFC 9110 §5.6.3 allows one.
    static func isWanted(_ head: HTTPRequestHead, isLoose: Bool = false) -> Bool {
        func says(_ name: String, _ word: Substring) -> Bool {
            if !isLoose, head.headers[name].contains(where: { $0.contains("\t") }) { return false }
            return head.headers[canonicalForm: name].contains { $0.lowercased() == word }
        }
        let keys = head.headers[canonicalForm: "sec-websocket-key"]
        return head.method == .GET && head.version == .http1_1 && says("upgrade", "websocket")
            && says("connection", "upgrade") && keys.count == 1 && keys[0].utf8.count == keyLength
    }

    /// The fields of the answer 101; `nil` if NIO refuses the handshake. `subprotocol` is in the answer if
    /// the client offers it.
    static func answer(
        _ head: HTTPRequestHead, subprotocol: String?, on channel: any Channel
    ) -> HTTPHeaders? {
        var fields = HTTPHeaders()
        let offered = head.headers[canonicalForm: "sec-websocket-protocol"]
        if let subprotocol, offered.contains(Substring(subprotocol)) {
            fields.add(name: "sec-websocket-protocol", value: subprotocol)
        }
        let upgrader = NIOWebSocketServerUpgrader(
            shouldUpgrade: { [fields] channel, _ in channel.eventLoop.makeSucceededFuture(fields) },
            upgradePipelineHandler: { channel, _ in channel.eventLoop.makeSucceededVoidFuture() })
        var answer: HTTPHeaders?
        // NIO computes the answer immediately, because `shouldUpgrade` needs no time.
        upgrader.buildUpgradeResponse(
            channel: channel, upgradeRequest: head, initialResponseHeaders: HTTPHeaders()
        )
        .assumeIsolated().whenSuccess { answer = $0 }
        return answer
    }
}

extension HTTP1Connection {
    func isHandshake(_ head: HTTPRequestHead) -> Bool {
        #if DEBUG
            if loop.configuration.plantedLooseUpgrade {
                return WebSocketUpgrade.isWanted(head, isLoose: true)
            }
        #endif
        return WebSocketUpgrade.isWanted(head)
    }

    func openSocket(_ responder: Responder, subprotocol: String?) -> Bool {
        guard let context, responder === current, let head = socketHead.take(),
            let fields = WebSocketUpgrade.answer(head, subprotocol: subprotocol, on: context.channel)
        else { return false }
        isSwitching = true
        // The decoder is at work for this very request. It can leave the pipeline only afterwards.
        loop.eventLoop.assumeIsolated().execute { self.switchOver(fields) }
        return true
    }

    /// Answers 101, and puts the handlers of a WebSocket in the place of those of HTTP/1.1. The client sends
    /// nothing before it has the answer (RFC 6455 §4.1).
    private func switchOver(_ fields: HTTPHeaders) {
        guard let context, let responder = current else { return }
        let head = HTTPResponseHead(version: .http1_1, status: .switchingProtocols, headers: fields)
        loop.counters.answers.add(101)
        context.writeAndFlush(wrapOutboundOut(.head(head)), promise: nil)
        guard self.context != nil else { return }
        let pipeline = context.pipeline.syncOperations
        let configuration = loop.configuration
        let most = configuration.socketMessageBytesMax
        let connection = WebSocketConnection(responder, loop: loop, client: client)
        do {
            try pipeline.addHandler(WebSocketFrameEncoder(), name: "ws-encoder")
            try pipeline.addHandler(
                ByteToMessageHandler(
                    WebSocketFrameDecoder(maxFrameSize: most), maximumBufferSize: 2 * most + 65536),
                name: "ws-decoder")
            try pipeline.addHandler(WebSocketProtocolErrorHandler(), name: "ws-errors")
            try pipeline.addHandler(WebSocketFrameRules(connection), name: "ws-rules")
            try pipeline.addHandler(
                NIOWebSocketFrameAggregator(
                    minNonFinalFragmentSize: 1, maxAccumulatedFrameCount: configuration.socketFramesMax,
                    maxAccumulatedFrameSize: most), name: "ws-frames")
            current = nil
            try pipeline.addHandler(connection, name: "ws")
        } catch {
            if responder.isOpen { end(responder) }
            return context.close(promise: nil)
        }
        for name in ["order", "decoder", "encoder", "http1"] {
            pipeline.removeHandler(name: name, promise: nil)
        }
    }
}
