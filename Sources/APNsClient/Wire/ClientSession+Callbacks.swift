import CNghttp2

/// The callbacks of libnghttp2.
extension ClientSession {
    private static func with(
        _ user: UnsafeMutableRawPointer?, _ body: (ClientSession) -> Int32
    ) -> Int32 {
        guard let user else { return Int32(NGHTTP2_ERR_CALLBACK_FAILURE.rawValue) }
        return Unmanaged<ClientSession>.fromOpaque(user)._withUnsafeGuaranteedRef(body)
    }

    static let readBody: nghttp2_data_source_read_callback = { _, _, buffer, length, flags, source, _ in
        guard let pointer = source?.pointee.ptr, let buffer, let flags else {
            return Int(NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue)
        }
        return Unmanaged<ClientStream>.fromOpaque(pointer)._withUnsafeGuaranteedRef { stream in
            let count = min(length, stream.body.count - stream.sent)
            stream.body.withUnsafeBufferPointer { body in
                if let base = body.baseAddress { buffer.update(from: base + stream.sent, count: count) }
            }
            stream.sent += count
            if stream.sent == stream.body.count {
                flags.pointee |= UInt32(NGHTTP2_DATA_FLAG_EOF.rawValue)
            }
            return count
        }
    }

    // Safe: filled once, before its first use; nghttp2 reads it when a session is made and never writes it.
    nonisolated(unsafe) static let options: OpaquePointer? = {
        var options: OpaquePointer?
        nghttp2_option_new(&options)
        nghttp2_option_set_max_outbound_ack(options, 100)
        nghttp2_option_set_max_continuations(options, 5)
        return options
    }()

    // Safe: filled once, before its first use; nghttp2 reads it when a session is made and never writes it.
    nonisolated(unsafe) static let callbacks: OpaquePointer? = {
        var callbacks: OpaquePointer?
        nghttp2_session_callbacks_new(&callbacks)
        nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks) { _, _, user in
            ClientSession.with(user) { $0.frameBegins() }
        }
        nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks) { _, _, code, user in
            ClientSession.with(user) {
                $0.note(failure: "the service broke HTTP/2: \(ClientSession.text(code))")
                return 0
            }
        }
        nghttp2_session_callbacks_set_on_frame_send_callback(callbacks) { _, frame, user in
            guard let head = frame?.pointee.hd, UInt32(head.type) == NGHTTP2_HEADERS.rawValue else {
                return 0
            }
            return ClientSession.with(user) {
                $0.left(head.stream_id)
                return 0
            }
        }
        nghttp2_session_callbacks_set_on_header_callback(callbacks) {
            _, frame, name, nameCount, value, valueCount, _, user in
            guard let id = frame?.pointee.hd.stream_id else { return 0 }
            return ClientSession.with(user) {
                $0.header(
                    id, UnsafeBufferPointer(start: name, count: nameCount),
                    value: UnsafeBufferPointer(start: value, count: valueCount))
            }
        }
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks) {
            _, _, stream, data, count, user in
            ClientSession.with(user) { $0.data(stream, UnsafeBufferPointer(start: data, count: count)) }
        }
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks) { _, frame, user in
            guard let frame else { return 0 }
            return ClientSession.with(user) { $0.frame(frame.pointee) }
        }
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks) { _, stream, code, user in
            ClientSession.with(user) { $0.streamClosed(stream, code: code) }
        }
        return callbacks
    }()
}
