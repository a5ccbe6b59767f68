import CNghttp2

// What a client does that costs work and asks for nothing.

extension HTTP2Session {
    /// Counts a frame. Past its bound the error ends the session, and `receive` returns false.
    func count(_ kind: AbuseGuard.Kind) -> Int32 {
        abuse.admits(kind, second: second) ? 0 : Int32(NGHTTP2_ERR_CALLBACK_FAILURE.rawValue)
    }

    func frameSent(_ frame: UnsafePointer<nghttp2_frame>?) -> Int32 {
        abuse.noteSent(second: second)
        if let frame { noteUnread(frame) }
        guard let frame, UInt32(frame.pointee.hd.type) == NGHTTP2_RST_STREAM.rawValue,
            // A reset of a slow or unread stream is no fault of other clients on the connection.
            ![NGHTTP2_NO_ERROR.rawValue, NGHTTP2_CANCEL.rawValue]
                .contains(frame.pointee.rst_stream.error_code), !isOwnRefusal(frame.pointee.rst_stream)
        else { return 0 }
        if !abuse.admits(.fault, second: second) { isAbused = true }
        return 0
    }

    /// Whether the stream is reset because answers wait. That is no fault of the connection's other clients,
    /// and is counted when the stream comes. libnghttp2 refuses streams by itself too.
    private func isOwnRefusal(_ frame: nghttp2_rst_stream) -> Bool {
        guard frame.error_code == NGHTTP2_REFUSED_STREAM.rawValue, refusalsUnderway > 0 else { return false }
        refusalsUnderway -= 1
        return true
    }

    /// Notes that the answer was complete before the request. The sweep then resets the stream, so that the
    /// client sends no more (RFC 9113 §8.1). Some clients discard an answer with a reset directly behind it.
    private func noteUnread(_ frame: UnsafePointer<nghttp2_frame>) {
        let type = UInt32(frame.pointee.hd.type)
        guard type == NGHTTP2_DATA.rawValue || type == NGHTTP2_HEADERS.rawValue,
            UInt32(frame.pointee.hd.flags) & NGHTTP2_FLAG_END_STREAM.rawValue != 0,
            let responder = responder(frame.pointee.hd.stream_id), !responder.isReceived
        else { return }
        responder.isUnread = true
    }
}
