import CNghttp2
import HTTPMessages

/// What an HTTP/2 session tells its connection.
protocol HTTP2SessionDelegate: ResponderTransport {
    /// The first bytes of a request are there.
    func began(_ responder: Responder)
    /// The header block is whole.
    func headed(_ responder: Responder)
    func received(_ request: HTTPRequest, _ responder: Responder)
    func closed(_ responder: Responder)
    func drained(_ responder: Responder)
    /// A coarse clock, in seconds.
    var second: Int { get }
}

/// One server-side HTTP/2 connection: bytes in, bytes out. Knows no transport.
///
/// A stream's state is its responder, which nghttp2 has as the stream's user data. It is kept alive by the
/// list of open ones, from when the stream begins until it is closed, or the session ends.
final class HTTP2Session {
    private var session: OpaquePointer?
    // Safe: the delegate is the connection that owns this session and drives it; it ends the session before
    // it goes. A checked reference would be counted atomically a dozen times a request.
    private unowned(unsafe) let delegate: any HTTP2SessionDelegate
    private let configuration: EdgeConfiguration
    private(set) var open: [Responder] = []
    private let pool: RequestPool
    /// The request whose header block is coming in: nothing else does until it is whole (RFC 9113 §6.10).
    // Safe: its responder keeps it, and both are let go of together, with this.
    private var heading: (stream: Int32, request: Unmanaged<IncomingRequest>)?
    private var abuse = AbuseGuard()
    /// The client made the server reset too many streams.
    private var isAbused = false

    init(
        delegate: any HTTP2SessionDelegate, configuration: EdgeConfiguration,
        pool: RequestPool = RequestPool()
    ) {
        self.delegate = delegate
        self.configuration = configuration
        self.pool = pool
        var options: OpaquePointer?
        nghttp2_option_new(&options)
        nghttp2_option_set_no_http_messaging(options, 1)
        nghttp2_option_set_stream_reset_rate_limit(options, 200, 7)
        nghttp2_option_set_max_outbound_ack(options, 100)
        nghttp2_option_set_max_continuations(options, 5)
        nghttp2_session_server_new2(
            &session, HTTP2Session.callbacks, Unmanaged.passUnretained(self).toOpaque(), options)
        nghttp2_option_del(options)
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

    /// Frees the session and closes what is open.
    func end() {
        guard let ending = session else { return }
        var responders: [Responder] = []
        swap(&responders, &open)
        session = nil
        heading = nil
        nghttp2_session_del(ending)
        for responder in responders { delegate.closed(responder) }
    }

    deinit { end() }

    /// False where the connection is to be closed once what is pending was written.
    func receive(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard let session, !isAbused else { return false }
        let taken = nghttp2_session_mem_recv(
            session, bytes.bindMemory(to: UInt8.self).baseAddress, bytes.count)
        return taken == bytes.count
    }

    var wantsToGoOn: Bool {
        guard let session else { return false }
        return nghttp2_session_want_read(session) != 0 || nghttp2_session_want_write(session) != 0
    }

    /// Appends what is to be written, until `limit` bytes are there.
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
        responder.body = response.body
        responder.offset = 0
        let length = response.body.count
        submit(responder, response.status, response.fields, length: length, date, hasBody: length > 0)
    }

    func openStream(
        _ responder: Responder, status: Int, fields: [(name: String, value: String)], date: String
    ) {
        submit(responder, status, fields, length: nil, date, hasBody: true)
    }

    func wake(_ responder: Responder) {
        guard let session, responder.isDeferred else { return }
        responder.isDeferred = false
        nghttp2_session_resume_data(session, responder.streamID)
    }

    func reset(_ stream: Int32, _ code: nghttp2_error_code) {
        guard let session else { return }
        nghttp2_submit_rst_stream(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), stream, UInt32(code.rawValue))
    }

    func goAway() {
        guard let session else { return }
        // Streams that are open go on to their end; terminating the session would cut them off.
        nghttp2_submit_goaway(
            session, UInt8(NGHTTP2_FLAG_NONE.rawValue), nghttp2_session_get_last_proc_stream_id(session),
            UInt32(NGHTTP2_NO_ERROR.rawValue), nil, 0)
    }

    private func submit(
        _ responder: Responder, _ status: Int, _ fields: [(name: String, value: String)], length: Int?,
        _ date: String, hasBody: Bool
    ) {
        guard let session else { return }
        let status = String(status)
        let lengthText = length.map { String($0) } ?? ""
        var bytes = 64 + status.utf8.count + lengthText.utf8.count + date.utf8.count
        for field in fields { bytes += field.name.utf8.count + field.value.utf8.count }
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: bytes) { text in
            withUnsafeTemporaryAllocation(of: nghttp2_nv.self, capacity: fields.count + 3) { vector in
                guard let start = text.baseAddress else { return }
                var head = ResponseHead(text: start, vector: vector)
                head.add(":status", status)
                for field in fields { head.add(field.name, field.value) }
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

    // MARK: Callbacks

    /// Pulls a stream's next bytes. Deferred at the end of what there is of a stream.
    private static let readData: nghttp2_data_source_read_callback = {
        _, _, buffer, length, flags, source, _ in
        guard let pointer = source?.pointee.ptr, let buffer, let flags else {
            return Int(NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue)
        }
        return Unmanaged<Responder>.fromOpaque(pointer)._withUnsafeGuaranteedRef { responder in
            if responder.state == .answered {
                let size = min(length, responder.body.count - responder.offset)
                responder.body.withUnsafeBufferPointer { body in
                    if let base = body.baseAddress {
                        buffer.update(from: base + responder.offset, count: size)
                    }
                }
                responder.offset += size
                if responder.offset == responder.body.count {
                    flags.pointee |= UInt32(NGHTTP2_DATA_FLAG_EOF.rawValue)
                }
                return size
            }
            let copied = responder.take(buffer, length)
            if responder.state == .ending, !responder.hasQueued {
                flags.pointee |= UInt32(NGHTTP2_DATA_FLAG_EOF.rawValue)
                return copied
            }
            if responder.noteDrained(), let delegate = responder.transport as? any HTTP2SessionDelegate {
                delegate.drained(responder)
            }
            guard copied > 0 else {
                responder.isDeferred = true
                return Int(NGHTTP2_ERR_DEFERRED.rawValue)
            }
            return copied
        }
    }

    // Safe: filled once, before its first use; nghttp2 reads it when a session is made and never writes it.
    nonisolated(unsafe) private static let callbacks: OpaquePointer? = {
        var callbacks: OpaquePointer?
        nghttp2_session_callbacks_new(&callbacks)
        nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks) { _, frame, user in
            HTTP2Session.with(user) { $0.began(frame) }
        }
        nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks) { _, header, user in
            HTTP2Session.with(user) { $0.frameBegins(header) }
        }
        nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks) { _, _, _, user in
            HTTP2Session.with(user) { $0.count(.fault) }
        }
        nghttp2_session_callbacks_set_on_frame_send_callback(callbacks) { _, frame, user in
            HTTP2Session.with(user) { $0.frameSent(frame) }
        }
        nghttp2_session_callbacks_set_on_header_callback(callbacks) {
            _, frame, name, nameCount, value, valueCount, _, user in
            HTTP2Session.with(user) {
                $0.header(
                    frame, UnsafeBufferPointer(start: name, count: nameCount),
                    UnsafeBufferPointer(start: value, count: valueCount))
            }
        }
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks) {
            _, _, stream, data, count, user in
            HTTP2Session.with(user) { $0.data(stream, UnsafeBufferPointer(start: data, count: count)) }
        }
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks) { _, frame, user in
            HTTP2Session.with(user) { $0.frame(frame) }
        }
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks) { _, stream, _, user in
            HTTP2Session.with(user) { $0.closed(stream) }
        }
        return callbacks
    }()

    private static func with(_ user: UnsafeMutableRawPointer?, _ body: (HTTP2Session) -> Int32) -> Int32 {
        guard let user else { return Int32(NGHTTP2_ERR_CALLBACK_FAILURE.rawValue) }
        return Unmanaged<HTTP2Session>.fromOpaque(user)._withUnsafeGuaranteedRef(body)
    }

    private func responder(_ stream: Int32) -> Responder? {
        guard let session, let data = nghttp2_session_get_stream_user_data(session, stream) else {
            return nil
        }
        return Unmanaged<Responder>.fromOpaque(data).takeUnretainedValue()
    }

    // MARK: Abuse

    /// An error ends the session: `receive` then says that the connection is to be closed.
    private func count(_ kind: AbuseGuard.Kind) -> Int32 {
        abuse.admits(kind, second: delegate.second) ? 0 : Int32(NGHTTP2_ERR_CALLBACK_FAILURE.rawValue)
    }

    private func frameBegins(_ header: UnsafePointer<nghttp2_frame_hd>?) -> Int32 {
        guard let header = header?.pointee else { return 0 }
        let isEnd = UInt32(header.flags) & NGHTTP2_FLAG_END_STREAM.rawValue != 0
        switch UInt32(header.type) {
        case NGHTTP2_PING.rawValue, NGHTTP2_SETTINGS.rawValue: return count(.control)
        case NGHTTP2_PRIORITY.rawValue: return count(.priority)
        case NGHTTP2_WINDOW_UPDATE.rawValue: return count(.windowUpdate)
        case NGHTTP2_DATA.rawValue where header.length == 0 && !isEnd: return count(.emptyData)
        default: return 0
        }
    }

    private func frameSent(_ frame: UnsafePointer<nghttp2_frame>?) -> Int32 {
        abuse.noteSent(second: delegate.second)
        if let frame { endUnread(frame) }
        guard let frame, UInt32(frame.pointee.hd.type) == NGHTTP2_RST_STREAM.rawValue,
            frame.pointee.rst_stream.error_code != NGHTTP2_NO_ERROR.rawValue
        else { return 0 }
        if !abuse.admits(.fault, second: delegate.second) { isAbused = true }
        return 0
    }

    /// Who was answered before the whole request was there is told to send no more of it (RFC 9113 §8.1).
    private func endUnread(_ frame: UnsafePointer<nghttp2_frame>) {
        let type = UInt32(frame.pointee.hd.type)
        guard type == NGHTTP2_DATA.rawValue || type == NGHTTP2_HEADERS.rawValue,
            UInt32(frame.pointee.hd.flags) & NGHTTP2_FLAG_END_STREAM.rawValue != 0,
            let responder = responder(frame.pointee.hd.stream_id), !responder.isReceived
        else { return }
        reset(frame.pointee.hd.stream_id, NGHTTP2_NO_ERROR)
    }

    private func began(_ frame: UnsafePointer<nghttp2_frame>?) -> Int32 {
        guard let frame else { return 0 }
        let stream = frame.pointee.hd.stream_id
        guard frame.pointee.headers.cat == NGHTTP2_HCAT_REQUEST else {
            // Trailers, of a request that may be answered already.
            heading = responder(stream)?.reading.map { (stream, Unmanaged.passUnretained($0)) }
            return 0
        }
        let responder = Responder(transport: delegate, streamID: stream)
        let request = pool.take()
        responder.reading = request
        heading = (stream, Unmanaged.passUnretained(request))
        responder.place = open.count
        open.append(responder)
        nghttp2_session_set_stream_user_data(session, stream, Unmanaged.passUnretained(responder).toOpaque())
        delegate.began(responder)
        return 0
    }

    private func header(
        _ frame: UnsafePointer<nghttp2_frame>?, _ name: UnsafeBufferPointer<UInt8>,
        _ value: UnsafeBufferPointer<UInt8>
    ) -> Int32 {
        guard let frame, let heading else { return 0 }
        let isTrailer = frame.pointee.headers.cat != NGHTTP2_HCAT_REQUEST
        let isTaken = heading.request._withUnsafeGuaranteedRef {
            $0.take(name, value, isTrailer: isTrailer, configuration)
        }
        return isTaken ? 0 : Int32(NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue)
    }

    private func data(_ stream: Int32, _ bytes: UnsafeBufferPointer<UInt8>) -> Int32 {
        guard let responder = responder(stream), responder.state == .waiting,
            let request = responder.reading
        else { return 0 }
        if request.body.count + bytes.count > configuration.bodyBytesMax {
            responder.reading = nil
            responder.respond(HTTPResponse(status: 413))
        } else {
            request.body.append(contentsOf: bytes)
        }
        return 0
    }

    private func frame(_ frame: UnsafePointer<nghttp2_frame>?) -> Int32 {
        guard let frame else { return 0 }
        let type = UInt32(frame.pointee.hd.type)
        guard type == NGHTTP2_HEADERS.rawValue || type == NGHTTP2_DATA.rawValue else { return 0 }
        let stream = frame.pointee.hd.stream_id
        if type == NGHTTP2_HEADERS.rawValue { heading = nil }
        guard let responder = responder(stream), var request = responder.reading else { return 0 }
        if type == NGHTTP2_HEADERS.rawValue, frame.pointee.headers.cat == NGHTTP2_HCAT_REQUEST,
            !request.head.isComplete
        {
            reset(stream, NGHTTP2_PROTOCOL_ERROR)
            return 0
        }
        if type == NGHTTP2_HEADERS.rawValue { delegate.headed(responder) }
        guard UInt32(frame.pointee.hd.flags) & NGHTTP2_FLAG_END_STREAM.rawValue != 0,
            responder.state == .waiting
        else { return 0 }
        guard request.head.contentLength.map({ $0 == request.body.count }) ?? true else {
            reset(stream, NGHTTP2_PROTOCOL_ERROR)
            return 0
        }
        responder.reading = nil
        delegate.received(request, responder)
        pool.giveBack(&request)
        return 0
    }

    private func closed(_ stream: Int32) -> Int32 {
        guard let session, let responder = responder(stream) else { return 0 }
        nghttp2_session_set_stream_user_data(session, stream, nil)
        if heading?.stream == stream { heading = nil }
        let last = open.removeLast()
        if last !== responder {
            open[responder.place] = last
            last.place = responder.place
        }
        delegate.closed(responder)
        return 0
    }
}
