import Glibc
import Model
import NIOCore
import NIOPosix
import TLS

/// One event loop's connections to all other processes: one each, made when there is something to say, or as
/// soon as the process is known, and made again while it is a member. Confined to its loop.
public final class PeerConnections {
    public struct Address: Hashable, Sendable {
        public var host: String
        public var port: Int
        public init(host: String, port: Int) {
            self.host = host
            self.port = port
        }

        /// As `init(_:)` reads it.
        public var text: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }

        /// `HOST:PORT`; brackets around an IPv6 address.
        public init?(_ text: String) {
            guard let colon = text.lastIndex(of: ":"), let port = Int(text[text.index(after: colon)...]),
                (1...65_535).contains(port)
            else { return nil }
            var host = String(text[..<colon])
            if host.hasPrefix("["), host.hasSuffix("]") { host = String(host.dropFirst().dropLast()) }
            guard !host.isEmpty else { return nil }
            self.init(host: host, port: port)
        }
    }

    private struct Peer {
        var address: Address
        var channel: (any Channel)?
        var dialect = Dialect.greeting
        var isConnecting = false
        /// Why the connection that is being made will not stand, where that is known already.
        var failure: String?
        /// The last try failed; the next is at its time, however much there is to say until then.
        var isBackingOff = false
        /// What is to be sent when the connection stands.
        var waiting: [[UInt8]] = []
        /// When the first of it came.
        var waitingSince = MonotonicTime(nanoseconds: 0)
        /// That, and what the connection has not written yet.
        var backlog: Backlog
        var backoff = PeerTiming.backoffMin
    }

    private let eventLoop: any EventLoop
    private let identity: PeerIdentity
    private let events: PeerEvents
    private let trust: PeerTrust
    private let tls: PeerTLS?
    /// Whether connections are made before there is anything to say: one loop of a process does that, so that
    /// it is known who can be reached.
    private let isEager: Bool
    private let bound: Backlog.Bound
    private var peers: [UInt32: Peer] = [:]
    private var isClosed = false
    /// Connections that were begun.
    private var turns: UInt64 = 0

    public init(
        eventLoop: any EventLoop, identity: PeerIdentity, trust: PeerTrust, tls: PeerTLS? = nil,
        isEager: Bool = false,
        bound: Backlog.Bound = PeerTiming.backlog, events: PeerEvents
    ) {
        self.bound = bound
        self.isEager = isEager
        self.eventLoop = eventLoop
        self.tls = tls
        self.identity = identity
        self.trust = trust
        self.events = events
    }

    /// The processes that are members now. Connections to others are closed.
    public func adopt(_ addresses: [UInt32: Address]) {
        guard !isClosed else { return }
        for (life, peer) in peers where addresses[life] != peer.address {
            peer.channel?.close(promise: nil)
            peers[life] = nil
        }
        for (life, address) in addresses where peers[life] == nil && life != identity.life {
            peers[life] = Peer(address: address, backlog: Backlog(bound))
            if isEager { connect(life) }
        }
    }

    /// How far the process is behind with what was sent to it.
    public func pressure(of life: UInt32) -> Pressure { peers[life]?.backlog.pressure ?? .none }

    /// Sends messages in one frame. False where the process is unknown or too much waits for it: they are
    /// lost. A connection on which too much waits is ended: what is lost with it is asked again.
    public func send(_ payload: [UInt8], to life: UInt32) -> Bool {
        guard let peer = peers[life], payload.count <= Frame.payloadBytesMax else { return false }
        guard peer.channel?.isActive ?? true else { return false }
        let isTaken = peers[life]?.backlog.take(bytes: payload.count) ?? false
        guard let channel = peer.channel else {
            guard isTaken else { return false }
            if peer.waiting.isEmpty { peers[life]?.waitingSince = events.now() }
            peers[life]?.waiting.append(payload)
            connect(life)
            return true
        }
        guard isTaken else {
            cutOff(channel, peer, life)
            return false
        }
        write(payload, channel, peer.dialect, life)
        return true
    }

    private func cutOff(_ channel: any Channel, _ peer: Peer, _ life: UInt32) {
        let waiting = "\(peer.backlog.entries) frames, \(peer.backlog.bytes) bytes, wait for it"
        events.link(life, Int(identity.loop), .cutOff("it does not take what it is sent: \(waiting)"))
        channel.close(promise: nil)
    }

    private func write(
        _ payload: [UInt8], _ channel: any Channel, _ dialect: Dialect, _ life: UInt32
    ) {
        var buffer = channel.allocator.buffer(capacity: payload.count + Frame.headerBytes)
        Frame.write(.data, payload, in: dialect, to: &buffer)
        let box = NIOLoopBound(self, eventLoop: eventLoop)
        let count = payload.count
        channel.writeAndFlush(buffer).whenComplete { _ in
            // What a connection that is gone did not write was forgotten with it.
            guard box.value.peers[life]?.channel === channel else { return }
            box.value.peers[life]?.backlog.remove(bytes: count)
        }
    }

    private func connect(_ life: UInt32) {
        guard let peer = peers[life], !peer.isConnecting, !peer.isBackingOff, peer.channel == nil else {
            return
        }
        peers[life]?.isConnecting = true
        peers[life]?.failure = nil
        let box = NIOLoopBound(self, eventLoop: eventLoop)
        turns += 1
        var greeting = identity
        greeting.turn = turns
        let identity = greeting
        let events = events
        let (tls, trust) = (tls, trust)
        ClientBootstrap(group: eventLoop)
            .connectTimeout(PeerTiming.connect)
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    var handler: TLSHandler?
                    if let tls {
                        guard let made = TLSHandler(tls.context, side: .client(host: nil)) else {
                            return channel.close(promise: nil)
                        }
                        try channel.pipeline.syncOperations.addHandler(made)
                        handler = made
                    }
                    try channel.pipeline.syncOperations.addHandler(
                        PeerHandler(
                            identity: identity, expected: life, trust: trust, tls: handler, events: events,
                            connected: { box.value.connected($0, $1, life) },
                            failed: { box.value.peers[life]?.failure = $0 }))
                }
            }
            .connect(host: peer.address.host, port: peer.address.port)
            .whenComplete { result in
                switch result {
                case .success(let channel):
                    channel.closeFuture.whenComplete { _ in box.value.closed(life) }
                case .failure(let error):
                    box.value.peers[life]?.failure = ConnectFailure.reason(error)
                    box.value.closed(life)
                }
            }
    }

    /// The other side has greeted: it is the process that was meant.
    private func connected(_ channel: any Channel, _ dialect: Dialect, _ life: UInt32) {
        guard var peer = peers[life] else { return channel.close(promise: nil) }
        (peer.channel, peer.dialect) = (channel, dialect)
        peer.isConnecting = false
        peer.backoff = PeerTiming.backoffMin
        events.link(life, Int(identity.loop), .stands)
        let waiting = peer.waiting
        peer.waiting = []
        // The other side takes what comes for no older than that; a process that slept may have older.
        let waited = events.now().since(peer.waitingSince)
        if !waiting.isEmpty, waited > UInt64(PeerTiming.waitMax.nanoseconds) {
            peer.backlog.clear()
            peers[life] = peer
            return events.renewed(life)
        }
        peers[life] = peer
        for payload in waiting { write(payload, channel, dialect, life) }
    }

    private func closed(_ life: UInt32) {
        guard var peer = peers[life] else { return }
        let hadMessages = !peer.waiting.isEmpty
        let report: PeerEvents.Report =
            peer.channel == nil
            ? .failed(peer.failure ?? "it ended the connection before it greeted: its log may say why")
            : .broke
        // Who has lost a connection may ask again at once; who was refused would be refused again.
        peer.isBackingOff = peer.channel == nil
        peer.channel = nil
        peer.isConnecting = false
        peer.waiting = []
        peer.backlog.clear()
        let wait = peer.backoff
        peer.backoff = min(PeerTiming.backoffMax, TimeAmount.nanoseconds(wait.nanoseconds * 2))
        peers[life] = peer
        events.link(life, Int(identity.loop), report)
        // Nothing broke, but what waited is forgotten.
        if hadMessages { events.renewed(life) }
        let box = NIOLoopBound(self, eventLoop: eventLoop)
        eventLoop.scheduleTask(in: wait) {
            box.value.peers[life]?.isBackingOff = false
            box.value.connect(life)
        }
    }

    public func close() { _ = end() }

    /// Ends all connections and makes no new ones; what is returned is done when all are closed.
    public func end() -> EventLoopFuture<Void> {
        isClosed = true
        let channels = peers.values.compactMap(\.channel)
        peers = [:]
        for channel in channels { channel.close(promise: nil) }
        // However each of them ended.
        return EventLoopFuture.andAllComplete(channels.map(\.closeFuture), on: eventLoop)
    }
}

/// Why no connection could be made, in words for a log.
enum ConnectFailure {
    static func reason(_ error: any Error) -> String {
        switch error {
        case let error as NIOConnectionError:
            if let first = error.connectionErrors.first { return reason(first.error) }
            return "the name \(error.host) is not known"
        case let error as IOError: return String(cString: strerror(error.errnoCode))
        case ChannelError.connectTimeout:
            return "no answer within \(PeerTiming.connect.nanoseconds / 1_000_000_000) s"
        default: return "\(error)"
        }
    }
}
