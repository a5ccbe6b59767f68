import HTTP2
import HTTPMessages
import NIOCore

/// A connection that speaks HTTP/2: moves bytes between its session and the socket.
final class HTTP2Connection: ChannelInboundHandler, ServerSessionDelegate, Flushable, EdgeConnection,
    PausableConnection
{
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    let loop: EdgeLoop
    private let isSecure: Bool
    private let client: ClientAddress?
    private var session: ServerSession?
    private(set) var context: ChannelHandlerContext?
    var isDirty = false
    private var isClosing = false
    /// The channel's last report. To ask the channel for each delivery would cost a few per cent of the
    /// delivery.
    private var isWritable = true
    /// The loop does not read this connection because too much of a share waits.
    private var isPaused = false
    private var deadlines: ConnectionDeadlines
    private var pending: PendingBytes

    /// `opened`: the second in which the connection was created.
    init(loop: EdgeLoop, opened: Int, isSecure: Bool, client: ClientAddress?) {
        self.loop = loop
        deadlines = ConnectionDeadlines(loop.configuration, second: opened)
        pending = PendingBytes(loop.budgets.pending, for: loop.budgets.key(of: client))
        self.isSecure = isSecure
        self.client = client
    }

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        isWritable = context.channel.isWritable
        session = ServerSession(
            delegate: self, configuration: loop.configuration, budgets: loop.budgets,
            address: loop.budgets.key(of: client), pool: loop.pool)
        session?.second = loop.second
        loop.connections.insert(self)
        markDirty()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isClosing, let session else { return }
        session.second = loop.second
        let isGood = unwrapInboundIn(data).withUnsafeReadableBytes { session.receive($0) }
        if !isGood { isClosing = true }
        markDirty()
    }

    func channelInactive(context: ChannelHandlerContext) { lose() }

    /// NIO does not report `channelInactive` to a handler that was added to a connection already broken.
    func handlerRemoved(context: ChannelHandlerContext) { lose() }

    private func lose() {
        loop.connections.remove(self)
        pending.clear()
        isClosing = true
        let ending = session
        session = nil
        context = nil
        ending?.end()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        isWritable = context.channel.isWritable
        if isWritable {
            pending.clear()
            markDirty()
        }
    }

    func drain() {
        session?.goAway()
        markDirty()
    }

    func sweep(_ second: Int) {
        guard let context, let session else { return }
        session.second = second
        var heading = session.blockSince
        for responder in session.open {
            if !responder.isHeaded {
                heading = min(heading ?? .max, responder.began)
            } else if loop.isImpatient, responder.reading != nil, !responder.isReceived {
                session.reset(responder.streamID, .refusedStream)
                markDirty()
            } else if responder.owes, responder.isUnread {
                session.reset(responder.streamID, .noError)
                markDirty()
            } else if deadlines.isOver(second, stream: responder) {
                session.reset(responder.streamID, .cancel)
                markDirty()
            }
        }
        if session.sweep() { markDirty() }
        let isOver = deadlines.noteState(
            second, open: session.open.count, heading: heading, receiving: nil, stuck: !isWritable)
        guard isOver else { return }
        // A client that does not read would not read GOAWAY either.
        guard isWritable else { return context.close(promise: nil) }
        session.terminate()
        isClosing = true
        markDirty()
    }

    // MARK: Writing

    func flush() {
        isDirty = false
        guard let context, let session, isWritable || isClosing else { return }
        var written = 0
        loop.write { buffer in
            session.produce(limit: loop.configuration.pendingBytesMax) { buffer.writeBytes($0) }
            written = buffer.readableBytes
        } to: {
            context.writeAndFlush(wrapOutboundOut($0), promise: nil)
        }
        // A failed write has already ended the connection.
        guard self.context != nil else { return }
        if !isWritable, written > 0, !pending.add(written) { return context.close(promise: nil) }
        if isClosing || !session.wantsToGoOn { context.close(promise: nil) }
    }

    var peer: Peer { Peer.of(context, client) }

    // MARK: Requests

    func began(_ responder: Responder) {
        responder.began = loop.second
    }

    func greeted() { deadlines.hasBegun = true }

    func headed(_ responder: Responder) { responder.isHeaded = true }

    func admit(_ request: HTTPRequest) -> BodyAdmission {
        request.isSecure = isSecure
        request.client = client
        return loop.handler.admit(request) { self.peer }
    }

    func received(_ responder: Responder) {
        let bytes = bodyBytes(of: responder)
        let unpacking = responder.reading.map { loop.unpacking(of: $0) } ?? 0
        guard let full = loop.received(responder, bodyBytes: bytes, unpacking: unpacking), !isPaused else {
            return
        }
        isPaused = true
        try? context?.channel.syncOptions?.setOption(.autoRead, value: false)
        loop.notePaused(self, full)
    }

    private func bodyBytes(of responder: Responder) -> Int {
        guard let request = responder.reading else { return 0 }
        request.isSecure = isSecure
        request.client = client
        // An indexed field costs its sender a byte, so long header blocks count as bodies do.
        return request.body.count + max(0, request.head.bytes - EdgeConfiguration.usualFieldBytes)
    }

    func noteRefused(_ share: UInt64, bodyBytes: Int) {
        loop.noteRefused(share, bodyBytes: bodyBytes)
    }

    func request(of responder: Responder) -> HTTPRequest? { responder.reading }

    func resume() {
        isPaused = false
        try? context?.channel.syncOptions?.setOption(.autoRead, value: true)
    }

    func serve(_ responder: Responder) {
        session?.serve(responder)
        markDirty()
    }

    func handle(_ request: HTTPRequest, _ responder: Responder) {
        loop.handler.handle(request, responder)
    }

    func closed(_ responder: Responder) {
        let mustTell = responder.state != .answered
        responder.close()
        if mustTell { loop.handler.cancelled(responder) }
    }

    func answered(_ status: Int) { loop.counters.answers.add(status) }

    func drained(_ responder: Responder) { loop.handler.drained(responder) }

    func respond(_ responder: Responder, _ response: HTTPResponse) {
        session?.respond(responder, response, date: loop.date)
        markDirty()
    }

    func openStream(_ responder: Responder, status: Int, fields: [(name: String, value: String)]) {
        session?.openStream(responder, status: status, fields: fields, date: loop.date)
        markDirty()
    }

    func wake(_ responder: Responder) {
        session?.wake(responder)
        markDirty()
    }
}
