import Glibc
import NIOCore
import NIOPosix
import PushScheduling

/// Moves bytes between a session and the socket, behind TLS. Confined to the client's event loop.
final class ServiceConnection: ChannelInboundHandler, ClientSessionDelegate {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    /// Bytes that go to the socket at once.
    private static let writeBytes = 64 << 10

    let id: APNsConnectionID
    private let loop: ClientLoop
    private var session: ClientSession?
    private var context: ChannelHandlerContext?
    private var isWritable = true
    private var isDirty = false
    private var isClosing = false
    /// Why the connection ends, if that is known.
    private(set) var failure: String?

    init(_ id: APNsConnectionID, _ loop: ClientLoop) {
        self.id = id
        self.loop = loop
    }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    /// TLS is done. `name`: the protocol that the service chose (ALPN, RFC 7301).
    func established(_ name: String) throws {
        guard name == "h2" else {
            let chosen = name.isEmpty ? "no protocol" : name
            fail("the service chose \(chosen) instead of HTTP/2 (ALPN h2)")
            throw ChannelError.inappropriateOperationForState
        }
        guard let context, loop.took(self) else { throw ChannelError.ioOnClosedChannel }
        isWritable = context.channel.isWritable
        session = ClientSession(delegate: self, settings: loop.settings, second: loop.second)
        markDirty()
        loop.opened(id)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isClosing, let session else { return }
        loop.heard(id)
        let isGood = unwrapInboundIn(data).withUnsafeReadableBytes {
            session.receive($0, second: loop.second)
        }
        if !isGood { isClosing = true }
        markDirty()
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        isWritable = context.channel.isWritable
        loop.blocked(!isWritable, id)
        if isWritable { markDirty() }
        context.fireChannelWritabilityChanged()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        fail(ServiceConnection.reason(error))
        context.close(promise: nil)
    }

    /// The first reason is the one that counts.
    private func fail(_ reason: String) {
        failure = failure ?? reason
        loop.noteFailure(id, reason)
    }

    func channelInactive(context: ChannelHandlerContext) { lose() }

    func handlerRemoved(context: ChannelHandlerContext) { lose() }

    private func lose() {
        context = nil
        guard let ending = session else { return }
        session = nil
        let why = failure ?? ending.failure ?? "the service closed the connection"
        loop.ended(self, reason: why, ending.end())
    }

    /// Ends the connection with a goodbye. Returns the streams whose outcome nobody has.
    func close() -> [(stream: ClientStream, end: StreamEnd)] {
        guard let ending = session else {
            context?.close(promise: nil)
            return []
        }
        session = nil
        if let context, isWritable {
            ending.terminate()
            write(ending, context)
        }
        context?.close(promise: nil)
        return ending.end()
    }

    // MARK: Requests

    func start(_ head: SentHead, body: [UInt8], ticket: ConnectionPools.Ticket) -> Bool {
        guard let session, session.start(head, body: body, ticket: ticket) else { return false }
        markDirty()
        return true
    }

    func cancel(
        _ ticket: ConnectionPools.Ticket, reason: String
    ) -> (stream: ClientStream, end: StreamEnd)? {
        defer { markDirty() }
        return session?.cancel(ticket, reason: reason)
    }

    func ping() {
        session?.ping()
        markDirty()
    }

    func allowed(_ streams: Int) { loop.allowed(streams, on: id) }

    func goneAway(_ debugData: [UInt8]) { loop.goneAway(id, debugData) }

    func closed(_ stream: ClientStream, _ end: StreamEnd) { loop.closed(stream, end, on: id) }

    // MARK: Writing

    private func markDirty() {
        guard !isDirty, session != nil else { return }
        isDirty = true
        loop.markDirty(self)
    }

    func flush() {
        isDirty = false
        guard let context, let session, isWritable || isClosing else { return }
        write(session, context)
        // A failed write has already ended the connection.
        guard self.session != nil else { return }
        if isClosing || !session.wantsToGoOn {
            failure = failure ?? session.failure
            context.close(promise: nil)
        } else if isWritable, session.wantsToWrite {
            markDirty()
        }
    }

    private func write(_ session: ClientSession, _ context: ChannelHandlerContext) {
        var buffer = context.channel.allocator.buffer(capacity: 4096)
        session.produce(limit: ServiceConnection.writeBytes) { buffer.writeBytes($0) }
        guard buffer.readableBytes > 0 else { return }
        context.writeAndFlush(wrapOutboundOut(buffer), promise: nil)
    }

    // MARK: Errors

    /// Why a connection could not be made or has failed, in words for a log.
    static func reason(_ error: any Error) -> String {
        switch error {
        case let error as NIOConnectionError:
            if let first = error.connectionErrors.first { return reason(first.error) }
            return "the host name \(error.host) is not known"
        case let error as IOError: return String(cString: strerror(error.errnoCode))
        case ChannelError.connectTimeout: return "no answer in time"
        default: return "\(error)"
        }
    }
}
