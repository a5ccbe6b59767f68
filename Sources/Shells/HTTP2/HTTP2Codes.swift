import CNghttp2

/// RFC 9113 §7.
public struct HTTP2ErrorCode: Equatable, CustomStringConvertible {
    public let rawValue: UInt32

    public init(rawValue: UInt32) { self.rawValue = rawValue }

    public static var noError: HTTP2ErrorCode { HTTP2ErrorCode(rawValue: 0) }
    public static var protocolError: HTTP2ErrorCode { HTTP2ErrorCode(rawValue: 1) }
    public static var refusedStream: HTTP2ErrorCode { HTTP2ErrorCode(rawValue: 7) }
    public static var cancel: HTTP2ErrorCode { HTTP2ErrorCode(rawValue: 8) }
    public static var enhanceYourCalm: HTTP2ErrorCode { HTTP2ErrorCode(rawValue: 11) }

    public var description: String { String(cString: nghttp2_http2_strerror(rawValue)) }
}

/// RFC 9113 §6.5.2.
public enum HTTP2Setting: Int32 {
    case enablePush = 2
    case concurrentStreamsMax = 3
    case streamWindow = 4
    case headerBytesMax = 6
}

/// An error of libnghttp2.
public struct HTTP2Failure: Error, CustomStringConvertible {
    let code: Int32

    /// The client does not begin with HTTP/2's preface.
    public var isNoHTTP2: Bool { code == NGHTTP2_ERR_BAD_CLIENT_MAGIC.rawValue }
    public var description: String { String(cString: nghttp2_strerror(code)) }
}

/// Bounds of sessions, made once for all of a kind.
public struct HTTP2Options: Sendable {
    // Safe: filled by `init`; libnghttp2 reads it when a session is made and never writes it.
    nonisolated(unsafe) let pointer: OpaquePointer?

    public static let usual = HTTP2Options()

    /// - Parameters:
    ///   - checksFields: whether libnghttp2 refuses malformed header blocks. Off, the owner must.
    ///   - resets: streams that the peer may reset at once, and each second from then on.
    ///   - takesUnknownFrames: whether `receivedUnknown` is called.
    public init(
        checksFields: Bool = true, resets: (atOnce: UInt64, perSecond: UInt64)? = nil,
        takesUnknownFrames: Bool = false
    ) {
        var options: OpaquePointer?
        nghttp2_option_new(&options)
        nghttp2_option_set_max_outbound_ack(options, 100)
        nghttp2_option_set_max_continuations(options, 5)
        nghttp2_option_set_no_http_messaging(options, checksFields ? 0 : 1)
        if let resets {
            nghttp2_option_set_stream_reset_rate_limit(options, resets.atOnce, resets.perSecond)
        }
        if takesUnknownFrames {
            let firstUnknown = UInt8(NGHTTP2_CONTINUATION.rawValue) + 1
            for type in firstUnknown...255 { nghttp2_option_set_user_recv_extension_type(options, type) }
        }
        pointer = options
    }
}
