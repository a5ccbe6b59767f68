import Listener
import Model
import NIOCore
import NIOPosix
import Synchronization
import TLS

/// What a node receives from the connections with its peers, on the event loop of each connection.
public struct PeerEvents: Sendable {
    /// The clock of deadlines, from which `received` takes its moment. NIO's clock may be another one, which
    /// stops while the machine is suspended.
    public var now: @Sendable () -> MonotonicTime
    /// Messages of another process, in the order in which one of its loops sent them. That loop handed them
    /// over later than `after`, a moment on this process's clock, however long they lay on the way
    /// (rule: deadlines-travel).
    public var received: @Sendable (_ from: ProcessID, [UInt8], _ after: MonotonicTime) -> Void
    /// A connection to or from the process has ended after its greeting. What was under way is lost.
    public var reset: @Sendable (_ processID: ProcessID) -> Void
    /// The process has connected again, and its earlier messages may be lost, even if this side saw no
    /// connection break. A connection that the process gave up may still look alive here, and frames that
    /// waited there for a connection may be gone. Called before anything that comes over the new connection.
    /// Also called if this side has dropped frames that waited for the process.
    public var renewed: @Sendable (_ processID: ProcessID) -> Void
    /// This side has refused a connection, for a reason that is a sentence for the log.
    public var refused: @Sendable (String) -> Void
    /// The state of the connection that a loop of this process makes to another process.
    public var link: @Sendable (_ processID: ProcessID, _ loop: Int, Report) -> Void

    public enum Report: Hashable, Sendable {
        /// The other side has greeted.
        case stands
        /// Too much waits for the other side; a sentence. `broke` follows when the connection has ended.
        case cutOff(String)
        /// An open connection has ended.
        case broke
        /// The connection could not be made, and why.
        case failed(String)
    }

    public init(
        now: @escaping @Sendable () -> MonotonicTime,
        received: @escaping @Sendable (ProcessID, [UInt8], MonotonicTime) -> Void,
        reset: @escaping @Sendable (ProcessID) -> Void,
        renewed: @escaping @Sendable (ProcessID) -> Void = { _ in },
        refused: @escaping @Sendable (String) -> Void,
        link: @escaping @Sendable (ProcessID, Int, Report) -> Void = { _, _, _ in }
    ) {
        self.now = now
        self.link = link
        self.received = received
        self.reset = reset
        self.renewed = renewed
        self.refused = refused
    }
}

public enum PeerTiming {
    /// A connection that is silent for this long counts as half open, and is closed.
    public static let silence = TimeAmount(waitMax)
    static let ping = TimeAmount.seconds(2)
    static let connect = TimeAmount.seconds(2)
    /// Frames that have waited longer than this are dropped when the connection is there.
    static let waitMax = TimeSpan.seconds(8)
    static let pingsMax = 16
    static let backoffMin = TimeAmount.milliseconds(100)
    static let backoffMax = TimeAmount.milliseconds(1500)
    /// The most that may wait for one peer on one loop. Past the bound the loop closes the connection: both
    /// ends ask again for what is lost, and control messages are not stuck behind the backlog. A frame takes
    /// about 400 bytes in addition to its payload.
    public static let backlog = Backlog.Bound(entries: 1 << 17, bytes: 64 << 20)
    /// Answers to pings that the peer has not read. A peer that asks for more without reading is refused.
    static let pongsMax = 64
}

/// The newest connection of each loop of each process. A frame on an older connection may lie in a socket for
/// long, while its messages are asked again and answered. This process must not act on that frame then.
final class NewestConnections: Sendable {
    private struct Speaker: Hashable {
        var processID: ProcessID
        var loop: UInt16
    }
    static let speakersMax = 16_384
    private let connectionNumbers = Mutex<[Speaker: UInt64]>([:])

    /// False if a newer connection of the same loop is known.
    func register(_ hello: PeerIdentity) -> Bool {
        connectionNumbers.withLock { connectionNumbers in
            let speaker = Speaker(processID: hello.processID, loop: hello.loop)
            guard hello.connectionNumber >= connectionNumbers[speaker] ?? 0 else { return false }
            if connectionNumbers.count >= NewestConnections.speakersMax,
                let oldest = connectionNumbers.keys.map(\.processID).min()
            {
                connectionNumbers = connectionNumbers.filter { $0.key.processID != oldest }
            }
            connectionNumbers[speaker] = hello.connectionNumber
            return true
        }
    }

    func isNewest(_ hello: PeerIdentity) -> Bool {
        connectionNumbers.withLock { $0[Speaker(processID: hello.processID, loop: hello.loop)] ?? 0 }
            <= hello.connectionNumber
    }
}

/// The listening side of a node's links to its peers.
public final class PeerServer: Sendable {
    private let channel: any Channel
    public let port: Int

    public init(
        group: any EventLoopGroup, host: String, port: Int, identity: PeerIdentity, trust: PeerTrust,
        tls: PeerTLS? = nil, gate: ListenerGate = ListenerGate(ConnectionGate.Bounds()), events: PeerEvents
    ) throws {
        let newest = NewestConnections()
        let bootstrap = gate.guarding(ServerBootstrap(group: group))
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .serverChannelOption(.backlog, value: 256)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    var handler: TLSHandler?
                    if let tls {
                        guard let made = TLSHandler(tls.context) else { return channel.close(promise: nil) }
                        try channel.pipeline.syncOperations.addHandler(made)
                        handler = made
                    }
                    try channel.pipeline.syncOperations.addHandler(
                        PeerHandler(
                            identity: identity, expected: nil, newest: newest, trust: trust, tls: handler,
                            events: events, connected: { _, _ in }))
                }
            }
        channel = try ListenError.naming("\(host):\(port)") {
            try bootstrap.bind(host: host, port: port).wait()
        }
        self.port = channel.localAddress?.port ?? port
    }

    /// Accepts no new connections; open connections go on.
    @discardableResult
    public func close() -> EventLoopFuture<Void> { channel.close() }
}
