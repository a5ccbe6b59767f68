import CNghttp2

/// A frame's header (RFC 9113 §4.1).
public struct HTTP2FrameHead {
    public enum Kind: UInt8 {
        case data, headers, priority, resetStream, settings, pushPromise, ping, goAway, windowUpdate
        case continuation
        /// RFC 9218 §7.1.
        case priorityUpdate = 16
    }

    /// `nil` for other types.
    public let kind: Kind?
    private let flags: UInt8
    public let stream: Int32
    /// Bytes of the payload, with padding.
    public let length: Int

    init(_ head: UnsafePointer<nghttp2_frame_hd>) {
        kind = Kind(rawValue: head.pointee.type)
        flags = head.pointee.flags
        stream = head.pointee.stream_id
        length = head.pointee.length
    }

    public var isEndOfStream: Bool { has(NGHTTP2_FLAG_END_STREAM) }
    /// Whether SETTINGS or PING acknowledge the peer's.
    public var isAcknowledgement: Bool { has(NGHTTP2_FLAG_ACK) }
    /// Whether HEADERS have a priority.
    public var hasPriority: Bool { has(NGHTTP2_FLAG_PRIORITY) }

    private func has(_ flag: nghttp2_flag) -> Bool { UInt32(flags) & flag.rawValue != 0 }
}

/// A frame, for as long as the call takes that hands it over.
public struct HTTP2Frame {
    private let frame: UnsafePointer<nghttp2_frame>
    public let head: HTTP2FrameHead

    init(_ frame: UnsafePointer<nghttp2_frame>) {
        self.frame = frame
        head = withUnsafePointer(to: frame.pointee.hd) { HTTP2FrameHead($0) }
    }

    public var stream: Int32 { head.stream }
    /// Whether HEADERS begin a request. The other HEADERS that a server receives are trailers.
    public var isRequest: Bool { frame.pointee.headers.cat == NGHTTP2_HCAT_REQUEST }
    /// Whether DATA have bytes, and all of them are padding.
    public var isOnlyPadding: Bool { head.length > 0 && head.length <= frame.pointee.data.padlen }
    /// The error of RST_STREAM.
    public var errorCode: HTTP2ErrorCode { HTTP2ErrorCode(rawValue: frame.pointee.rst_stream.error_code) }
    /// The debug data of GOAWAY.
    public var debugData: [UInt8] {
        let goAway = frame.pointee.goaway
        return Array(UnsafeBufferPointer(start: goAway.opaque_data, count: goAway.opaque_data_len))
    }
}

/// A field of a header block, for as long as the call takes that hands it over.
public struct HTTP2Field {
    public let name: UnsafeBufferPointer<UInt8>
    public let value: UnsafeBufferPointer<UInt8>
    let flags: UInt8

    /// The status of an answer; `nil` for another field than `:status`. libnghttp2 has checked its digits.
    public var status: Int? {
        name.first == UInt8(ascii: ":") ? value.prefix(3).reduce(0) { $0 * 10 + Int($1 &- 48) } : nil
    }

    /// Whether no compression table may have the field (RFC 7541 §7.1.3).
    public var isNeverIndexed: Bool { UInt32(flags) & NGHTTP2_NV_FLAG_NO_INDEX.rawValue != 0 }
}
