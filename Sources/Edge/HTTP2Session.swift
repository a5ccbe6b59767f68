import CNghttp2
import HTTPMessages

/// The session's calls to its connection.
protocol HTTP2SessionDelegate: ResponderTransport {
    /// The client has shown that it speaks HTTP/2.
    func greeted()
    /// The first bytes of a request have come.
    func began(_ responder: Responder)
    /// The header block is whole.
    func headed(_ responder: Responder)
    /// The request is whole. `serve` hands it over, at once or later.
    func received(_ responder: Responder)
    func handle(_ request: HTTPRequest, _ responder: Responder)
    func closed(_ responder: Responder)
    func drained(_ responder: Responder)
    func answered(_ status: Int)
    /// The header block is whole, and the body has more than `smallBodyBytes`. May the body come?
    func admit(_ request: HTTPRequest) -> BodyAdmission
}

/// One server-side HTTP/2 connection: bytes in, bytes out, without a transport.
///
/// A stream's state is its responder. nghttp2 has the responder as the stream's user data, and `open` keeps
/// it alive from the stream's beginning until the stream or the session ends.
final class HTTP2Session {
    private(set) var session: OpaquePointer?
    // Safe: the delegate is the connection that owns this session and drives it; the connection ends the
    // session before it goes. A checked reference would be counted atomically a dozen times a request.
    private unowned(unsafe) let delegate: any HTTP2SessionDelegate
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
        delegate: any HTTP2SessionDelegate, configuration: EdgeConfiguration, budgets: EdgeBudgets,
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
        nghttp2_session_server_new2(
            &session, HTTP2Session.callbacks, Unmanaged.passUnretained(self).toOpaque(),
            HTTP2Session.options)
        var settings = [
            nghttp2_settings_entry(
                settings_id: Int32(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS.rawValue),
                value: UInt32(configuration.concurrentStreamsMax)),
            nghttp2_settings_entry(
                settings_id: Int32(NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE.rawValue),
                value: UInt32(configuration.headerBytesMax)),
        ]
        nghttp2_submit_settings(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), &settings, settings.count)
        nghttp2_session_set_local_window_size(
            session, UInt8(NGHTTP2_FLAG_NONE.rawValue), 0, Int32(configuration.connectionWindow))
    }

    /// Frees the session and closes its open streams.
    func end() {
        guard let ending = session else { return }
        var responders: [Responder] = []
        swap(&responders, &open)
        session = nil
        heading = nil
        nghttp2_session_del(ending)
        bodies.end()
        answers.end()
        opened.end()
        streams.end()
        for responder in responders { delegate.closed(responder) }
    }

    deinit { end() }

    /// Returns false where the connection must be closed, after its pending bytes are written. The last of
    /// them is GOAWAY.
    func receive(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard let session else { return false }
        let start = bytes.bindMemory(to: UInt8.self).baseAddress
        let taken = isAbused ? 0 : nghttp2_session_mem_recv(session, start, bytes.count)
        guard taken != bytes.count else { return true }
        let isNoHTTP2 = taken == Int(NGHTTP2_ERR_BAD_CLIENT_MAGIC.rawValue)
        terminate(isNoHTTP2 ? NGHTTP2_PROTOCOL_ERROR : NGHTTP2_ENHANCE_YOUR_CALM)
        return false
    }

    var wantsToGoOn: Bool {
        guard let session else { return false }
        return nghttp2_session_want_read(session) != 0 || nghttp2_session_want_write(session) != 0
    }

    /// Appends the next frames to be written, until there are `limit` bytes.
    func produce(limit: Int, _ append: (UnsafeBufferPointer<UInt8>) -> Void) {
        guard let session else { return }
        var produced = 0
        while produced < limit {
            var data: UnsafePointer<UInt8>?
            let count = nghttp2_session_mem_send(session, &data)
            guard count > 0, let data else { return }
            append(UnsafeBufferPointer(start: data, count: count))
            produced += count
        }
    }

    // MARK: Answers

    func respond(_ responder: Responder, _ response: HTTPResponse, date: String) {
        guard session != nil else { return }
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
        guard session != nil, responder.isCounted else { return }
        responder.isCounted = false
        opened.give(EdgeConfiguration.openStreamBytes)
    }

    func wake(_ responder: Responder) {
        if responder.movedAt == Responder.unknown { responder.noteMoved(second: second) }
        guard let session, responder.isDeferred else { return }
        responder.isDeferred = false
        nghttp2_session_resume_data(session, responder.streamID)
    }

    func reset(_ stream: Int32, _ code: nghttp2_error_code) {
        guard let session else { return }
        nghttp2_submit_rst_stream(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), stream, UInt32(code.rawValue))
    }

    private func submit(
        _ responder: Responder, _ status: Int, fields: [(name: String, value: String)], length: Int?,
        date: String, hasBody: Bool
    ) {
        guard let session else { return }
        delegate.answered(status)
        let status = String(status)
        let lengthText = length.map { String($0) } ?? ""
        var bytes = 64 + status.utf8.count + lengthText.utf8.count + date.utf8.count
        for field in fields { bytes += field.name.utf8.count + field.value.utf8.count }
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: bytes) { text in
            withUnsafeTemporaryAllocation(of: nghttp2_nv.self, capacity: fields.count + 3) { vector in
                guard let start = text.baseAddress else { return }
                var head = ResponseHead(text: start, vector: vector)
                head.add(":status", status)
                for field in fields where !ResponseHead.isOfConnection(field.name) {
                    head.add(field.name, field.value)
                }
                if length != nil { head.add("content-length", lengthText) }
                head.add("date", date)
                var provider = nghttp2_data_provider()
                provider.source.ptr = Unmanaged.passUnretained(responder).toOpaque()
                provider.read_callback = HTTP2Session.readData
                if hasBody {
                    nghttp2_submit_response(
                        session, responder.streamID, vector.baseAddress, head.count, &provider)
                } else {
                    nghttp2_submit_response(session, responder.streamID, vector.baseAddress, head.count, nil)
                }
            }
        }
    }

    func responder(_ stream: Int32) -> Responder? {
        guard let session, let data = nghttp2_session_get_stream_user_data(session, stream) else {
            return nil
        }
        return Unmanaged<Responder>.fromOpaque(data).takeUnretainedValue()
    }

    /// nghttp2 asks for up to `length` bytes of the answer.
    func noteSent(_ responder: Responder, _ length: Int) {
        responder.noteSent(length, second: second)
        if responder.state == .answered { answers.give(min(length, responder.body.count - responder.offset)) }
    }

    func began(_ frame: UnsafePointer<nghttp2_frame>?) -> Int32 {
        guard let frame else { return 0 }
        let stream = frame.pointee.hd.stream_id
        guard frame.pointee.headers.cat == NGHTTP2_HCAT_REQUEST else {
            // Trailers. Their request may be answered already.
            guard UInt32(frame.pointee.hd.flags) & NGHTTP2_FLAG_END_STREAM.rawValue != 0 else {
                let isTooMany = count(.fault)
                return isTooMany != 0 ? isTooMany : refuse(stream, NGHTTP2_PROTOCOL_ERROR)
            }
            heading = responder(stream)?.reading.map { (stream, Unmanaged.passUnretained($0)) }
            return 0
        }
        let isFull = answers.held > configuration.answerBytesMax / 2
        if isFull || !opened.take(EdgeConfiguration.openStreamBytes) {
            refusalsUnderway += 1
            let isTooMany = count(.refusal)
            return isTooMany != 0 ? isTooMany : refuse(stream, NGHTTP2_REFUSED_STREAM)
        }
        let responder = Responder(transport: delegate, streamID: stream)
        responder.isCounted = true
        let request = pool.take()
        responder.reading = request
        heading = (stream, Unmanaged.passUnretained(request))
        responder.index = open.count
        open.append(responder)
        nghttp2_session_set_stream_user_data(session, stream, Unmanaged.passUnretained(responder).toOpaque())
        delegate.began(responder)
        return 0
    }

    func header(
        _ frame: UnsafePointer<nghttp2_frame>?, _ name: UnsafeBufferPointer<UInt8>,
        value: UnsafeBufferPointer<UInt8>
    ) -> Int32 {
        guard let frame, let heading else { return 0 }
        let isTrailer = frame.pointee.headers.cat != NGHTTP2_HCAT_REQUEST
        let isTaken = heading.request._withUnsafeGuaranteedRef {
            $0.addField(name, value, isTrailer: isTrailer, configuration: configuration)
        }
        if isTaken { return 0 }
        let isTooLarge = heading.request._withUnsafeGuaranteedRef { $0.head.isTooLarge }
        return refuse(
            frame.pointee.hd.stream_id, isTooLarge ? NGHTTP2_ENHANCE_YOUR_CALM : NGHTTP2_PROTOCOL_ERROR)
    }

    /// Resets a stream, and reads no more of its header block. Without a code from here libnghttp2 would
    /// report an internal error.
    private func refuse(_ stream: Int32, _ code: nghttp2_error_code) -> Int32 {
        heading = nil
        reset(stream, code)
        return Int32(NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue)
    }

    func data(_ stream: Int32, _ bytes: UnsafeBufferPointer<UInt8>) -> Int32 {
        guard let responder = responder(stream), responder.state == .waiting,
            let request = responder.reading
        else { return 0 }
        let total = request.body.count + bytes.count
        if total > request.bodyMax ?? configuration.smallBodyBytes, !admit(responder, request, bytes: total) {
            return 0
        }
        if bodies.take(bytes.count) {
            request.body.append(contentsOf: bytes)
        } else {
            refuse(responder, request, response: EdgeAnswer.tooManyBodies)
        }
        return 0
    }

    /// Whether the body may have so many bytes. Where it may not, this function answers the request.
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

    func frame(_ frame: UnsafePointer<nghttp2_frame>?) -> Int32 {
        guard let frame else { return 0 }
        let type = UInt32(frame.pointee.hd.type)
        if type == NGHTTP2_SETTINGS.rawValue { delegate.greeted() }
        guard type == NGHTTP2_HEADERS.rawValue || type == NGHTTP2_DATA.rawValue else { return 0 }
        let stream = frame.pointee.hd.stream_id
        let isEnd = UInt32(frame.pointee.hd.flags) & NGHTTP2_FLAG_END_STREAM.rawValue != 0
        if type == NGHTTP2_HEADERS.rawValue {
            (heading, blockSince) = (nil, nil)
        } else if !isEnd, frame.pointee.hd.length > 0, frame.pointee.hd.length <= frame.pointee.data.padlen,
            count(.emptyData) != 0
        {
            return Int32(NGHTTP2_ERR_CALLBACK_FAILURE.rawValue)
        }
        guard let responder = responder(stream), isWhole(frame, responder, isEnd: isEnd) else { return 0 }
        responder.isReceived = true
        delegate.received(responder)
        return 0
    }

    /// Whether the request is whole with this frame and waits for an answer. A function of its own, so that
    /// no caller refers to the request while the handler has it: then the pool can reuse it.
    private func isWhole(
        _ frame: UnsafePointer<nghttp2_frame>, _ responder: Responder, isEnd: Bool
    ) -> Bool {
        guard let request = responder.reading, !responder.isReceived else { return false }
        if UInt32(frame.pointee.hd.type) == NGHTTP2_HEADERS.rawValue {
            if frame.pointee.headers.cat == NGHTTP2_HCAT_REQUEST, !request.head.isComplete {
                reset(responder.streamID, NGHTTP2_PROTOCOL_ERROR)
                return false
            }
            delegate.headed(responder)
            guard isTaken(request, responder, isEnd: isEnd) else { return false }
        }
        guard isEnd, responder.state == .waiting else { return false }
        guard request.head.contentLength.map({ $0 == request.body.count }) ?? true else {
            reset(responder.streamID, NGHTTP2_PROTOCOL_ERROR)
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

    /// Whether to read the request further after its header block. Where not, it was answered.
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

    func closed(_ stream: Int32) -> Int32 {
        guard let session, let responder = responder(stream) else { return 0 }
        if let request = responder.reading, !responder.isReceived { bodies.give(request.held) }
        if responder.state == .answered { answers.give(responder.body.count - responder.offset) }
        uncount(responder)
        streams.closed(responder)
        nghttp2_session_set_stream_user_data(session, stream, nil)
        if heading?.stream == stream { heading = nil }
        let last = open.removeLast()
        if last !== responder {
            open[responder.index] = last
            last.index = responder.index
        }
        delegate.closed(responder)
        return 0
    }
}
