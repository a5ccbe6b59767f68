import Model
import PushMessages

/// What the API knows of a project's Web Push: no private key.
public struct WebPushProject: Sendable {
    public struct Key: Hashable, Sendable {
        /// See `WebAddress.keyID`.
        public var id: UInt64
        /// 65 bytes.
        public var publicBytes: [UInt8]
        public var created: WallTime

        /// 87 characters of base64url, as a page gives it to its browser.
        public var text: String { String(decoding: Base64URL.encode(publicBytes), as: UTF8.self) }
    }

    public var isOn: Bool
    public var subject: String
    /// The newest first; never empty.
    public var keys: [Key]
    public var hosts: [String]
    public var hasAuthority: Bool
    package let policy: EndpointPolicy

    public init(_ settings: WebPushSettings) {
        isOn = settings.isOn
        subject = settings.subject
        keys = settings.keys.map {
            Key(
                id: WebPushProject.keyID($0.publicBytes), publicBytes: $0.publicBytes, created: $0.created)
        }
        hosts = settings.hosts
        hasAuthority = settings.authority != nil
        policy = EndpointPolicy(listed: settings.hosts)
    }

    public var newest: Key { keys[0] }

    /// The first 8 bytes of the SHA-256 of a public key of 65 bytes, the highest byte first.
    public static func keyID(_ publicBytes: [UInt8]) -> UInt64 {
        Crypto.sha256(publicBytes).prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
    }
}
