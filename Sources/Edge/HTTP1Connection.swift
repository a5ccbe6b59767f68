import HTTPMessages
import NIOCore
import NIOHTTP1

/// A connection that speaks HTTP/1.1, behind NIO's decoder, encoder and pipelining handler.
final class HTTP1Connection: ChannelInboundHandler, ResponderTransport, Flushable, EdgeConnection {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private let loop: EdgeLoop
    private let isSecure: Bool
    private let isLoopback: Bool
    private var context: ChannelHandlerContext?
    private var current: Responder?
    private var keepAlive = true
    private var isHead = false
    private var isDirty = false
    private var isRefused = false
    private var isReceiving = false
    private var deadlines: ConnectionDeadlines

    init(loop: EdgeLoop, isSecure: Bool, isLoopback: Bool) {
        self.loop = loop
        deadlines = ConnectionDeadlines(loop.configuration, second: loop.second)
        self.isSecure = isSecure
        self.isLoopback = isLoopback
    }

    /// The request that is being read; the next one comes when this one is answered.
    private var request: HTTPRequest?

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        loop.connections.insert(self)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head): begin(head)
        case .body(let buffer):
            guard current != nil, !isRefused, let request else { return }
            if request.body.count + buffer.readableBytes > loop.configuration.bodyBytesMax {
                refuse(413)
            } else {
                request.body.append(contentsOf: buffer.readableBytesView)
            }
        case .end:
            isReceiving = false
            guard let responder = current, !isRefused, let request else { return }
            self.request = nil
            loop.counters.requests.add(1, ordering: .relaxed)
            loop.handler.handle(request, responder)
        }
    }

    private func begin(_ head: HTTPRequestHead) {
        let responder = Responder(transport: self, streamID: 0)
        responder.began = loop.second
        current = responder
        isReceiving = true
        deadlines.hadRequest = true
        isRefused = false
        keepAlive = head.isKeepAlive
        isHead = head.method == .HEAD
        let request = HTTPRequest(method: HTTP1Connection.method(head.method), target: Array(head.uri.utf8))
        request.isSecure = isSecure
        request.isLoopback = isLoopback
        var bytes = 0
        for (name, value) in head.headers {
            let lower = name.lowercased()
            bytes += name.utf8.count + value.utf8.count + 32
            if lower == "host" { request.authority = Array(value.utf8) }
            request.fields.append(name: Array(lower.utf8), value: Array(value.utf8))
        }
        self.request = request
        if bytes > loop.configuration.headerBytesMax
            || head.headers.count > loop.configuration.headerFieldsMax
        {
            return refuse(431)
        }
        if head.headers.contains(name: "content-length"), head.headers.contains(name: "transfer-encoding") {
            return refuse(400)
        }
        if head.headers["expect"].contains(where: { $0.lowercased() == "100-continue" }), let context {
            context.writeAndFlush(
                wrapOutboundOut(.head(HTTPResponseHead(version: .http1_1, status: .continue))), promise: nil)
        }
    }

    /// Answers before the body is read; the connection ends after it.
    private func refuse(_ status: Int) {
        keepAlive = false
        isRefused = true
        request = nil
        current?.respond(HTTPResponse(status: status))
    }

    private static func method(_ method: NIOHTTP1.HTTPMethod) -> HTTPMessages.HTTPMethod {
        switch method {
        case .GET: .get
        case .POST: .post
        case .DELETE: .delete
        case .PATCH: .patch
        case .PUT: .put
        case .HEAD: .head
        case .OPTIONS: .options
        default: .other(method.rawValue)
        }
    }

    func channelInactive(context: ChannelHandlerContext) {
        loop.connections.remove(self)
        self.context = nil
        if let responder = current { end(responder) }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard let failure = error as? HTTPParserError else { return context.close(promise: nil) }
        _ = failure
        if current == nil {
            var head = HTTPResponseHead(version: .http1_1, status: .badRequest)
            head.headers.add(name: "content-length", value: "0")
            head.headers.add(name: "connection", value: "close")
            context.write(wrapOutboundOut(.head(head)), promise: nil)
            context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
        }
        context.close(promise: nil)
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        if context.channel.isWritable, let responder = current, responder.state != .waiting {
            wake(responder)
        }
    }

    private func end(_ responder: Responder) {
        current = nil
        let mustTell = responder.state != .answered
        responder.close()
        if mustTell { loop.handler.cancelled(responder) }
    }

    func sweep(_ second: Int) {
        guard let context else { return }
        let isOver = deadlines.isOver(
            second, open: current == nil ? 0 : 1, heading: nil,
            receiving: isReceiving ? current?.began : nil, stuck: !context.channel.isWritable)
        if isOver { context.close(promise: nil) }
    }

    func drain() {
        keepAlive = false
        if current == nil { context?.close(promise: nil) }
    }

    // MARK: Answers

    private func head(_ status: Int, _ fields: [(name: String, value: String)]) -> HTTPResponseHead {
        var head = HTTPResponseHead(version: .http1_1, status: HTTPResponseStatus(statusCode: status))
        for field in fields { head.headers.add(name: field.name, value: field.value) }
        head.headers.add(name: "date", value: loop.date)
        if !keepAlive { head.headers.add(name: "connection", value: "close") }
        return head
    }

    func respond(_ responder: Responder, _ response: HTTPResponse) {
        guard let context, responder === current else { return }
        var head = head(response.status, response.fields)
        if response.status != 204 {
            head.headers.add(name: "content-length", value: "\(response.body.count)")
        }
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        if !response.body.isEmpty, !isHead {
            context.write(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(bytes: response.body)))), promise: nil)
        }
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
        current = nil
        responder.close()
        if !keepAlive { context.close(promise: nil) }
    }

    func openStream(_ responder: Responder, status: Int, fields: [(name: String, value: String)]) {
        guard let context, responder === current else { return }
        var head = head(status, fields)
        head.headers.add(name: "transfer-encoding", value: "chunked")
        context.writeAndFlush(wrapOutboundOut(.head(head)), promise: nil)
    }

    func wake(_ responder: Responder) {
        guard !isDirty, context != nil, responder === current else { return }
        isDirty = true
        loop.markDirty(self)
    }

    func flush() {
        isDirty = false
        guard let context, let responder = current, context.channel.isWritable else { return }
        let limit = loop.configuration.pendingBytesMax
        if responder.hasQueued {
            var buffer = context.channel.allocator.buffer(capacity: 1024)
            while responder.hasQueued, buffer.readableBytes < limit {
                buffer.writeWithUnsafeMutableBytes(minimumWritableBytes: 4096) { raw in
                    guard let base = raw.bindMemory(to: UInt8.self).baseAddress else { return 0 }
                    return responder.take(base, raw.count)
                }
            }
            context.write(wrapOutboundOut(.body(.byteBuffer(buffer))), promise: nil)
        }
        if responder.noteDrained() { loop.handler.drained(responder) }
        if responder.state == .ending, !responder.hasQueued {
            context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
            end(responder)
            context.close(promise: nil)
        } else {
            context.flush()
        }
    }
}
