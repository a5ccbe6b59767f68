import Glibc
import HTTPMessages
import Model
import NIOCore
import NIOPosix
import Synchronization

/// Counters of a gate.
public final class ListenerCounters: Sendable {
    /// Connections that the gate closed immediately because their address had too many.
    public let refusedOfAddress = Atomic<Int>(0)
    /// Connections that the gate closed immediately because their address makes them too fast.
    public let refusedTooFast = Atomic<Int>(0)
    /// Connections that a header of the PROXY protocol ended: it was malformed, or no proxy had sent it.
    public let proxyHeaders = Atomic<Int>(0)
    /// How often the listeners began to pause because all places were taken.
    public let pauses = Atomic<Int>(0)
    /// Connections that could not be accepted for lack of descriptors.
    public let failures = Atomic<Int>(0)
}

/// What a gate reports for the log. The gate reports each occurrence; its user bounds the log lines.
public enum ListenerNotice: Hashable, Sendable {
    /// All places are taken.
    case full(connections: Int)
    /// The process or the machine has no descriptor left.
    case outOfDescriptors(String)
    /// An address has as many connections as it may have.
    case tooManyOfAddress(String)
    /// An address makes connections faster than it may.
    case tooFast(String)
    /// An address has sent a header of the PROXY protocol that does not count, and why.
    case proxyHeader(String, String)
}

/// Carries out what `ConnectionGate` decides, for all listeners of one kind.
public final class ListenerGate: Sendable {
    private struct State {
        var gate: ConnectionGate
        var listeners: [any Channel] = []
        var isPaused = false
        var acceptedAtOnce = 1
    }

    private let state: Mutex<State>
    public let counters = ListenerCounters()
    let tell: @Sendable (ListenerNotice) -> Void

    public init(
        _ bounds: ConnectionGate.Bounds, tell: @escaping @Sendable (ListenerNotice) -> Void = { _ in }
    ) {
        var random = SystemRandomNumberGenerator()
        state = Mutex(State(gate: ConnectionGate(bounds, salt: random.next())))
        self.tell = tell
    }

    public var bounds: ConnectionGate.Bounds { state.withLock { $0.gate.bounds } }

    /// Puts the gate before a listener. The listener accepts one connection in a turn of its loop, or several
    /// while there are places enough.
    public func guarding(_ bootstrap: ServerBootstrap) -> ServerBootstrap {
        bootstrap.serverChannelOption(.maxMessagesPerRead, value: 1)
            .serverChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(GateHandler(self))
                }
            }
    }

    fileprivate func add(_ listener: any Channel) {
        state.withLock { $0.listeners.append(listener) }
        follow()
        set(listener)
    }

    fileprivate func remove(_ listener: any Channel) {
        state.withLock { $0.listeners.removeAll { $0 === listener } }
    }

    /// Whether the connection may stay.
    fileprivate func admit(_ connection: any Channel) -> Bool {
        let client = ClientAddress(connection.remoteAddress)
        let now = ListenerGate.now
        let (verdict, connectionsMax) = state.withLock {
            ($0.gate.admit(client, now: now), $0.gate.bounds.connectionsMax)
        }
        if verdict == .admitted {
            connection.closeFuture.whenComplete { _ in
                self.state.withLock { $0.gate.closed(client) }
                self.follow()
            }
        }
        note(verdict, of: ListenerGate.name(connection))
        if follow() {
            counters.pauses.add(1, ordering: .relaxed)
            tell(.full(connections: connectionsMax))
        }
        return verdict == .admitted
    }

    /// Counts the connection for the client that its proxy names. Returns false if the client has no room.
    func count(_ client: ClientAddress?, named name: String, of connection: any Channel) -> Bool {
        let now = ListenerGate.now
        let verdict = state.withLock { $0.gate.count(client, now: now) }
        note(verdict, of: name)
        guard verdict == .admitted else { return false }
        connection.closeFuture.whenComplete { _ in self.state.withLock { $0.gate.uncount(client) } }
        return true
    }

    private func note(_ verdict: ConnectionGate.Verdict, of name: @autoclosure () -> String) {
        switch verdict {
        case .admitted, .full: break
        case .tooManyOfAddress:
            counters.refusedOfAddress.add(1, ordering: .relaxed)
            tell(.tooManyOfAddress(name()))
        case .tooFast:
            counters.refusedTooFast.add(1, ordering: .relaxed)
            tell(.tooFast(name()))
        }
    }

    static func name(_ connection: any Channel) -> String {
        connection.remoteAddress?.ipAddress ?? "a local socket"
    }

    /// Returns true if the process or the machine has run out of descriptors or kernel memory. The listeners
    /// then pause, because the kernel would immediately report the waiting connection again.
    fileprivate func failed(_ error: any Error, on eventLoop: any EventLoop) -> Bool {
        guard let error = error as? IOError,
            [EMFILE, ENFILE, ENOBUFS, ENOMEM].contains(error.errnoCode)
        else { return false }
        counters.failures.add(1, ordering: .relaxed)
        tell(.outOfDescriptors(String(cString: strerror(error.errnoCode))))
        let now = ListenerGate.now
        let until = state.withLock { $0.gate.failed(now: now) }
        follow()
        eventLoop.scheduleTask(in: TimeAmount(until.since(now))) {
            self.state.withLock { $0.gate.look(now: ListenerGate.now) }
            self.follow()
        }
        return true
    }

    private static var now: MonotonicTime { MonotonicTime(nanoseconds: NIODeadline.now().uptimeNanoseconds) }

    /// Makes all listeners accept or pause as the gate decides now. Returns true if they began to pause.
    @discardableResult
    private func follow() -> Bool {
        let (changed, pauses) = state.withLock { state in
            let isPaused = !state.gate.isOpen
            let atOnce = state.gate.accepted(by: state.listeners.count)
            let pauses = isPaused && !state.isPaused
            guard state.isPaused != isPaused || state.acceptedAtOnce != atOnce else {
                return ([any Channel](), false)
            }
            state.isPaused = isPaused
            state.acceptedAtOnce = atOnce
            return (state.listeners, pauses)
        }
        for listener in changed { set(listener) }
        return pauses
    }

    /// Reads the state on the listener's own loop: of two changes the later one counts, in whichever order
    /// they arrive there.
    private func set(_ listener: any Channel) {
        let eventLoop = listener.eventLoop
        guard eventLoop.inEventLoop else { return eventLoop.execute { self.set(listener) } }
        let (isPaused, atOnce) = state.withLock { ($0.isPaused, $0.acceptedAtOnce) }
        listener.setOption(.maxMessagesPerRead, value: UInt(atOnce)).whenComplete { _ in }
        listener.setOption(.autoRead, value: !isPaused).whenComplete { _ in }
    }
}

/// Is in a listener's pipeline before NIO's handler for accepted connections.
private final class GateHandler: ChannelInboundHandler {
    typealias InboundIn = any Channel

    private let gate: ListenerGate
    init(_ gate: ListenerGate) { self.gate = gate }

    func channelActive(context: ChannelHandlerContext) {
        gate.add(context.channel)
        context.fireChannelActive()
    }

    func channelInactive(context: ChannelHandlerContext) {
        gate.remove(context.channel)
        context.fireChannelInactive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let connection = unwrapInboundIn(data)
        guard gate.admit(connection) else { return connection.close(promise: nil) }
        context.fireChannelRead(data)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if !gate.failed(error, on: context.eventLoop) { context.fireErrorCaught(error) }
    }
}

extension ClientAddress {
    /// `nil` for a local socket, and for a peer that has already disconnected.
    public init?(_ address: SocketAddress?) {
        switch address {
        case .v4(let v4): self.init(bytes: withUnsafeBytes(of: v4.address.sin_addr) { Array($0) })
        case .v6(let v6): self.init(bytes: withUnsafeBytes(of: v6.address.sin6_addr) { Array($0) })
        case .unixDomainSocket, nil: return nil
        }
    }
}
