import Bytes
import Model

/// A project's settings for Web Push: who sends, under which keys, to which services.
public struct WebPushSettings: Hashable, Sendable {
    /// A key pair on P-256 with which the project's messages are signed (RFC 8292).
    public struct Key: Hashable, Sendable {
        public static let privateBytesCount = 32
        public static let publicBytesCount = 65

        /// 32 bytes, the highest first.
        public var privateBytes: [UInt8]
        /// 65 bytes: 4, X, Y.
        public var publicBytes: [UInt8]
        public var created: WallTime

        public init(privateBytes: [UInt8], publicBytes: [UInt8], created: WallTime) {
            precondition(
                privateBytes.count == Key.privateBytesCount && publicBytes.count == Key.publicBytesCount,
                "a key on P-256 has 32 and 65 bytes")
            self.privateBytes = privateBytes
            self.publicBytes = publicBytes
            self.created = created
        }
    }

    /// Keys of one project. A push service binds a subscription to one key for ever, so that the server keeps
    /// earlier keys.
    public static let keysMax = 8
    public static let subjectBytesMax = 255
    /// Push services that an operator may list for one project.
    public static let hostsMax = 64
    public static let hostBytesMax = 300
    public static let authorityBytesMax = 64 << 10

    /// Whether the server pushes for the project, and takes subscriptions.
    public var isOn: Bool
    /// How a push service reaches the sender: `mailto:` or `https:`.
    public var subject: String
    /// The newest first; never empty.
    public private(set) var keys: [Key]
    /// Further push services: `HOST` or `HOST:PORT`.
    public var hosts: [String] = []
    /// Certificate authorities of these services, PEM; `nil` for the system's authorities.
    public var authority: [UInt8]?

    public init(subject: String, key: Key) {
        isOn = true
        self.subject = subject
        keys = [key]
    }

    /// Makes a key the newest. Earlier keys stay.
    public mutating func add(_ key: Key) throws(ChangeRefusal) {
        guard keys.count < WebPushSettings.keysMax else {
            throw ChangeRefusal(
                .precondition, "The project has \(keys.count) keys for Web Push, the most that may be.")
        }
        keys.insert(key, at: 0)
    }
}

extension WebPushSettings {
    private static let version: UInt8 = 1
    private static let keyBytes = 8 + Key.privateBytesCount + Key.publicBytesCount

    public var encoded: [UInt8] {
        var out = ByteWriter(capacity: 64 + keys.count * WebPushSettings.keyBytes + (authority?.count ?? 0))
        out.u8(WebPushSettings.version)
        out.u8(isOn ? 1 : 0)
        out.string(subject.utf8)
        out.varint(keys.count)
        for key in keys {
            out.u64(UInt64(max(0, key.created.milliseconds)))
            out.raw(key.privateBytes)
            out.raw(key.publicBytes)
        }
        out.varint(hosts.count)
        for host in hosts { out.string(host.utf8) }
        out.string(authority ?? [])
        return out.bytes
    }

    public init(decoding bytes: [UInt8]) throws(DecodeError) {
        var reader = ByteReader(bytes)
        isOn = try reader.isOn("a project's settings for Web Push", WebPushSettings.version)
        subject = String(
            decoding: try reader.stringSlice(max: WebPushSettings.subjectBytesMax), as: UTF8.self)
        keys = []
        let count = try reader.count(max: WebPushSettings.keysMax, elementBytesMin: WebPushSettings.keyBytes)
        for _ in 0..<count {
            let created = try reader.time("when a key for Web Push was made")
            let privateBytes = try reader.raw(Key.privateBytesCount)
            let publicBytes = try reader.raw(Key.publicBytesCount)
            keys.append(Key(privateBytes: privateBytes, publicBytes: publicBytes, created: created))
        }
        guard !keys.isEmpty else { throw reader.fail("no key for Web Push") }
        for _ in 0..<(try reader.count(max: WebPushSettings.hostsMax)) {
            hosts.append(
                String(decoding: try reader.stringSlice(max: WebPushSettings.hostBytesMax), as: UTF8.self))
        }
        let text = try reader.string(max: WebPushSettings.authorityBytesMax)
        authority = text.isEmpty ? nil : text
        try reader.expectEnd()
    }
}
