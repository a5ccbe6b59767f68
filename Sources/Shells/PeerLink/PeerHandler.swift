import Model
import NIOCore
import TLS

/// One connection between two processes, on either side. The handler greets, checks the other end, passes
/// data on, and closes a connection on which the other end is silent.
final class PeerHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private var greeting: Greeting
    private let tls: TLSHandler?
    private let refused: RefusedCertificates
    /// Set on the listening side only.
    private let newest: NewestConnections?
    private let events: PeerEvents
    private let connected: (any Channel, Dialect) -> Void
    /// Called with the reason before the connection ends, if this side knows the reason.
    private let failed: (String) -> Void
    private var received = ByteBuffer()
    private var peer: PeerIdentity?
    private var dialect: Dialect { greeting.dialect }
    private var isOver = false
    private var began = NIODeadline.now()
    private var lastReceived = NIODeadline.now()
    /// When each unanswered ping was sent, and when the last answered ping was sent. The other side handed
    /// over each frame behind an answer after it saw that ping (rule: deadlines-travel).
    private var pings: [MonotonicTime] = []
    private var answered = MonotonicTime.zero
    private var watch: RepeatedTask?
    private var pongs = 0

    init(
        identity: PeerIdentity, expected: ProcessID?, newest: NewestConnections? = nil, trust: PeerTrust,
        tls: TLSHandler? = nil, events: PeerEvents,
        connected: @escaping (any Channel, Dialect) -> Void,
        failed: @escaping (String) -> Void = { _ in }
    ) {
        self.failed = failed
        self.tls = tls
        refused = trust.refused
        greeting = Greeting(
            identity.withNonce(PeerHandler.makeNonce()), newest == nil ? .connecting : .listening,
            expected: expected, trust: trust)
        self.newest = newest
        self.events = events
        self.connected = connected
    }

    /// From the system's generator, which is also good enough for keys.
    private static func makeNonce() -> [UInt8] {
        (0..<Greeting.nonceBytes).map { _ in UInt8.random(in: 0...255) }
    }

    func channelActive(context: ChannelHandlerContext) {
        var buffer = context.channel.allocator.buffer(capacity: 128)
        Frame.write(.hello, greeting.words, in: .greeting, to: &buffer)
        context.writeAndFlush(wrapOutboundOut(buffer), promise: nil)
        (began, lastReceived) = (.now(), .now())
        // The first frames may have waited for this connection, for `waitMax` at most.
        answered = events.now().rewound(by: PeerTiming.waitMax)
        let channel = context.channel
        let box = NIOLoopBound(self, eventLoop: context.eventLoop)
        watch = context.eventLoop.scheduleRepeatedTask(initialDelay: PeerTiming.ping, delay: PeerTiming.ping)
        { _ in
            box.value.look(channel)
        }
    }

    private func look(_ channel: any Channel) {
        guard NIODeadline.now() - lastReceived < PeerTiming.silence else {
            failed("the node accepts connections and sends nothing")
            channel.close(promise: nil)
            return
        }
        guard peer != nil || NIODeadline.now() - began < PeerTiming.silence else {
            failed("the node does not finish its greeting")
            channel.close(promise: nil)
            return
        }
        ping(channel)
    }

    private func ping(_ channel: any Channel) {
        // Before both have greeted, the other side understands no frame but a greeting.
        guard peer != nil, pings.count < PeerTiming.pingsMax else { return }
        pings.append(events.now())
        var buffer = channel.allocator.buffer(capacity: 32)
        Frame.write(.ping, [], in: dialect, to: &buffer)
        channel.writeAndFlush(buffer, promise: nil)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isOver else { return }
        lastReceived = .now()
        var bytes = unwrapInboundIn(data)
        if received.readableBytes == 0 { received = bytes } else { received.writeBuffer(&bytes) }
        do throws(Frame.Fault) {
            while !isOver,
                let frame = try Frame.read(from: &received, in: dialect, payloadMax: payloadMax)
            {
                handle(frame, context)
            }
        } catch {
            refuse("\(peer?.name ?? "a process") sent a frame that is not understood: \(error)", context)
        }
        received.discardReadBytes()
    }

    private var payloadMax: Int { peer == nil ? Frame.greetingBytesMax : Frame.payloadBytesMax }

    private func handle(_ frame: (kind: Frame.Kind, payload: [UInt8]), _ context: ChannelHandlerContext) {
        guard let peer else {
            return greet(frame, context)
        }
        switch frame.kind {
        case .data:
            guard newest?.isNewest(peer) ?? true else {
                isOver = true
                return context.close(promise: nil)
            }
            events.received(peer.processID, frame.payload, answered)
        case .ping: pong(peer, context)
        case .pong: if !pings.isEmpty { answered = pings.removeFirst() }
        case .hello: refuse("\(peer.name) greeted twice", context)
        case .proof, .refusal: refuse("\(peer.name) sent a frame of its greeting again", context)
        }
    }

    private func pong(_ peer: PeerIdentity, _ context: ChannelHandlerContext) {
        guard pongs < PeerTiming.pongsMax else {
            return refuse("node \(peer.name) sends pings and does not read the answers", context)
        }
        pongs += 1
        var buffer = context.channel.allocator.buffer(capacity: 32)
        Frame.write(.pong, [], in: dialect, to: &buffer)
        let box = NIOLoopBound(self, eventLoop: context.eventLoop)
        context.writeAndFlush(wrapOutboundOut(buffer)).whenComplete { _ in box.value.pongs -= 1 }
    }

    private func greet(
        _ frame: (kind: Frame.Kind, payload: [UInt8]), _ context: ChannelHandlerContext
    ) {
        if frame.kind == .refusal {
            isOver = true
            failed("it refuses this node: \(Greeting.sentence(frame.payload))")
            return context.close(promise: nil)
        }
        do throws(Greeting.Refusal) {
            let step = try greeting.hear(
                frame.kind, frame.payload,
                channel: Greeting.Channel(
                    binding: tls?.channelBinding ?? [], nodes: tls.map { $0.peerNodes ?? [] },
                    certificates: certificates))
            switch step {
            case .prove(let proof): write(.proof, proof, context: context)
            case .done(let peer):
                // The list may have changed since the greeting.
                if let certificate = refused.stand(context.channel, certificates) {
                    throw Greeting.Refusal(certificate, of: peer.name)
                }
                greeted(peer, context)
            }
        } catch {
            refuse(error, context)
        }
    }

    private var certificates: [CertificateFingerprint] {
        tls?.peerFingerprints.compactMap { CertificateFingerprint($0) } ?? []
    }

    private func refuse(_ refusal: Greeting.Refusal, _ context: ChannelHandlerContext) {
        if refusal.isOfCertificate { refused.noteRefused() }
        refuse(refusal.reason, context)
    }

    /// The other side's certificate has become refused.
    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        guard let cut = event as? RefusedCertificates.Cut, let peer, !isOver else {
            return context.fireUserInboundEventTriggered(event)
        }
        refuse(Greeting.Refusal(cut.certificate, of: peer.name), context)
    }

    private func write(_ kind: Frame.Kind, _ payload: [UInt8], context: ChannelHandlerContext) {
        var buffer = context.channel.allocator.buffer(capacity: 64)
        Frame.write(kind, payload, in: dialect, to: &buffer)
        context.writeAndFlush(wrapOutboundOut(buffer), promise: nil)
    }

    private func greeted(_ hello: PeerIdentity, _ context: ChannelHandlerContext) {
        guard newest?.register(hello) ?? true else {
            return refuse("node \(hello.name) has made a newer connection", context)
        }
        peer = hello
        if newest != nil { events.renewed(hello.processID) }
        connected(context.channel, dialect)
        ping(context.channel)
    }

    private func refuse(_ reason: String, _ context: ChannelHandlerContext) {
        guard !isOver else { return }
        isOver = true
        events.refused(reason)
        failed(reason)
        // The other side shows the reason to its operator.
        if peer == nil {
            write(.refusal, Array(reason.utf8.prefix(Greeting.refusalBytesMax)), context: context)
        }
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
        refused.end(context.channel)
        if let peer { events.reset(peer.processID) }
        context.fireChannelInactive()
    }
}
