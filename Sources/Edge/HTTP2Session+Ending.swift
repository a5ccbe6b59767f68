import CNghttp2

// How the server ends a connection: GOAWAY tells the client which requests it may send again.

extension HTTP2Session {
    /// Says GOAWAY with the last stream that the server has begun: the client may send later ones again
    /// (RFC 9113 §6.8). Streams that are open end.
    func terminate(_ code: nghttp2_error_code) {
        guard let session else { return }
        nghttp2_session_terminate_session(session, UInt32(code.rawValue))
    }

    func goAway() {
        guard let session else { return }
        // Open streams go on to their end; terminating the session would cut them off.
        nghttp2_submit_goaway(
            session, UInt8(NGHTTP2_FLAG_NONE.rawValue), nghttp2_session_get_last_proc_stream_id(session),
            UInt32(NGHTTP2_NO_ERROR.rawValue), nil, 0)
    }
}
