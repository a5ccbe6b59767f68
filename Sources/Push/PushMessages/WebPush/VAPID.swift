import Model

/// Shows a push service who sends (RFC 8292).
public struct VAPID: Sendable {
    public let key: P256Key
    /// A contact of the operator: `mailto:` or `https:`.
    public let subject: String

    private static let header = #"{"typ":"JWT","alg":"ES256"}"#
    private static let step: Int64 = 6 * 3600

    /// `subject` must pass `check(subject:)`, or services refuse the messages.
    public init(key: P256Key, subject: String) {
        self.key = key
        self.subject = subject
    }

    /// The key of the parameter `k`, and of a page's `applicationServerKey`: 87 characters of base64url.
    public var publicText: String { String(decoding: Base64URL.encode(key.publicBytes), as: UTF8.self) }

    /// The value of `Authorization` for all messages to `origin`, such as `https://web.push.apple.com`. A
    /// signature takes long, so the caller should keep the value by origin until `expiry(now)` changes.
    public func authorization(origin: String, now: WallTime) throws(PushCryptoError) -> String {
        let claims =
            "{\"aud\":\(CompactJWT.quoted(origin)),\"exp\":\(VAPID.expiry(now)),"
            + "\"sub\":\(CompactJWT.quoted(subject))}"
        let token = try CompactJWT.signed(header: VAPID.header, claims: claims, by: key)
        return "vapid t=\(token), k=\(publicText)"
    }

    /// When a token created at `now` expires, in seconds since 1970: 6 to 12 hours ahead, and the same on all
    /// nodes. Services take at most 24 hours (RFC 8292 §2). Apple wants a token used for an hour at least.
    public static func expiry(_ now: WallTime) -> Int64 {
        let seconds = now.milliseconds / 1000
        return seconds / step * step + 2 * step
    }
}
