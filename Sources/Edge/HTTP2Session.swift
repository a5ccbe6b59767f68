import CNghttp2
import HTTPMessages

/// What an HTTP/2 session tells its connection.
protocol HTTP2SessionDelegate: ResponderTransport {
    func received(_ responder: Responder)
    func closed(_ responder: Responder)
    func drained(_ responder: Responder)
}

/// One server-side HTTP/2 connection: bytes in, bytes out. Knows no transport.
///
/// A stream's state is its responder, which nghttp2 keeps as the stream's user data: retained when the stream begins,
/// released exactly once, when it is closed or with the session.
final class HTTP2Session {
    private var session: OpaquePointer?
    private unowned let delegate: any HTTP2SessionDelegate
    private let configuration: EdgeConfiguration
    private(set) var openStreams: Set<Int32> = []
    private var scratch: [UInt8] = []
    private var spans: [(name: Range<Int>, value: Range<Int>)] = []

    init(delegate: any HTTP2SessionDelegate, configuration: EdgeConfiguration) {
        self.delegate = delegate
        self.configuration = configuration
        var options: OpaquePointer?
        nghttp2_option_new(&options)
        nghttp2_option_set_no_http_messaging(options, 1)
        nghttp2_option_set_stream_reset_rate_limit(options, 200, 7)
        nghttp2_option_set_max_outbound_ack(options, 100)
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
        let streams = openStreams
        openStreams = []
        var responders: [Responder] = []
        for id in streams {
            guard let data = nghttp2_session_get_stream_user_data(ending, id) else { continue }
            responders.append(Unmanaged<Responder>.fromOpaque(data).takeRetainedValue())
        }
        session = nil
        nghttp2_session_del(ending)
        for responder in responders { delegate.closed(responder) }
    }

    deinit { end() }

    /// False where the connection is to be closed once what is pending was written.
    func receive(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard let session else { return false }
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
        submit(
            responder, response.status,
            response.fields + [("content-length", String(response.body.count)), ("date", date)],
            hasBody: !response.body.isEmpty)
    }

    func openStream(
        _ responder: Responder, status: Int, fields: [(name: String, value: String)], date: String
    ) {
        submit(responder, status, fields + [("date", date)], hasBody: true)
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
        nghttp2_submit_shutdown_notice(session)
        nghttp2_session_terminate_session2(
            session, nghttp2_session_get_last_proc_stream_id(session), UInt32(NGHTTP2_NO_ERROR.rawValue))
    }

    private func submit(
        _ responder: Responder, _ status: Int, _ fields: [(name: String, value: String)], hasBody: Bool
    ) {
        guard let session else { return }
        scratch.removeAll(keepingCapacity: true)
        spans.removeAll(keepingCapacity: true)
        add(":status", String(status))
        for field in fields { add(field.name, field.value) }
        scratch.withUnsafeMutableBufferPointer { buffer in
            guard let base = buffer.baseAddress else { return }
            withUnsafeTemporaryAllocation(of: nghttp2_nv.self, capacity: spans.count) { vector in
                for (place, span) in spans.enumerated() {
                    vector[place] = nghttp2_nv(
                        name: base + span.name.lowerBound, value: base + span.value.lowerBound,
                        namelen: span.name.count, valuelen: span.value.count,
                        flags: UInt8(NGHTTP2_NV_FLAG_NONE.rawValue))
                }
                var provider = nghttp2_data_provider()
                provider.source.ptr = Unmanaged.passUnretained(responder).toOpaque()
                provider.read_callback = HTTP2Session.readData
                if hasBody {
                    nghttp2_submit_response(
                        session, responder.streamID, vector.baseAddress, spans.count, &provider)
                } else {
                    nghttp2_submit_response(session, responder.streamID, vector.baseAddress, spans.count, nil)
                }
            }
        }
    }

    private func add(_ name: String, _ value: String) {
        let start = scratch.count
        scratch.append(contentsOf: name.utf8)
        let middle = scratch.count
        scratch.append(contentsOf: value.utf8)
        spans.append((start..<middle, middle..<scratch.count))
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

    // nghttp2 reads the table when a session is made and never writes it.
    nonisolated(unsafe) private static let callbacks: OpaquePointer? = {
        var callbacks: OpaquePointer?
        nghttp2_session_callbacks_new(&callbacks)
        nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks) { _, frame, user in
            HTTP2Session.with(user) { $0.began(frame) }
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

    private func began(_ frame: UnsafePointer<nghttp2_frame>?) -> Int32 {
        guard let frame, frame.pointee.headers.cat == NGHTTP2_HCAT_REQUEST else { return 0 }
        let stream = frame.pointee.hd.stream_id
        let responder = Responder(transport: delegate, streamID: stream)
        nghttp2_session_set_stream_user_data(session, stream, Unmanaged.passRetained(responder).toOpaque())
        openStreams.insert(stream)
        return 0
    }

    private func header(
        _ frame: UnsafePointer<nghttp2_frame>?, _ name: UnsafeBufferPointer<UInt8>,
        _ value: UnsafeBufferPointer<UInt8>
    ) -> Int32 {
        guard let frame, let responder = responder(frame.pointee.hd.stream_id) else { return 0 }
        let isTrailer = frame.pointee.headers.cat != NGHTTP2_HCAT_REQUEST
        let size = name.count + value.count + 32
        responder.head.bytes += size
        responder.head.fields += 1
        if responder.head.bytes > configuration.headerBytesMax
            || responder.head.fields > configuration.headerFieldsMax
        {
            responder.head.isTooLarge = true
            return Int32(NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue)
        }
        if !responder.head.take(name, value, isTrailer: isTrailer, into: &responder.request) {
            return Int32(NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue)
        }
        return 0
    }

    private func data(_ stream: Int32, _ bytes: UnsafeBufferPointer<UInt8>) -> Int32 {
        guard let responder = responder(stream), responder.state == .waiting else { return 0 }
        responder.bodyBytes += bytes.count
        if responder.bodyBytes > configuration.bodyBytesMax {
            responder.request.body = []
            responder.respond(HTTPResponse(status: 413))
        } else {
            responder.request.body.append(contentsOf: bytes)
        }
        return 0
    }

    private func frame(_ frame: UnsafePointer<nghttp2_frame>?) -> Int32 {
        guard let frame else { return 0 }
        let type = UInt32(frame.pointee.hd.type)
        guard type == NGHTTP2_HEADERS.rawValue || type == NGHTTP2_DATA.rawValue else { return 0 }
        let stream = frame.pointee.hd.stream_id
        guard let responder = responder(stream) else { return 0 }
        if type == NGHTTP2_HEADERS.rawValue, frame.pointee.headers.cat == NGHTTP2_HCAT_REQUEST,
            !responder.head.isComplete(&responder.request)
        {
            reset(stream, NGHTTP2_PROTOCOL_ERROR)
            return 0
        }
        guard UInt32(frame.pointee.hd.flags) & NGHTTP2_FLAG_END_STREAM.rawValue != 0,
            responder.state == .waiting
        else { return 0 }
        guard responder.head.contentLength.map({ $0 == responder.bodyBytes }) ?? true else {
            reset(stream, NGHTTP2_PROTOCOL_ERROR)
            return 0
        }
        delegate.received(responder)
        return 0
    }

    private func closed(_ stream: Int32) -> Int32 {
        guard let session, let data = nghttp2_session_get_stream_user_data(session, stream) else { return 0 }
        nghttp2_session_set_stream_user_data(session, stream, nil)
        openStreams.remove(stream)
        delegate.closed(Unmanaged<Responder>.fromOpaque(data).takeRetainedValue())
        return 0
    }
}
