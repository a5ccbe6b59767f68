import CNghttp2

/// What libnghttp2 does after a call.
public enum HTTP2Verdict {
    case goOn
    /// Skips the rest of the header block, and resets the stream if it is not reset yet.
    case endStream
    case skipFrame
    /// Fails `take` or `produce`.
    case endSession

    fileprivate var code: Int32 {
        switch self {
        case .goOn: 0
        case .endStream: NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue
        case .skipFrame: NGHTTP2_ERR_CANCEL.rawValue
        case .endSession: NGHTTP2_ERR_CALLBACK_FAILURE.rawValue
        }
    }
}

extension HTTP2Session {
    static let readBody: nghttp2_data_source_read_callback = { _, _, buffer, length, flags, source, user in
        guard let body = source?.pointee.ptr, let buffer, let flags, let user else {
            return Int(NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue)
        }
        let part = Unmanaged<HTTP2Session>.fromOpaque(user)._withUnsafeGuaranteedRef {
            $0.read(body, into: UnsafeMutableBufferPointer(start: buffer, count: length))
        }
        switch part {
        case .some(let count): return count
        case .last(let count):
            flags.pointee |= NGHTTP2_DATA_FLAG_EOF.rawValue
            return count
        case .later: return Int(NGHTTP2_ERR_DEFERRED.rawValue)
        }
    }

    // Safe: filled once, before its first use; libnghttp2 reads it to make a session, and never writes it.
    nonisolated(unsafe) static let callbacks: OpaquePointer? = {
        var callbacks: OpaquePointer?
        nghttp2_session_callbacks_new(&callbacks)
        nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks) { _, head, user in
            call(user, with: head) { $0.frameBegins(HTTP2FrameHead($1)) }
        }
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks) { _, frame, user in
            call(user, with: frame) { $0.received(HTTP2Frame($1)) }
        }
        nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks) { _, _, code, user in
            call(user) { $0.receivedInvalid(HTTP2Failure(code: code)) }
        }
        nghttp2_session_callbacks_set_unpack_extension_callback(callbacks) { _, _, head, user in
            call(user, with: head) { $0.receivedUnknown(HTTP2FrameHead($1)) }
        }
        nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks) { _, frame, user in
            call(user, with: frame) { $0.blockBegins(HTTP2Frame($1)) }
        }
        nghttp2_session_callbacks_set_on_header_callback(callbacks) {
            _, frame, name, nameCount, value, valueCount, flags, user in
            call(user, with: frame) {
                let name = UnsafeBufferPointer(start: name, count: nameCount)
                let value = UnsafeBufferPointer(start: value, count: valueCount)
                return $0.received(HTTP2Field(name: name, value: value, flags: flags), of: HTTP2Frame($1))
            }
        }
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks) {
            _, _, stream, data, count, user in
            call(user) {
                $0.received(UnsafeBufferPointer(start: data, count: count), of: stream)
                return .goOn
            }
        }
        nghttp2_session_callbacks_set_on_frame_send_callback(callbacks) { _, frame, user in
            call(user, with: frame) {
                $0.sent(HTTP2Frame($1))
                return .goOn
            }
        }
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks) { _, stream, code, user in
            call(user) {
                $0.closed(stream, HTTP2ErrorCode(rawValue: code))
                return .goOn
            }
        }
        return callbacks
    }()

    // libnghttp2 hands over no null pointers.
    private static func call(
        _ user: UnsafeMutableRawPointer?, _ body: (HTTP2Session) -> HTTP2Verdict
    ) -> Int32 {
        guard let user else { return HTTP2Verdict.endSession.code }
        return Unmanaged<HTTP2Session>.fromOpaque(user)._withUnsafeGuaranteedRef { body($0).code }
    }

    private static func call<Argument>(
        _ user: UnsafeMutableRawPointer?, with argument: UnsafePointer<Argument>?,
        _ body: (HTTP2Session, UnsafePointer<Argument>) -> HTTP2Verdict
    ) -> Int32 {
        guard let argument else { return HTTP2Verdict.endSession.code }
        return call(user) { body($0, argument) }
    }
}
