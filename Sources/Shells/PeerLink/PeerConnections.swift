import Glibc
import Model
import NIOCore
import NIOPosix
import TLS

/// One event loop's connections to all other processes, one for each process. The loop connects when it has a
/// frame to send, or as soon as it knows the process (`isEager`). While the process is a member, the loop
/// connects again after each end. Confined to its loop.
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
        /// Of the connection that was begun last. An earlier connection may still end, or greet.
        var connectionNumber: UInt64 = 0
        /// Why the connection that is being made will fail, if this side already knows the reason.
        var failure: String?
        /// The last try failed. The next try comes after the back-off, however many frames wait.
        var isBackingOff = false
        /// Frames that wait for the connection.
        var waiting: [[UInt8]] = []
        /// When the first waiting frame came.
        var waitingSince = MonotonicTime.zero
        /// The waiting frames, and the frames that the connection has not written yet.
        var backlog: Backlog
        var backoff = PeerTiming.backoffMin
    }

    private let eventLoop: any EventLoop
    private let identity: PeerIdentity
    private let events: PeerEvents
    private let trust: PeerTrust
    private let tls: PeerTLS?
    /// Whether the loop connects before it has anything to send. One loop of a process does, so that the
    /// process knows which others it can reach.
    private let isEager: Bool
    private let bound: Backlog.Bound
    private var peers: [ProcessID: Peer] = [:]
    private var isClosed = false
    /// How many connections this loop has begun, to all processes together.
    private var lastNumber: UInt64 = 0

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

    /// Sets the processes that are members now, and closes the connections to all others.
    public func setAddresses(_ addresses: [ProcessID: Address]) {
        guard !isClosed else { return }
        for (processID, peer) in peers where addresses[processID] != peer.address {
            peer.channel?.close(promise: nil)
            peers[processID] = nil
        }
        for (processID, address) in addresses where peers[processID] == nil && processID != identity.processID
        {
            peers[processID] = Peer(address: address, backlog: Backlog(bound))
            if isEager { connect(processID) }
        }
    }

    /// How far the process is behind with the frames that this loop has for it.
    public func pressure(of processID: ProcessID) -> Pressure { peers[processID]?.backlog.pressure ?? .none }

    /// Sends messages in one frame. False means that the frame is lost: the process is unknown, its
    /// connection has just ended, the frame is too long, or too much waits. A connection on which too much
    /// waits is closed, and both ends ask again for what is lost with it.
    public func send(_ payload: [UInt8], to processID: ProcessID) -> Bool {
        guard let peer = peers[processID], payload.count <= Frame.payloadBytesMax else { return false }
        guard peer.channel?.isActive ?? true else { return false }
        let isTaken = peers[processID]?.backlog.take(bytes: payload.count) ?? false
        guard let channel = peer.channel else {
            guard isTaken else { return false }
            if peer.waiting.isEmpty { peers[processID]?.waitingSince = events.now() }
            peers[processID]?.waiting.append(payload)
            connect(processID)
            return true
        }
        guard isTaken else {
            cutOff(channel, peer, processID: processID)
            return false
        }
        write(payload, channel, dialect: peer.dialect, processID: processID)
        return true
    }

    private func cutOff(_ channel: any Channel, _ peer: Peer, processID: ProcessID) {
        let waiting = "\(peer.backlog.entries) frames, \(peer.backlog.bytes) bytes, wait"
        events.link(processID, Int(identity.loop), .cutOff("the node does not read its frames: \(waiting)"))
        channel.close(promise: nil)
    }

    private func write(
        _ payload: [UInt8], _ channel: any Channel, dialect: Dialect, processID: ProcessID
    ) {
        var buffer = channel.allocator.buffer(capacity: payload.count + Frame.headerBytes)
        Frame.write(.data, payload, in: dialect, to: &buffer)
        let box = NIOLoopBound(self, eventLoop: eventLoop)
        let count = payload.count
        channel.writeAndFlush(buffer).whenComplete { _ in
            // The backlog of a connection that is gone has been cleared with the connection.
            guard box.value.peers[processID]?.channel === channel else { return }
            box.value.peers[processID]?.backlog.remove(bytes: count)
        }
    }

    private func connect(_ processID: ProcessID) {
        guard let peer = peers[processID], !peer.isConnecting, !peer.isBackingOff, peer.channel == nil else {
            return
        }
        peers[processID]?.isConnecting = true
        peers[processID]?.failure = nil
        let box = NIOLoopBound(self, eventLoop: eventLoop)
        lastNumber += 1
        peers[processID]?.connectionNumber = lastNumber
        var greeting = identity
        greeting.connectionNumber = lastNumber
        let (identity, connectionNumber) = (greeting, lastNumber)
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
                            identity: identity, expected: processID, trust: trust, tls: handler,
                            events: events,
                            connected: {
                                box.value.connected(
                                    $0, $1, processID: processID, connectionNumber: connectionNumber)
                            },
                            failed: { box.value.failed($0, processID, connectionNumber: connectionNumber) }))
                }
            }
            .connect(host: peer.address.host, port: peer.address.port)
            .whenComplete { result in
                switch result {
                case .success(let channel):
                    channel.closeFuture.whenComplete { _ in box.value.closed(processID, connectionNumber) }
                case .failure(let error):
                    box.value.failed(
                        ConnectFailure.reason(error), processID, connectionNumber: connectionNumber)
                    box.value.closed(processID, connectionNumber)
                }
            }
    }

    /// The other side has greeted, and is the process that this loop wanted to reach.
    private func connected(
        _ channel: any Channel, _ dialect: Dialect, processID: ProcessID, connectionNumber: UInt64
    ) {
        guard var peer = peers[processID], peer.connectionNumber == connectionNumber else {
            return channel.close(promise: nil)
        }
        (peer.channel, peer.dialect) = (channel, dialect)
        peer.isConnecting = false
        peer.backoff = PeerTiming.backoffMin
        events.link(processID, Int(identity.loop), .stands)
        let waiting = peer.waiting
        peer.waiting = []
        // The other side takes no frame for older than `waitMax`; a process that slept may hold older ones.
        let waited = events.now().since(peer.waitingSince)
        if !waiting.isEmpty, waited > PeerTiming.waitMax {
            peer.backlog.clear()
            peers[processID] = peer
            return events.renewed(processID)
        }
        peers[processID] = peer
        for payload in waiting { write(payload, channel, dialect: dialect, processID: processID) }
    }

    private func failed(_ reason: String, _ processID: ProcessID, connectionNumber: UInt64) {
        if peers[processID]?.connectionNumber == connectionNumber { peers[processID]?.failure = reason }
    }

    private func closed(_ processID: ProcessID, _ connectionNumber: UInt64) {
        guard var peer = peers[processID], peer.connectionNumber == connectionNumber else { return }
        let hadMessages = !peer.waiting.isEmpty
        let report: PeerEvents.Report =
            peer.channel == nil
            ? .failed(
                peer.failure ?? "the node closed the connection before its greeting: see the log of that node"
            )
            : .broke
        // A loop that lost a connection may connect again immediately; a peer that refused would refuse
        // again.
        peer.isBackingOff = peer.channel == nil
        peer.channel = nil
        peer.isConnecting = false
        peer.waiting = []
        peer.backlog.clear()
        let wait = peer.backoff
        peer.backoff = min(PeerTiming.backoffMax, TimeAmount.nanoseconds(wait.nanoseconds * 2))
        peers[processID] = peer
        events.link(processID, Int(identity.loop), report)
        // No connection broke, but the frames that waited are lost.
        if hadMessages { events.renewed(processID) }
        let box = NIOLoopBound(self, eventLoop: eventLoop)
        eventLoop.scheduleTask(in: wait) {
            box.value.peers[processID]?.isBackingOff = false
            box.value.connect(processID)
        }
    }

    public func close() { _ = end() }

    /// Closes all connections and makes no new ones. The future completes when all are closed.
    public func end() -> EventLoopFuture<Void> {
        isClosed = true
        let channels = peers.values.compactMap(\.channel)
        peers = [:]
        for channel in channels { channel.close(promise: nil) }
        // Completes however each connection ends.
        return EventLoopFuture.andAllComplete(channels.map(\.closeFuture), on: eventLoop)
    }
}

/// Why a connection could not be made or has failed, in words for a log.
enum ConnectFailure {
    static func reason(_ error: any Error) -> String {
        switch error {
        case let error as NIOConnectionError:
            if let first = error.connectionErrors.first { return reason(first.error) }
            return "the host name \(error.host) is not known"
        case let error as IOError: return String(cString: strerror(error.errnoCode))
        case ChannelError.connectTimeout:
            return "no answer within \(PeerTiming.connect.nanoseconds / 1_000_000_000) s"
        default: return "\(error)"
        }
    }
}
