import Glibc
import HTTPMessages
import Listener
import NIOCore
import NIOHTTP1
import NIOPosix
import Synchronization
import TLS

/// Counters of the edge, over all loops.
public final class EdgeCounters: Sendable {
    public let accepted = Atomic<Int>(0)
    /// When a client connected last, in nanoseconds of the uptime.
    let acceptedAt = Atomic<UInt64>(0)
    public let open = Atomic<Int>(0)
    public let answers = AnswerCounters()
    public let fairness = FairnessCounters()
}

/// The HTTP server: listeners whose connections are spread over the loops of a group.
public final class Edge: Sendable {
    private let group: MultiThreadedEventLoopGroup
    private let loops: [ObjectIdentifier: NIOLoopBound<EdgeLoop>]
    private let sendBufferBytes: Int32
    private let listeners = Mutex<[any Channel]>([])
    public let counters = EdgeCounters()
    private let gate: ListenerGate

    /// `makeHandler` runs once on each loop. `gate` is before all listeners.
    public init(
        group: MultiThreadedEventLoopGroup, configuration: EdgeConfiguration = EdgeConfiguration(),
        gate: ListenerGate = ListenerGate(ConnectionGate.Bounds()),
        makeHandler: @escaping @Sendable (any EventLoop) -> any RequestHandler
    ) throws {
        self.group = group
        sendBufferBytes = configuration.sendBufferBytes
        self.gate = gate
        let counters = counters
        let budgets = EdgeBudgets(configuration, gate.bounds)
        var loops: [ObjectIdentifier: NIOLoopBound<EdgeLoop>] = [:]
        for eventLoop in group.makeIterator() {
            loops[ObjectIdentifier(eventLoop)] = try eventLoop.submit {
                let loop = EdgeLoop(
                    eventLoop: eventLoop, handler: makeHandler(eventLoop), configuration: configuration,
                    counters: counters, budgets: budgets)
                loop.beginSweeping()
                return NIOLoopBound(loop, eventLoop: eventLoop)
            }.wait()
        }
        self.loops = loops
    }

    /// Listens on an address; port 0 lets the kernel choose. Returns the port.
    public func listen(host: String, port: Int, tls: ServerTLS? = nil) throws -> Int {
        let channel = try ListenError.naming("\(host):\(port)") {
            try bootstrap(tls).bind(host: host, port: port).wait()
        }
        listeners.withLock { $0.append(channel) }
        return channel.localAddress?.port ?? port
    }

    /// Listens on a local socket, and gives its file these permissions. Replaces a file that an earlier
    /// process left there.
    public func listen(unixDomainSocketPath path: String, mode: mode_t) throws {
        // The mask belongs to the whole process. It keeps the owner's rights, because another thread may make
        // a folder meanwhile, and the owner must be able to enter that folder.
        let former = umask(0o077)
        defer { umask(former) }
        let channel = try ListenError.naming(path) {
            try bootstrap(nil).bind(unixDomainSocketPath: path, cleanupExistingSocketFile: true).wait()
        }
        guard chmod(path, mode) == 0 else {
            let reason = String(cString: strerror(errno))
            channel.close(promise: nil)
            throw ListenError(address: path, reason: "the file's mode cannot be set: \(reason)")
        }
        listeners.withLock { $0.append(channel) }
    }

    private func bootstrap(_ tls: ServerTLS?) -> ServerBootstrap {
        let (loops, counters, gate) = (loops, counters, gate)
        let sendBufferBytes = ChannelOptions.Types.SocketOption.Value(sendBufferBytes)
        return gate.guarding(ServerBootstrap(group: group))
            .serverChannelOption(.backlog, value: 4096)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            // A connection inherits the send buffer's size from its listener (tcp(7)).
            .serverChannelOption(.socketOption(.so_sndbuf), value: sendBufferBytes)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    guard let bound = loops[ObjectIdentifier(channel.eventLoop)], !bound.value.isDraining
                    else { return channel.close(promise: nil) }
                    counters.accepted.add(1, ordering: .relaxed)
                    counters.acceptedAt.store(NIODeadline.now().uptimeNanoseconds, ordering: .relaxed)
                    counters.open.add(1, ordering: .relaxed)
                    channel.closeFuture.whenComplete { _ in counters.open.subtract(1, ordering: .relaxed) }
                    let options = channel.syncOptions
                    try options?.setOption(.maxMessagesPerRead, value: 4)
                    // Each connection keeps its last receive buffer. So the buffer begins small, and grows
                    // with the traffic.
                    try options?.setOption(
                        .recvAllocator,
                        value: AdaptiveRecvByteBufferAllocator(minimum: 512, initial: 512, maximum: 65536))
                    let sniffer = ProtocolSniffer(
                        loop: bound.value, isSecure: tls != nil,
                        client: ClientAddress(channel.remoteAddress))
                    let proxy = ProxyHeaderHandler(gate) { sniffer.client = $0 }
                    try channel.pipeline.syncOperations.addHandler(proxy, name: "proxy")
                    if let tls {
                        guard let handler = TLSHandler(tls, established: { try sniffer.established($1) })
                        else {
                            return channel.close(promise: nil)
                        }
                        try channel.pipeline.syncOperations.addHandler(handler, name: "tls")
                    }
                    try channel.pipeline.syncOperations.addHandler(sniffer, name: "sniffer")
                }
            }
    }

    /// Whether there is any connection.
    public var isInUse: Bool { counters.open.load(ordering: .relaxed) > 0 }
    /// Whether there is any connection, or a client connected within the last minute.
    public var wasInUse: Bool { isInUse || acceptedAt + .minutes(1) > NIODeadline.now() }

    private var acceptedAt: NIODeadline {
        .uptimeNanoseconds(counters.acceptedAt.load(ordering: .relaxed))
    }

    /// Goes on serving, and sends clients of HTTP/1.1 elsewhere with their next answer.
    public func retire() async {
        for bound in loops.values {
            try? await bound.eventLoop.submit { bound.value.isRetiring = true }.get()
        }
    }

    /// Waits, at most for `limit`, until no client has connected for `quiet`, and no connection of HTTP/1.1
    /// is idle: `drain` would end what waits to be accepted, or a connection on which a client is sending.
    public func waitForIdle(quiet: TimeAmount, atMost limit: TimeAmount) async {
        let began = NIODeadline.now()
        func mayLoseRequest() async -> Bool {
            for bound in loops.values {
                let may = try? await bound.eventLoop.submit { bound.value.connections.mayLoseRequest }.get()
                if may == true { return true }
            }
            return false
        }
        while true {
            let now = NIODeadline.now()
            guard now - began < limit else { return }
            if now - max(began, acceptedAt) >= quiet, await !mayLoseRequest() { return }
            try? await Task.sleep(for: .milliseconds(20))
        }
    }

    /// Stops accepting, asks every connection to finish, and waits until all are closed or `limit` is over.
    public func drain(within limit: TimeAmount) async {
        for channel in listeners.withLock({ $0 }) { try? await channel.close() }
        for bound in loops.values {
            try? await bound.eventLoop.submit { bound.value.drain() }.get()
        }
        let end = NIODeadline.now() + limit
        while counters.open.load(ordering: .relaxed) > 0, NIODeadline.now() < end {
            try? await Task.sleep(for: .milliseconds(20))
        }
    }
}

/// Gives a connection to its protocol. In cleartext the first bytes decide: `PRI` is HTTP/2 (RFC 9113 §3.4),
/// anything else HTTP/1.1. Under TLS, ALPN decides; a client that offers nothing gets HTTP/1.1.
final class ProtocolSniffer: ChannelInboundHandler, RemovableChannelHandler, EdgeConnection {
    typealias InboundIn = ByteBuffer

    private let loop: EdgeLoop
    private let isSecure: Bool
    private let opened: Int
    /// The connection's peer, or the client that the peer names.
    var client: ClientAddress?
    private var context: ChannelHandlerContext?
    private var seen: ByteBuffer?

    init(loop: EdgeLoop, isSecure: Bool, client: ClientAddress?) {
        self.loop = loop
        self.isSecure = isSecure
        self.client = client
        opened = loop.second
    }

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        loop.connections.insert(self)
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        loop.connections.remove(self)
        self.context = nil
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    var mayLoseRequest: Bool { true }

    /// Closes the connection: no byte of a request has come.
    func drain() { context?.close(promise: nil) }

    func sweep(_ second: Int) {
        if second - opened > loop.configuration.handshakeSeconds { context?.close(promise: nil) }
    }

    /// The TLS handshake is complete, and ALPN chose `name`. Returns true if the server now writes: an HTTP/2
    /// server speaks first. For HTTP/1.1 nothing is set up before the client's first byte, because some
    /// clients only look whether the port answers.
    func established(_ name: String) throws -> Bool {
        guard let context, name == "h2" else { return false }
        try install(context, isHTTP2: true)
        return true
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        // The connection can break between TLS and this handler, if TLS could not send its own bytes.
        guard context.channel.isActive else { return }
        var incoming = unwrapInboundIn(data)
        if seen == nil { seen = incoming } else { seen?.writeBuffer(&incoming) }
        guard let isHTTP2 = isSecure ? false : startsHTTP2() else { return }
        do {
            try install(context, isHTTP2: isHTTP2)
        } catch {
            context.close(promise: nil)
        }
    }

    /// `nil` while there are too few bytes to decide.
    private func startsHTTP2() -> Bool? {
        let start = Array((seen ?? ByteBuffer()).readableBytesView.prefix(3))
        let preface = Array("PRI".utf8)
        return start == preface ? true : preface.starts(with: start) ? nil : false
    }

    /// Bytes that the decoder of HTTP/1.1 may keep: those of an incomplete field, and of one read.
    private static let bufferBytesMax = 128 << 10

    /// The handlers have names because NIO would otherwise compose a name for each.
    private func install(_ context: ChannelHandlerContext, isHTTP2: Bool) throws {
        let pipeline = context.pipeline.syncOperations
        if isHTTP2 {
            try pipeline.addHandler(
                HTTP2Connection(
                    loop: loop, opened: opened, isSecure: isSecure, client: client), name: "http2")
        } else {
            try pipeline.addHandler(HTTPResponseEncoder(), name: "encoder")
            var limits = NIOHTTPDecoderLimitConfiguration()
            limits.maxHeaderFieldSize = loop.configuration.headerBytesMax
            limits.maxHeaderListSize = loop.configuration.headerBytesMax
            limits.maxHeaderFieldCount = loop.configuration.headerFieldsMax
            let decoder = HTTPRequestDecoder(limitConfiguration: limits)
            try pipeline.addHandler(
                ByteToMessageHandler(decoder, maximumBufferSize: ProtocolSniffer.bufferBytesMax),
                name: "decoder")
            try pipeline.addHandler(HTTPServerPipelineHandler(), name: "order")
            try pipeline.addHandler(
                HTTP1Connection(
                    loop: loop, opened: opened, isSecure: isSecure, client: client), name: "http1")
        }
        if let bytes = seen { context.fireChannelRead(NIOAny(bytes)) }
        seen = nil
        pipeline.removeHandler(self, promise: nil)
    }
}
