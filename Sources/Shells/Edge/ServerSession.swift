import HTTP2
import HTTPMessages

/// The session's calls to its connection.
protocol ServerSessionDelegate: ResponderTransport {
    /// The client has shown that it speaks HTTP/2.
    func greeted()
    /// The first bytes of a request have come.
    func began(_ responder: Responder)
    /// The header block is whole.
    func headed(_ responder: Responder)
    /// The request is whole. `serve` hands it over, immediately or later.
    func received(_ responder: Responder)
    func handle(_ request: HTTPRequest, _ responder: Responder)
    func closed(_ responder: Responder)
    func drained(_ responder: Responder)
    func answered(_ status: Int)
    /// The header block is whole, and the body has more than `smallBodyBytes`. May the body come?
    func admit(_ request: HTTPRequest) -> BodyAdmission
}

/// The server's side of one HTTP/2 connection, without a transport.
///
/// A stream's state is its responder. The session has the responder as the stream's tag, and `open` keeps it
/// alive from the stream's beginning until the stream or the session ends.
final class ServerSession: HTTP2Session {
    private static let options = HTTP2Options(
        checksFields: false, resets: (atOnce: 200, perSecond: 7), takesUnknownFrames: true)

    // Safe: the delegate is the connection that owns this session and drives it; the connection ends the
    // session before it goes. A checked reference would be counted atomically a dozen times a request.
    private unowned(unsafe) let delegate: any ServerSessionDelegate
    private let configuration: EdgeConfiguration
    private(set) var open: [Responder] = []
    private let pool: RequestPool
    /// The request whose header block is arriving. No other frame comes before it is whole (RFC 9113 §6.10).
    // Safe: its responder keeps the request, and lets go of it only when `heading` is cleared too.
    private var heading: (stream: Int32, request: Unmanaged<IncomingRequest>)?
    /// Since when a header block is under way, also one whose stream was reset.
    var blockSince: Int?
    var abuse = AbuseGuard()
    /// The client made the server reset too many streams.
    var isAbused = false
    /// Streams refused for answers that wait, whose resets are not written yet.
    var refusalsUnderway = 0
    private var bodies: ByteBudget
    private var answers: ByteBudget
    /// The memory of the open streams themselves, whose answers may wait for the client's window.
    private var opened: ByteBudget
    var streams: KeptBytes
    /// A coarse clock in seconds, which the connection sets.
    var second = 0

    init(
        delegate: any ServerSessionDelegate, configuration: EdgeConfiguration, budgets: EdgeBudgets,
        address: UInt64? = nil, pool: RequestPool = RequestPool()
    ) {
        self.delegate = delegate
        self.configuration = configuration
        self.pool = pool
        bodies = ByteBudget(budgets.bodies, for: address, bytesMax: configuration.bodyBytesMax)
        answers = ByteBudget(budgets.answers, for: address, bytesMax: configuration.answerBytesMax)
        opened = ByteBudget(
            budgets.answers, for: address, bytesMax: configuration.answerBytesMax,
            free: 8 * EdgeConfiguration.openStreamBytes, step: 32 * EdgeConfiguration.openStreamBytes)
        streams = KeptBytes(budgets.streams, for: address, bytesMax: configuration.streamBytesMax)
        super.init(
            .server, options: ServerSession.options,
            settings: [
                (.concurrentStreamsMax, UInt32(configuration.concurrentStreamsMax)),
                (.headerBytesMax, UInt32(configuration.headerBytesMax)),
            ], window: Int32(configuration.connectionWindow))
    }

    /// Frees the session and closes its open streams.
    func end() {
        guard isThere else { return }
        var responders: [Responder] = []
        swap(&responders, &open)
        heading = nil
        free()
        bodies.end()
        answers.end()
        opened.end()
        streams.end()
        for responder in responders { delegate.closed(responder) }
    }

    deinit { end() }

    /// Returns false if the connection must be closed, after its pending bytes are written. The last of
    /// them is GOAWAY.
    func receive(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard isThere else { return false }
        guard !isAbused else {
            terminate(.enhanceYourCalm)
            return false
        }
        do {
            try take(bytes)
            return true
        } catch {
            terminate(error.isNoHTTP2 ? .protocolError : .enhanceYourCalm)
            return false
        }
    }

    // MARK: Answers

    func respond(_ responder: Responder, _ response: HTTPResponse, date: String) {
        guard isThere else { return }
        responder.noteMoved(second: second)
        responder.offset = 0
        let length = response.body.count
        if length == 0 || responder.isHead {
            return submit(
                responder, response.status, fields: response.fields,
                length: response.hasLength ? length : nil, date: date, hasBody: false)
        }
        if !answers.take(length) {
            guard length <= configuration.smallAnswerBytes else {
                return self.respond(responder, EdgeAnswer.tooManyAnswers, date: date)
            }
            answers.add(length)
        }
        responder.body = response.body
        submit(responder, response.status, fields: response.fields, length: length, date: date, hasBody: true)
    }

    func openStream(
        _ responder: Responder, status: Int, fields: [(name: String, value: String)], date: String
    ) {
        // An event stream may stay for days. What it keeps is counted by itself.
        uncount(responder)
        responder.noteMoved(second: second)
        submit(responder, status, fields: fields, length: nil, date: date, hasBody: !responder.isHead)
    }

    /// The stream counts no more among those that wait for an answer.
    private func uncount(_ responder: Responder) {
        guard isThere, responder.isCounted else { return }
        responder.isCounted = false
        opened.give(EdgeConfiguration.openStreamBytes)
    }

    func wake(_ responder: Responder) {
        if responder.movedAt == Responder.unknown { responder.noteMoved(second: second) }
        guard responder.isDeferred else { return }
        responder.isDeferred = false
        resume(responder.streamID)
    }

    private func submit(
        _ responder: Responder, _ status: Int, fields: [(name: String, value: String)], length: Int?,
        date: String, hasBody: Bool
    ) {
        guard isThere else { return }
        delegate.answered(status)
        let status = String(status)
        let lengthText = length.map { String($0) } ?? ""
        let bytes = 64 + status.utf8.count + lengthText.utf8.count + date.utf8.count
        HeaderBlock.with(bytes: HeaderBlock.bytes(of: fields) + bytes, fields: fields.count + 3) { head in
            head.add(":status", status)
            for field in fields where !ServerSession.isOfConnection(field.name) {
                head.add(field.name, field.value)
            }
            if length != nil { head.add("content-length", lengthText) }
            head.add("date", date)
            self.respond(
                responder.streamID, head,
                body: hasBody ? Unmanaged.passUnretained(responder).toOpaque() : nil)
        }
    }

    /// Whether the field is of one connection, as HTTP/1.1 has such fields. HTTP/2 forbids them
    /// (RFC 9113 §8.2.2).
    private static func isOfConnection(_ name: String) -> Bool {
        // Most names of answers begin with another letter, or are shorter.
        switch name.utf8.first {
        case UInt8(ascii: "c"): name == "connection"
        case UInt8(ascii: "k"): name == "keep-alive"
        case UInt8(ascii: "p"): name == "proxy-connection"
        case UInt8(ascii: "t"): name == "transfer-encoding"
        case UInt8(ascii: "u"): name == "upgrade"
        default: false
        }
    }

    func responder(_ stream: Int32) -> Responder? {
        tag(of: stream).map { Unmanaged<Responder>.fromOpaque($0).takeUnretainedValue() }
    }

    /// Copies a stream's next bytes. Defers the stream if nothing is queued.
    override func read(
        _ body: UnsafeMutableRawPointer, into target: UnsafeMutableBufferPointer<UInt8>
    ) -> BodyPart {
        Unmanaged<Responder>.fromOpaque(body)._withUnsafeGuaranteedRef { read($0, into: target) }
    }

    private func read(_ responder: Responder, into target: UnsafeMutableBufferPointer<UInt8>) -> BodyPart {
        responder.noteSent(target.count, second: second)
        if responder.state == .answered {
            answers.give(min(target.count, responder.body.count - responder.offset))
            return .next(of: responder.body, sent: &responder.offset, into: target)
        }
        let copied = responder.read(into: target)
        if responder.state == .ending, !responder.hasQueued { return .last(copied) }
        if responder.noteDrained() { delegate.drained(responder) }
        responder.isDeferred = copied == 0
        return copied == 0 ? .later : .some(copied)
    }

    // MARK: Requests

    override func frameBegins(_ head: HTTP2FrameHead) -> HTTP2Verdict { noteBegun(head) }

    override func receivedUnknown(_ head: HTTP2FrameHead) -> HTTP2Verdict { noteUnknown(head) }

    override func receivedInvalid(_ failure: HTTP2Failure) -> HTTP2Verdict { count(.fault) }

    override func sent(_ frame: HTTP2Frame) { noteSent(frame) }

    override func blockBegins(_ frame: HTTP2Frame) -> HTTP2Verdict {
        guard frame.isRequest else {
            // Trailers. Their request may be answered already.
            guard frame.head.isEndOfStream else { return refuse(frame.stream, .protocolError, count: .fault) }
            heading = responder(frame.stream)?.reading.map { (frame.stream, Unmanaged.passUnretained($0)) }
            return .goOn
        }
        let isFull = answers.held > configuration.answerBytesMax / 2
        if isFull || !opened.take(EdgeConfiguration.openStreamBytes) {
            refusalsUnderway += 1
            return refuse(frame.stream, .refusedStream, count: .refusal)
        }
        let responder = Responder(transport: delegate, streamID: frame.stream)
        responder.isCounted = true
        let request = pool.take()
        responder.reading = request
        heading = (frame.stream, Unmanaged.passUnretained(request))
        responder.index = open.count
        open.append(responder)
        setTag(Unmanaged.passUnretained(responder).toOpaque(), of: frame.stream)
        delegate.began(responder)
        return .goOn
    }

    override func received(_ field: HTTP2Field, of frame: HTTP2Frame) -> HTTP2Verdict {
        guard let heading else { return .goOn }
        let isTaken = heading.request._withUnsafeGuaranteedRef {
            $0.addField(
                field.name, field.value, isTrailer: !frame.isRequest, configuration: configuration)
        }
        if isTaken { return .goOn }
        let isTooLarge = heading.request._withUnsafeGuaranteedRef { $0.head.isTooLarge }
        return refuse(frame.stream, isTooLarge ? .enhanceYourCalm : .protocolError)
    }

    /// Resets a stream, and reads no more of its header block. Without a code from here libnghttp2 would
    /// report an internal error.
    private func refuse(
        _ stream: Int32, _ code: HTTP2ErrorCode, count kind: AbuseGuard.Kind? = nil
    ) -> HTTP2Verdict {
        if let kind, count(kind) != .goOn { return .endSession }
        heading = nil
        reset(stream, code)
        return .endStream
    }

    override func received(_ bytes: UnsafeBufferPointer<UInt8>, of stream: Int32) {
        guard let responder = responder(stream), responder.state == .waiting,
            let request = responder.reading
        else { return }
        let total = request.body.count + bytes.count
        if total > request.bodyMax ?? configuration.smallBodyBytes, !admit(responder, request, bytes: total) {
            return
        }
        if bodies.take(bytes.count) {
            request.body.append(contentsOf: bytes)
        } else {
            refuse(responder, request, response: EdgeAnswer.tooManyBodies)
        }
    }

    /// Whether the body may have so many bytes. If it may not, this function answers the request.
    private func admit(_ responder: Responder, _ request: IncomingRequest, bytes: Int) -> Bool {
        let admission = request.bodyMax.map { BodyAdmission.upTo($0) } ?? delegate.admit(request)
        switch admission.check(bytes) {
        case .upTo(let most):
            request.bodyMax = most
            return true
        case .refused(let response):
            refuse(responder, request, response: response)
            return false
        }
    }

    /// Answers before the whole request has come, and drops the part that has come.
    private func refuse(_ responder: Responder, _ request: IncomingRequest, response: HTTPResponse) {
        bodies.give(request.held)
        responder.reading = nil
        responder.respond(response)
    }

    override func received(_ frame: HTTP2Frame) -> HTTP2Verdict {
        switch frame.head.kind {
        case .settings: delegate.greeted()
        case .headers:
            (heading, blockSince) = (nil, nil)
            noteWhole(frame)
        case .data:
            let isEmpty = !frame.head.isEndOfStream && frame.isOnlyPadding
            if isEmpty, count(.emptyData) != .goOn { return .endSession }
            noteWhole(frame)
        default: break
        }
        return .goOn
    }

    private func noteWhole(_ frame: HTTP2Frame) {
        guard let responder = responder(frame.stream), isWhole(frame, responder) else { return }
        responder.isReceived = true
        delegate.received(responder)
    }

    /// Whether the request is whole with this frame and waits for an answer. A separate function, so that no
    /// caller refers to the request while the handler has it: then the pool can reuse it.
    private func isWhole(_ frame: HTTP2Frame, _ responder: Responder) -> Bool {
        guard let request = responder.reading, !responder.isReceived else { return false }
        let isEnd = frame.head.isEndOfStream
        if case .headers = frame.head.kind {
            if frame.isRequest, !request.head.isComplete {
                reset(responder.streamID, .protocolError)
                return false
            }
            delegate.headed(responder)
            guard isTaken(request, responder, isEnd: isEnd) else { return false }
        }
        guard isEnd, responder.state == .waiting else { return false }
        guard request.head.contentLength.map({ $0 == request.body.count }) ?? true else {
            reset(responder.streamID, .protocolError)
            return false
        }
        bodies.give(request.held)
        return true
    }

    /// Hands a whole request to the handler. The pool reuses the request unless the handler keeps it.
    func serve(_ responder: Responder) {
        guard var request = responder.reading, responder.isReceived else { return }
        responder.reading = nil
        delegate.handle(request, responder)
        pool.giveBack(&request)
    }

    /// Whether to read the request further after its header block. If not, it was answered.
    private func isTaken(_ request: IncomingRequest, _ responder: Responder, isEnd: Bool) -> Bool {
        if case .head = request.method { responder.isHead = true }
        if let refusal = EdgeAnswer.refusal(of: request.method) {
            refuse(responder, request, response: refusal)
            return false
        }
        if isEnd { return true }
        // An indexed field costs its sender a byte. The server keeps the field while it waits for the body.
        guard bodies.take(request.head.bytes) else {
            refuse(responder, request, response: EdgeAnswer.tooManyBodies)
            return false
        }
        request.fieldBytes = request.head.bytes
        guard let length = request.head.contentLength, length > configuration.smallBodyBytes else {
            return true
        }
        return admit(responder, request, bytes: length)
    }

    override func closed(_ stream: Int32, _ code: HTTP2ErrorCode) {
        guard let responder = responder(stream) else { return }
        if let request = responder.reading, !responder.isReceived { bodies.give(request.held) }
        if responder.state == .answered { answers.give(responder.body.count - responder.offset) }
        uncount(responder)
        streams.closed(responder)
        setTag(nil, of: stream)
        if heading?.stream == stream { heading = nil }
        let last = open.removeLast()
        if last !== responder {
            open[responder.index] = last
            last.index = responder.index
        }
        delegate.closed(responder)
    }
}
