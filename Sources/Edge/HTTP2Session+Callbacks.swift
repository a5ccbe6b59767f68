import CNghttp2

/// The callbacks of libnghttp2.
extension HTTP2Session {
    /// Copies a stream's next bytes. Defers the stream where nothing is queued.
    static let readData: nghttp2_data_source_read_callback = {
        _, _, buffer, length, flags, source, user in
        guard let pointer = source?.pointee.ptr, let buffer, let flags, let user else {
            return Int(NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue)
        }
        return Unmanaged<Responder>.fromOpaque(pointer)._withUnsafeGuaranteedRef { responder in
            Unmanaged<HTTP2Session>.fromOpaque(user)._withUnsafeGuaranteedRef {
                $0.noteSent(responder, length)
            }
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
            let copied = responder.read(into: buffer, length)
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
    nonisolated(unsafe) static let options: OpaquePointer? = {
        var options: OpaquePointer?
        nghttp2_option_new(&options)
        nghttp2_option_set_no_http_messaging(options, 1)
        nghttp2_option_set_stream_reset_rate_limit(options, 200, 7)
        nghttp2_option_set_max_outbound_ack(options, 100)
        nghttp2_option_set_max_continuations(options, 5)
        // libnghttp2 hands over frames of types that it does not know, so that the session can count them.
        let firstUnknown = UInt8(NGHTTP2_CONTINUATION.rawValue) + 1
        for type in firstUnknown...255 { nghttp2_option_set_user_recv_extension_type(options, type) }
        return options
    }()

    // Safe: filled once, before its first use; nghttp2 reads it when a session is made and never writes it.
    nonisolated(unsafe) static let callbacks: OpaquePointer? = {
        var callbacks: OpaquePointer?
        nghttp2_session_callbacks_new(&callbacks)
        nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks) { _, frame, user in
            HTTP2Session.with(user) { $0.began(frame) }
        }
        nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks) { _, header, user in
            HTTP2Session.with(user) { $0.frameBegins(header) }
        }
        nghttp2_session_callbacks_set_unpack_extension_callback(callbacks) { _, _, header, user in
            HTTP2Session.with(user) { $0.unknownFrame(header) }
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
                    value: UnsafeBufferPointer(start: value, count: valueCount))
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

    func frameBegins(_ header: UnsafePointer<nghttp2_frame_hd>?) -> Int32 {
        guard let header = header?.pointee else { return 0 }
        let isEnd = UInt32(header.flags) & NGHTTP2_FLAG_END_STREAM.rawValue != 0
        let isOfBlock = [NGHTTP2_HEADERS.rawValue, NGHTTP2_CONTINUATION.rawValue].contains(
            UInt32(header.type))
        blockSince = isOfBlock ? blockSince ?? second : nil
        switch UInt32(header.type) {
        case NGHTTP2_PING.rawValue, NGHTTP2_SETTINGS.rawValue, NGHTTP2_GOAWAY.rawValue:
            return count(.control)
        case NGHTTP2_PRIORITY.rawValue: return count(.priority)
        case NGHTTP2_WINDOW_UPDATE.rawValue: return count(.windowUpdate)
        case NGHTTP2_DATA.rawValue where header.length == 0 && !isEnd: return count(.emptyData)
        default: return 0
        }
    }

    /// Counts a frame of a type that this server does not know. Browsers send their priorities in such a
    /// frame.
    func unknownFrame(_ header: UnsafePointer<nghttp2_frame_hd>?) -> Int32 {
        let isPriority = header.map { UInt32($0.pointee.type) } == NGHTTP2_PRIORITY_UPDATE.rawValue
        let counted = count(isPriority ? .priority : .unknown)
        return counted != 0 ? counted : Int32(NGHTTP2_ERR_CANCEL.rawValue)
    }

    private static func with(_ user: UnsafeMutableRawPointer?, _ body: (HTTP2Session) -> Int32) -> Int32 {
        guard let user else { return Int32(NGHTTP2_ERR_CALLBACK_FAILURE.rawValue) }
        return Unmanaged<HTTP2Session>.fromOpaque(user)._withUnsafeGuaranteedRef(body)
    }
}
