import Listener
import Model
import NIOCore
import NIOPosix
import Synchronization
import TLS

/// What a node is told by its peers' connections. Called on whatever event loop the connection is on.
public struct PeerEvents: Sendable {
    /// The clock by which it is told when something was handed over: the one of deadlines. NIO's may be
    /// another, which stands still while the machine is suspended.
    public var now: @Sendable () -> MonotonicTime
    /// Messages of another process, in the order in which one of its loops sent them. They were handed over
    /// there after the moment that is told, on this process's clock, however long they have lain since.
    public var received: @Sendable (_ from: UInt32, [UInt8], _ after: MonotonicTime) -> Void
    /// A connection to or from it that stood is gone, and with it what was under way.
    public var reset: @Sendable (_ life: UInt32) -> Void
    /// It has connected anew. What it said before that may be lost, also where nothing was seen to break: a
    /// connection that it gave up may still look alive on this side, and what waited for one that it could
    /// not make is gone. Told before anything that comes over the new connection; and where this side has
    /// forgotten what was to be said to it.
    public var renewed: @Sendable (_ life: UInt32) -> Void
    /// Somebody who does not belong here; a sentence for the log.
    public var refused: @Sendable (String) -> Void
    /// What became of the connection that one of this process's loops makes to another process.
    public var link: @Sendable (_ life: UInt32, _ loop: Int, Report) -> Void

    public enum Report: Hashable, Sendable {
        /// The other side has greeted.
        case stands
        /// The other side does not take what it is sent; it is told as broken as well when it has ended.
        case cutOff(String)
        /// A connection that stood has ended.
        case broke
        /// It could not be made; why.
        case failed(String)
    }

    public init(
        now: @escaping @Sendable () -> MonotonicTime,
        received: @escaping @Sendable (UInt32, [UInt8], MonotonicTime) -> Void,
        reset: @escaping @Sendable (UInt32) -> Void,
        renewed: @escaping @Sendable (UInt32) -> Void = { _ in },
        refused: @escaping @Sendable (String) -> Void,
        link: @escaping @Sendable (UInt32, Int, Report) -> Void = { _, _, _ in }
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
    /// A connection on which nothing was heard for so long is half open, and ended.
    public static let silence = TimeAmount.seconds(8)
    static let ping = TimeAmount.seconds(2)
    static let connect = TimeAmount.seconds(2)
    /// What has waited longer for a connection is forgotten when it stands.
    static let waitMax = silence
    static let pingsMax = 16
    static let backoffMin = TimeAmount.milliseconds(100)
    static let backoffMax = TimeAmount.milliseconds(1500)
    /// What may wait for one peer, of one loop. Past it the connection is given up: whoever lost messages by
    /// that asks again, and control is not stuck behind them. A frame takes some 400 bytes besides its own.
    public static let backlog = Backlog.Bound(entries: 1 << 17, bytes: 64 << 20)
    /// Answers to pings that wait for a peer. Who asks so often and does not read is given up.
    static let pongsMax = 64
}

/// The newest connection of each loop of each process. What was sent over a former one may lie in a socket
/// for long and be read when everything has been asked again and answered: it must not be done any more then.
final class NewestConnections: Sendable {
    private struct Speaker: Hashable {
        var life: UInt32
        var loop: UInt16
    }
    static let speakersMax = 16_384
    private let turns = Mutex<[Speaker: UInt64]>([:])

    /// False where there is a newer one already.
    func adopt(_ hello: PeerIdentity) -> Bool {
        turns.withLock { turns in
            let speaker = Speaker(life: hello.life, loop: hello.loop)
            guard hello.turn >= turns[speaker] ?? 0 else { return false }
            if turns.count >= NewestConnections.speakersMax, let oldest = turns.keys.map(\.life).min() {
                turns = turns.filter { $0.key.life != oldest }
            }
            turns[speaker] = hello.turn
            return true
        }
    }

    func isNewest(_ hello: PeerIdentity) -> Bool {
        turns.withLock { $0[Speaker(life: hello.life, loop: hello.loop)] ?? 0 } <= hello.turn
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
        channel = try gate.guarding(ServerBootstrap(group: group))
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
            .bind(host: host, port: port).wait()
        self.port = channel.localAddress?.port ?? port
    }

    /// Takes no new connections; those that stand go on.
    @discardableResult
    public func close() -> EventLoopFuture<Void> { channel.close() }
}
