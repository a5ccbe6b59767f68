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
        group: any EventLoopGroup, host: String, port: Int, identity: PeerIdentity, tls: TLSContext? = nil,
        gate: ListenerGate = ListenerGate(ConnectionGate.Bounds()), events: PeerEvents
    ) throws {
        let newest = NewestConnections()
        channel = try gate.guarding(ServerBootstrap(group: group))
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .serverChannelOption(.backlog, value: 256)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    if let tls {
                        guard let handler = TLSHandler(tls) else { return channel.close(promise: nil) }
                        try channel.pipeline.syncOperations.addHandler(handler)
                    }
                    try channel.pipeline.syncOperations.addHandler(
                        PeerHandler(
                            identity: identity, expected: nil, newest: newest, events: events,
                            connected: { _, _ in }))
                }
            }
            .bind(host: host, port: port).wait()
        self.port = channel.localAddress?.port ?? port
    }

    /// Takes no new connections; those that stand go on.
    @discardableResult
    public func close() -> EventLoopFuture<Void> { channel.close() }
}

/// One connection between two processes, on either side: greets, checks, hands data on, and ends it where
/// nothing is heard.
final class PeerHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let identity: PeerIdentity
    /// Whom the connecting side wants to reach.
    private let expected: UInt32?
    /// On the listening side.
    private let newest: NewestConnections?
    private let events: PeerEvents
    private let connected: (any Channel, Dialect) -> Void
    /// Told before the connection ends, where this side knows why it does.
    private let failed: (String) -> Void
    private var received = ByteBuffer()
    private var peer: PeerIdentity?
    private var dialect = Dialect.greeting
    private var isOver = false
    private var lastHeard = NIODeadline.now()
    /// When each ping was sent whose answer is to come, and when the last one that was answered was: the
    /// other side has handed over what comes behind an answer after it saw the question.
    private var pings: [MonotonicTime] = []
    private var answered = MonotonicTime(nanoseconds: 0)
    private var watch: RepeatedTask?
    private var pongs = 0

    init(
        identity: PeerIdentity, expected: UInt32?, newest: NewestConnections? = nil, events: PeerEvents,
        connected: @escaping (any Channel, Dialect) -> Void,
        failed: @escaping (String) -> Void = { _ in }
    ) {
        self.failed = failed
        self.identity = identity
        self.expected = expected
        self.newest = newest
        self.events = events
        self.connected = connected
    }

    func channelActive(context: ChannelHandlerContext) {
        var buffer = context.channel.allocator.buffer(capacity: 128)
        Frame.write(.hello, identity.encoded, in: .greeting, to: &buffer)
        context.writeAndFlush(wrapOutboundOut(buffer), promise: nil)
        lastHeard = .now()
        // What comes first may have waited for this connection.
        let now = events.now().nanoseconds
        answered = MonotonicTime(nanoseconds: now - min(now, UInt64(PeerTiming.waitMax.nanoseconds)))
        let channel = context.channel
        let box = NIOLoopBound(self, eventLoop: context.eventLoop)
        watch = context.eventLoop.scheduleRepeatedTask(initialDelay: PeerTiming.ping, delay: PeerTiming.ping)
        { _ in
            box.value.look(channel)
        }
    }

    private func look(_ channel: any Channel) {
        guard NIODeadline.now() - lastHeard < PeerTiming.silence else {
            failed("it accepts connections and says nothing")
            channel.close(promise: nil)
            return
        }
        ping(channel)
    }

    private func ping(_ channel: any Channel) {
        // Who has not greeted knows no frames but the greeting.
        guard peer != nil, pings.count < PeerTiming.pingsMax else { return }
        pings.append(events.now())
        var buffer = channel.allocator.buffer(capacity: 32)
        Frame.write(.ping, [], in: dialect, to: &buffer)
        channel.writeAndFlush(buffer, promise: nil)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isOver else { return }
        lastHeard = .now()
        var bytes = unwrapInboundIn(data)
        if received.readableBytes == 0 { received = bytes } else { received.writeBuffer(&bytes) }
        do throws(Frame.Fault) {
            while !isOver,
                let frame = try Frame.read(from: &received, in: dialect, payloadMax: payloadMax)
            {
                handle(frame, context)
            }
        } catch {
            refuse("\(peer?.name ?? "somebody") sent what is not understood: \(error)", context)
        }
        received.discardReadBytes()
    }

    private var payloadMax: Int { peer == nil ? Frame.greetingBytesMax : Frame.payloadBytesMax }

    private func handle(_ frame: (kind: Frame.Kind, payload: [UInt8]), _ context: ChannelHandlerContext) {
        guard let peer else {
            guard frame.kind == .hello, let hello = PeerIdentity(decoding: frame.payload) else {
                return refuse("a connection to the peer port did not greet", context)
            }
            return greet(hello, context)
        }
        switch frame.kind {
        case .data:
            guard newest?.isNewest(peer) ?? true else {
                isOver = true
                return context.close(promise: nil)
            }
            events.received(peer.life, frame.payload, answered)
        case .ping: pong(peer, context)
        case .pong: if !pings.isEmpty { answered = pings.removeFirst() }
        case .hello: refuse("\(peer.name) greeted twice", context)
        }
    }

    private func pong(_ peer: PeerIdentity, _ context: ChannelHandlerContext) {
        guard pongs < PeerTiming.pongsMax else {
            return refuse("node \(peer.name) asks for signs of life and does not read them", context)
        }
        pongs += 1
        var buffer = context.channel.allocator.buffer(capacity: 32)
        Frame.write(.pong, [], in: dialect, to: &buffer)
        let box = NIOLoopBound(self, eventLoop: context.eventLoop)
        context.writeAndFlush(wrapOutboundOut(buffer)).whenComplete { _ in box.value.pongs -= 1 }
    }

    private func greet(_ hello: PeerIdentity, _ context: ChannelHandlerContext) {
        guard hello.cluster == identity.cluster else {
            return refuse(
                "node \(hello.name) is of another cluster: check the database and the addresses of both",
                context)
        }
        if let expected, hello.life != expected {
            // The address has a new process; the table will say so soon.
            return refuse("node \(hello.name) has been started anew", context)
        }
        guard let common = Dialect.common(identity, hello) else {
            return refuse(
                "no version of frames is common: \(identity.speech), \(hello.speech); go from one version to"
                    + " the next in steps", context)
        }
        guard newest?.adopt(hello) ?? true else {
            return refuse("node \(hello.name) has connected anew meanwhile", context)
        }
        (peer, dialect) = (hello, common)
        if expected == nil { events.renewed(hello.life) }
        connected(context.channel, common)
        ping(context.channel)
    }

    private func refuse(_ reason: String, _ context: ChannelHandlerContext) {
        guard !isOver else { return }
        isOver = true
        events.refused(reason)
        failed(reason)
        context.close(promise: nil)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if let error = error as? TLSError { return refuse("between nodes \(error)", context) }
        failed(ConnectFailure.reason(error))
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) {
        isOver = true
        watch?.cancel()
        watch = nil
        if let peer { events.reset(peer.life) }
        context.fireChannelInactive()
    }
}
