import HTTPMessages
import NIOCore
import NIOHTTP1

/// A connection that speaks HTTP/1.1, behind NIO's decoder, encoder and pipelining handler.
final class HTTP1Connection: ChannelInboundHandler, RemovableChannelHandler, ResponderTransport, Flushable,
    EdgeConnection
{
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    let loop: EdgeLoop
    private let isSecure: Bool
    let client: ClientAddress?
    private(set) var context: ChannelHandlerContext?
    var current: Responder?
    private var keepAlive = true
    private var isHead = false
    var isDirty = false
    private var isReceiving = false
    /// The request asks for another protocol, and its client may go on in that protocol.
    private var isUpgrade = false
    /// The head of a request for a WebSocket, while the request is open.
    var socketHead: HTTPRequestHead?
    /// The connection becomes a WebSocket at the end of the turn.
    var isSwitching = false
    private var deadlines: ConnectionDeadlines
    /// The request that is being read. The next one comes when this one is answered.
    private var request: HTTPRequest?
    /// The whole request that waits for its turn.
    private var waiting: HTTPRequest?
    /// Bytes that the request's body may have, and whether the handler has set them.
    private var bodyMax = 0
    private var isAdmitted = false
    /// Bytes of the fields that count as a body's bytes do, because the request waits for its body.
    private var fieldBytes = 0
    /// Bytes of the header block that count as a body's bytes do, because they cost work.
    private var headBytes = 0
    private var bodies: ByteBudget
    private var pending: PendingBytes
    private var streams: KeptBytes
    /// An answer that waits until its client has read the answers before it, or until they are written.
    private var held: (responder: Responder, response: HTTPResponse)?
    private var isWriting = false
    /// The handler is at work for this connection. Its answer is written when the handler returns.
    private var isHandling = false
    /// The last answer is written. The edge discards all bytes that come after it.
    private var isEnding = false
    private var lingerSince: Int?
    /// The second since which a part of a later header block is there.
    private var headingSince: Int?
    /// Whether this turn's bytes completed any part of a request.
    private var hasRead = false

    /// `opened`: the second in which the connection was created.
    init(loop: EdgeLoop, opened: Int, isSecure: Bool, client: ClientAddress?) {
        self.loop = loop
        deadlines = ConnectionDeadlines(loop.configuration, second: opened)
        let address = loop.budgets.key(of: client)
        bodies = ByteBudget(
            loop.budgets.bodies, for: address, bytesMax: loop.configuration.bodyBytesMax,
            free: ByteBudget.freeBytesOfOne, step: ByteBudget.stepBytesOfOne)
        pending = PendingBytes(loop.budgets.pending, for: address)
        streams = KeptBytes(loop.budgets.streams, for: address, bytesMax: loop.configuration.streamBytesMax)
        self.isSecure = isSecure
        self.client = client
    }

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        loop.connections.insert(self)
    }

    var peer: Peer { Peer.of(context, client) }

    // MARK: Requests

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        hasRead = true
        guard !isEnding else { return }
        // The client must wait for the answer to its handshake (RFC 6455 §4.1).
        if isSwitching { return context.close(promise: nil) }
        switch unwrapInboundIn(data) {
        case .head(let head): startRequest(head)
        case .body(let buffer): append(buffer)
        case .end:
            isReceiving = false
            guard let responder = current, let request = request.take() else { return }
            giveBack(request)
            waiting = request
            // NIO's pipelining handler passes one request at a time, so there is nothing to pause.
            isHandling = true
            _ = loop.received(
                responder, bodyBytes: request.body.count + headBytes, unpacking: loop.unpacking(of: request))
            isHandling = false
            writeHeld()
        }
    }

    func noteRefused(_ share: UInt64, bodyBytes: Int) { loop.noteRefused(share, bodyBytes: bodyBytes) }

    func request(of responder: Responder) -> HTTPRequest? { waiting }

    func serve(_ responder: Responder) {
        guard responder === current, let request = waiting.take() else { return }
        let wasHandling = isHandling
        isHandling = true
        loop.handler.handle(request, responder)
        isHandling = wasHandling
        if !wasHandling { writeHeld() }
    }

    /// Bytes that complete no part of a request begin a header block. The time for that block runs from here.
    func channelReadComplete(context: ChannelHandlerContext) {
        if hasRead {
            headingSince = nil
        } else if current == nil {
            headingSince = headingSince ?? loop.second
        }
        hasRead = false
    }

    private func startRequest(_ head: HTTPRequestHead) {
        endFormer()
        let responder = Responder(transport: self, streamID: 0)
        responder.began = loop.second
        current = responder
        isReceiving = true
        deadlines.hasBegun = true
        isHead = head.method == .HEAD
        isUpgrade = false
        socketHead = nil
        bodyMax = loop.configuration.smallBodyBytes
        isAdmitted = false
        do {
            let checked = try HTTP1Head(head, loop.configuration)
            if checked.isUpgrade, isHandshake(head) { socketHead = head }
            startRequest(checked, keepAlive: head.isKeepAlive)
        } catch {
            refuse(HTTPResponse(status: error.status))
        }
    }

    private func startRequest(_ head: HTTP1Head, keepAlive: Bool) {
        let request = head.request
        headBytes = max(0, head.bytes + request.target.count - EdgeConfiguration.usualFieldBytes)
        request.isSecure = isSecure
        request.client = client
        // Behind a request for another protocol the parser reads no further request, so the connection ends
        // with an answer that does not change the protocol.
        isUpgrade = head.isUpgrade
        self.keepAlive = keepAlive && !head.isUpgrade && !loop.isRetiring
        let length = head.length ?? 0
        let hasBody = length > 0 || head.isChunked
        if let refusal = EdgeAnswer.refusal(of: request.method) {
            return refuse(refusal, keeping: !hasBody)
        }
        self.request = request
        if hasBody {
            guard bodies.take(head.bytes) else { return refuse(EdgeAnswer.tooManyBodies) }
            fieldBytes = head.bytes
        }
        if head.expectsContinue || length > bodyMax {
            guard admit(request, length) else { return }
        }
        if head.expectsContinue, hasBody, let context {
            context.writeAndFlush(
                wrapOutboundOut(.head(HTTPResponseHead(version: .http1_1, status: .continue))), promise: nil)
        }
    }

    private func append(_ buffer: ByteBuffer) {
        guard current != nil, let request else { return }
        let bytes = request.body.count + buffer.readableBytes
        guard bytes <= bodyMax || admit(request, bytes) else { return }
        guard bodies.take(buffer.readableBytes) else { return refuse(EdgeAnswer.tooManyBodies) }
        request.body.append(contentsOf: buffer.readableBytesView)
    }

    /// Whether the body may have so many bytes. If it may not, this function answers the request.
    private func admit(_ request: HTTPRequest, _ bytes: Int) -> Bool {
        let admission: BodyAdmission = isAdmitted ? .upTo(bodyMax) : loop.handler.admit(request) { self.peer }
        switch admission.check(bytes) {
        case .upTo(let most):
            bodyMax = most
            isAdmitted = true
            return true
        case .refused(let response):
            refuse(response)
            return false
        }
    }

    /// Answers before the body is read. The connection then ends, unless `keeping`: the request has no body.
    private func refuse(_ response: HTTPResponse, keeping: Bool = false) {
        if !keeping { keepAlive = false }
        if let request = request.take() { giveBack(request) }
        isHandling = true
        current?.respond(response)
        isHandling = false
        writeHeld()
    }

    private func giveBack(_ request: HTTPRequest) {
        bodies.give(fieldBytes + request.body.count)
        fieldBytes = 0
    }

    func channelInactive(context: ChannelHandlerContext) { lose() }

    /// NIO does not report `channelInactive` to a handler that was added to a connection already broken.
    func handlerRemoved(context: ChannelHandlerContext) { lose() }

    /// The connection is gone. The decoder may still hold parts of requests, for which no client waits.
    private func lose() {
        loop.connections.remove(self)
        context = nil
        isEnding = true
        held = nil
        request = nil
        waiting = nil
        bodies.end()
        pending.clear()
        streams.end()
        if let responder = current { end(responder) }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // The discarded bytes may be malformed.
        if isEnding { return }
        guard !isSwitching, let failure = error as? HTTPParserError else {
            return context.close(promise: nil)
        }
        let status = failure == .headerOverflow ? 431 : 400
        if let responder = current {
            guard responder.state == .waiting else { return context.close(promise: nil) }
        } else {
            current = Responder(transport: self, streamID: 0)
        }
        isReceiving = true
        isHead = false
        refuse(HTTPResponse(status: status, fields: HTTPResponse.forPages))
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        guard context.channel.isWritable else { return }
        pending.clear()
        guard !isWriting else { return }
        if held != nil {
            writeHeld()
        } else if let responder = current, responder.state != .waiting {
            wake(responder)
        }
    }

    func end(_ responder: Responder) {
        current = nil
        let mustTell = responder.state != .answered
        responder.close()
        if mustTell { loop.handler.cancelled(responder) }
    }

    func sweep(_ second: Int) {
        guard let context else { return }
        let isOver = deadlines.noteState(
            second, open: current == nil ? 0 : 1, heading: headingSince,
            receiving: isReceiving ? current?.began : nil, stuck: !context.channel.isWritable)
        let hasLingered = lingerSince.map { second - $0 >= loop.configuration.lingerSeconds } ?? false
        let isFull = current.map { $0.mayKeep && !streams.sweep([$0]).isEmpty } ?? false
        let isLate = isReceiving && loop.isImpatient
        if isOver || hasLingered || isFull || isLate { context.close(promise: nil) }
    }

    var mayLoseRequest: Bool { current == nil && !isEnding }

    func drain() {
        keepAlive = false
        if current == nil, !isEnding { context?.close(promise: nil) }
    }

    // MARK: Answers

    private func head(_ status: Int, _ fields: [(name: String, value: String)]) -> HTTPResponseHead {
        var head = HTTPResponseHead(version: .http1_1, status: HTTPResponseStatus(statusCode: status))
        for field in fields { head.headers.add(name: field.name, value: field.value) }
        head.headers.add(name: "date", value: loop.date)
        if !keepAlive { head.headers.add(name: "connection", value: "close") }
        loop.counters.answers.add(status)
        return head
    }

    /// Only keeps the answer: the caller may be in the middle of its own work. A write here would bring the
    /// next request, or would find the connection broken, and each of these calls the handler again.
    func respond(_ responder: Responder, _ response: HTTPResponse) {
        guard context != nil, responder === current else { return }
        // Pipelined requests are answered one after the other: while an answer is held, the connection takes
        // no further request.
        held = (responder, response)
        if !isHandling, !isWriting { markDirty() }
    }

    private func writeHeld() {
        guard !isWriting, let context, context.channel.isWritable, let held = held.take() else { return }
        write(held.responder, held.response)
    }

    /// Writes an answer, and each answer that is held meanwhile: the end of an answer brings the next
    /// request.
    private func write(_ responder: Responder, _ response: HTTPResponse) {
        var next: (responder: Responder, response: HTTPResponse)? = (responder, response)
        isWriting = true
        while let (responder, response) = next, let context {
            writeOne(responder, response, context: context)
            if held == nil || !context.channel.isWritable { context.flush() }
            if !context.channel.isWritable { notePending(response.body.count) }
            next = context.channel.isWritable ? held.take() : nil
        }
        isWriting = false
        if isEnding { finish() }
    }

    private func notePending(_ bytes: Int) {
        guard let context else { return }
        if !pending.add(bytes) { context.close(promise: nil) }
    }

    private func writeOne(
        _ responder: Responder, _ response: HTTPResponse, context: ChannelHandlerContext
    ) {
        var head = head(response.status, response.fields)
        if response.hasLength {
            head.headers.add(name: "content-length", value: "\(response.body.count)")
        }
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        if !response.body.isEmpty, !isHead {
            context.write(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(bytes: response.body)))), promise: nil)
        }
        current = nil
        responder.close()
        isEnding = !keepAlive
        context.write(wrapOutboundOut(.end(nil)), promise: nil)
    }

    /// The last answer is written. If the client may still be sending, the edge reads on for `lingerSeconds`.
    private func finish() {
        guard isReceiving || isUpgrade else {
            context?.close(promise: nil)
            return
        }
        guard lingerSince == nil else { return }
        lingerSince = loop.second
        context?.close(mode: .output, promise: nil)
    }

    func openStream(_ responder: Responder, status: Int, fields: [(name: String, value: String)]) {
        guard let context, responder === current else { return }
        var head = head(status, fields)
        head.headers.add(name: "transfer-encoding", value: "chunked")
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        markDirty()
    }

    func wake(_ responder: Responder) {
        if responder === current, !isSwitching { markDirty() }
    }

    func flush() {
        isDirty = false
        if held != nil { return writeHeld() }
        guard let context, let responder = current, context.channel.isWritable else { return }
        let limit = loop.configuration.pendingBytesMax
        var written = 0
        if responder.hasQueued {
            var buffer = context.channel.allocator.buffer(capacity: 1024)
            // An event is not cut: clients that read lines and ignore chunks would see half of one.
            while responder.hasQueued, buffer.readableBytes < limit || responder.offset > 0 {
                buffer.writeWithUnsafeMutableBytes(minimumWritableBytes: 4096) {
                    responder.read(into: $0.bindMemory(to: UInt8.self))
                }
            }
            written = buffer.readableBytes
            context.write(wrapOutboundOut(.body(.byteBuffer(buffer))), promise: nil)
        }
        if responder.noteDrained() { loop.handler.drained(responder) }
        if responder.state == .ending, !responder.hasQueued {
            isEnding = true
            context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
            if responder === current { end(responder) }
            context.close(promise: nil)
        } else {
            context.flush()
            if !context.channel.isWritable { notePending(written) }
        }
    }
}
