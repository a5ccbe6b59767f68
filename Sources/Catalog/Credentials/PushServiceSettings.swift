import Bytes

/// A project's settings as a push service for user agents: browsers and UnifiedPush distributors.
public struct PushServiceSettings: Hashable, Sendable {
    public static let originBytesMax = 300

    /// Whether user agents may connect, and senders may post.
    public var isOn = true
    /// Scheme, host and port of the URLs of subscriptions, without a slash at the end. Also the audience of
    /// the tokens that senders sign (RFC 8292 §2).
    public var origin: String

    public init(origin: String) { self.origin = origin }
}

extension PushServiceSettings {
    private static let version: UInt8 = 1

    public var encoded: [UInt8] {
        var out = ByteWriter(capacity: 64)
        out.u8(PushServiceSettings.version)
        out.u8(isOn ? 1 : 0)
        out.string(origin.utf8)
        return out.bytes
    }

    public init(decoding bytes: [UInt8]) throws(DecodeError) {
        var reader = ByteReader(bytes)
        isOn = try reader.isOn("a project's settings as a push service", PushServiceSettings.version)
        origin = String(
            decoding: try reader.stringSlice(max: PushServiceSettings.originBytesMax), as: UTF8.self)
        try reader.expectEnd()
    }
}

extension ByteReader {
    /// The beginning of settings: their version, and whether the service is on.
    mutating func isOn(_ what: String, _ version: UInt8) throws(DecodeError) -> Bool {
        _ = try self.version(of: what, version...version)
        let flags = try u8()
        guard flags <= 1 else { throw fail("\(what) with flags \(flags)") }
        return flags == 1
    }
}
