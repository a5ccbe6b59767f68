import HTTPMessages
import NIOCore
import NIOWebSocket

/// Refuses frames that NIO's decoder lets through: a client must mask each frame, and no extension was agreed
/// on that would use the reserved bits (RFC 6455 §5.1, §5.2). Reports to the connection each part of a
/// message before NIO keeps it for the rest.
final class WebSocketFrameRules: ChannelInboundHandler {
    typealias InboundIn = WebSocketFrame

    private let connection: WebSocketConnection

    init(_ connection: WebSocketConnection) { self.connection = connection }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let frame = unwrapInboundIn(data)
        guard frame.maskKey != nil, !frame.rsv1, !frame.rsv2, !frame.rsv3 else {
            context.fireErrorCaught(WebSocketFault.protocolError)
            return
        }
        guard connection.keeps(frame) else {
            context.fireErrorCaught(WebSocketFault.noRoom)
            return
        }
        context.fireChannelRead(data)
    }
}

enum WebSocketFault: Error {
    case protocolError
    /// The parts of messages that are not whole take too many bytes.
    case noRoom
}

/// The deadlines of a WebSocket, in seconds of the loop's coarse clock.
struct WebSocketClocks {
    enum Step: Hashable { case none, ping, end, refuse, drop }

    private let configuration: EdgeConfiguration
    private let opened: Int
    private var lastReceived: Int
    private var pinged: Int?
    private var stuckSince: Int?
    private var closingSince: Int?
    private var hadMessage = false
    /// Since when a message is under way of which parts came, and not the last.
    private var partsSince: Int?

    init(_ configuration: EdgeConfiguration, second: Int) {
        self.configuration = configuration
        opened = second
        lastReceived = second
    }

    mutating func noteFrame(second: Int, isMessage: Bool) {
        lastReceived = second
        pinged = nil
        if isMessage { hadMessage = true }
    }

    /// A part of a message has come. What comes between the parts does not lengthen the message's time.
    mutating func notePart(second: Int, isLast: Bool) {
        partsSince = isLast ? nil : partsSince ?? second
    }

    /// The server has sent its last frame.
    mutating func noteClosing(second: Int) { closingSince = closingSince ?? second }

    /// What the connection must do in this second. `stuck`: the client does not read.
    mutating func sweep(_ second: Int, stuck: Bool) -> Step {
        stuckSince = stuck ? stuckSince ?? second : nil
        if let closingSince { return second - closingSince >= configuration.lingerSeconds ? .drop : .none }
        if let stuckSince, second - stuckSince > configuration.stuckSeconds { return .drop }
        if let partsSince, second - partsSince > configuration.bodySeconds { return .refuse }
        if !hadMessage, second - opened > configuration.bodySeconds { return .end }
        if let pinged { return second - pinged > configuration.socketPongSeconds ? .end : .none }
        guard second - lastReceived > configuration.socketPingSeconds else { return .none }
        pinged = second
        return .ping
    }
}

/// A connection that has become a WebSocket. Its responder's chunks leave as messages of text, and the
/// handler gets the client's messages.
final class WebSocketConnection: ChannelInboundHandler, ResponderTransport, Flushable, EdgeConnection {
    typealias InboundIn = WebSocketFrame
    typealias OutboundOut = WebSocketFrame

    /// Codes of RFC 6455 §7.4.1.
    private enum Code {
        static let normal: UInt16 = 1000
        static let goingAway: UInt16 = 1001
        static let protocolError: UInt16 = 1002
        static let unsupported: UInt16 = 1003
        static let tooMuch: UInt16 = 1008
        static let tooLong: UInt16 = 1009
        static let tryAgainLater: UInt16 = 1013
    }

    let loop: EdgeLoop
    private let responder: Responder
    private(set) var context: ChannelHandlerContext?
    var isDirty = false
    /// The server has sent its CLOSE, and sends nothing more.
    private var isClosing = false
    /// The data of the client's newest PING. A turn answers one of them (RFC 6455 §5.5.3).
    private var ping: ByteBuffer?
    private var clocks: WebSocketClocks
    private let client: ClientAddress?
    private var guardian = AbuseGuard()
    private var pending: PendingBytes
    private var streams: KeptBytes
    /// The bytes of a message of which not all parts have come.
    private var parts: ByteBudget

    init(_ responder: Responder, loop: EdgeLoop, client: ClientAddress?) {
        self.loop = loop
        self.client = client
        self.responder = responder
        clocks = WebSocketClocks(loop.configuration, second: loop.second)
        let address = loop.budgets.key(of: client)
        pending = PendingBytes(loop.budgets.pending, for: address)
        streams = KeptBytes(loop.budgets.streams, for: address, bytesMax: loop.configuration.streamBytesMax)
        parts = ByteBudget(
            loop.budgets.bodies, for: address, bytesMax: loop.configuration.bodyBytesMax,
            free: ByteBudget.freeBytesOfOne, step: ByteBudget.stepBytesOfOne)
    }

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        loop.connections.insert(self)
        responder.move(to: self)
        markDirty()
        // The server has begun to end while the connection changed its protocol.
        if loop.isDraining { drain() }
    }

    var peer: Peer { Peer.of(context, client) }

    // MARK: From the client

    /// A frame has come. Returns false if there is no room for a part of a message.
    func keeps(_ frame: WebSocketFrame) -> Bool {
        switch frame.opcode {
        case _ where isClosing: return true
        case .text, .binary, .continuation:
            clocks.notePart(second: loop.second, isLast: frame.fin)
            guard frame.fin else { return parts.take(frame.length) }
            parts.end()
            return true
        default: return true
        }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let frame = unwrapInboundIn(data)
        let isMessage = frame.opcode == .text
        clocks.noteFrame(second: loop.second, isMessage: isMessage)
        switch frame.opcode {
        case .connectionClose:
            close(WebSocketConnection.answer(to: frame.unmaskedData))
            context.close(promise: nil)
        case _ where isClosing: break
        case .text: loop.handler.received(Array(frame.unmaskedData.readableBytesView), responder)
        case .binary: close(Code.unsupported)
        case .ping, .pong:
            guard guardian.admits(.control, second: loop.second) else { return close(Code.tooMuch) }
            if frame.opcode == .ping {
                ping = frame.unmaskedData
                markDirty()
            }
        default: close(Code.protocolError)
        }
    }

    /// The code that answers a CLOSE: the body is empty, or a code of RFC 6455 §7.4 and perhaps a reason in
    /// UTF-8.
    private static func answer(to data: ByteBuffer) -> UInt16 {
        guard data.readableBytes > 0 else { return Code.normal }
        guard let code = data.getInteger(at: data.readerIndex, as: UInt16.self) else {
            return Code.protocolError
        }
        let reason = data.readableBytesView.dropFirst(2)
        guard String(validating: reason, as: UTF8.self) != nil else { return Code.protocolError }
        switch code {
        case 1000...1003, 1007...1014, 3000...4999: return Code.normal
        default: return Code.protocolError
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        switch error {
        // NIO has said so to the client already, and closes the connection.
        case is NIOWebSocketError:
            isClosing = true
            clocks.noteClosing(second: loop.second)
        case WebSocketFault.noRoom: close(Code.tryAgainLater)
        case is WebSocketFault: close(Code.protocolError)
        case NIOWebSocketFrameAggregator.Error.accumulatedFrameSizeIsTooLarge,
            NIOWebSocketFrameAggregator.Error.tooManyFragments:
            close(Code.tooLong)
        case is NIOWebSocketFrameAggregator.Error: close(Code.protocolError)
        default: context.close(promise: nil)
        }
    }

    func channelInactive(context: ChannelHandlerContext) { lose() }

    /// NIO does not report `channelInactive` to a handler that was added to a connection already broken.
    func handlerRemoved(context: ChannelHandlerContext) { lose() }

    private func lose() {
        guard context != nil else { return }
        loop.connections.remove(self)
        context = nil
        isClosing = true
        ping = nil
        pending.clear()
        streams.end()
        parts.end()
        responder.close()
        loop.handler.cancelled(responder)
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        guard context.channel.isWritable else { return }
        pending.clear()
        markDirty()
    }

    func sweep(_ second: Int) {
        guard let context else { return }
        let isFull = responder.mayKeep && !streams.sweep([responder]).isEmpty
        // Its queue is gone, and messages with it.
        if isFull { return context.close(promise: nil) }
        switch clocks.sweep(second, stuck: !context.channel.isWritable) {
        case .none: break
        case .ping: write(.ping, context.channel.allocator.buffer(capacity: 0), to: context)
        case .end: close(Code.goingAway)
        case .refuse: close(Code.tooMuch)
        case .drop: context.close(promise: nil)
        }
    }

    func drain() { close(Code.goingAway) }

    // MARK: To the client

    func wake(_ responder: Responder) { markDirty() }

    /// A WebSocket has one responder, whose answer has begun.
    func respond(_ responder: Responder, _ response: HTTPResponse) {}
    func request(of responder: Responder) -> HTTPRequest? { nil }
    func serve(_ responder: Responder) {}
    func openStream(_ responder: Responder, status: Int, fields: [(name: String, value: String)]) {}
    func noteRefused(_ share: UInt64, bodyBytes: Int) { loop.noteRefused(share, bodyBytes: bodyBytes) }

    func flush() {
        isDirty = false
        guard let context, !isClosing, context.channel.isWritable else { return }
        if let data = ping.take() { context.write(frame(.pong, data), promise: nil) }
        var written = 0
        while written < loop.configuration.pendingBytesMax, let chunk = responder.takeChunk() {
            written += chunk.bytes.count
            context.write(frame(.text, ByteBuffer(bytes: chunk.bytes)), promise: nil)
        }
        context.flush()
        if responder.noteDrained() { loop.handler.drained(responder) }
        guard self.context != nil else { return }
        if !context.channel.isWritable, !pending.add(written) { return context.close(promise: nil) }
        guard !responder.hasQueued else { return context.channel.isWritable ? markDirty() : () }
        if responder.state == .ending { close(responder.closeCode) }
    }

    private func frame(_ opcode: WebSocketOpcode, _ data: ByteBuffer) -> NIOAny {
        wrapOutboundOut(WebSocketFrame(fin: true, opcode: opcode, data: data))
    }

    private func write(_ opcode: WebSocketOpcode, _ data: ByteBuffer, to context: ChannelHandlerContext) {
        guard !isClosing else { return }
        context.writeAndFlush(frame(opcode, data), promise: nil)
    }

    /// Sends a CLOSE, unless one was sent. The client answers it, or the connection ends after
    /// `lingerSeconds`.
    private func close(_ code: UInt16) {
        guard let context, !isClosing else { return }
        var data = context.channel.allocator.buffer(capacity: 2)
        data.write(webSocketErrorCode: WebSocketErrorCode(codeNumber: Int(code)))
        write(.connectionClose, data, to: context)
        isClosing = true
        clocks.noteClosing(second: loop.second)
    }
}
