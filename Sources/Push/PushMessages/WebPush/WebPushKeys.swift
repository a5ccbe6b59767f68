/// The keys of a browser's subscription (RFC 8291 §3).
public struct WebPushKeys: Hashable, Sendable {
    public static let authCount = 16
    /// 65 bytes: an uncompressed point on P-256.
    public let p256dh: [UInt8]
    /// 16 bytes.
    public let auth: [UInt8]
    /// `p256dh` as libcrypto has it. To read the point costs a sixth of an encryption.
    let point: P256Point

    /// Throws `.p256dh` or `.auth` if the field has the wrong length, or the point is not on the curve.
    public init(p256dh: [UInt8], auth: [UInt8]) throws(PushCryptoError) {
        point = try P256Point(p256dh)
        guard auth.count == WebPushKeys.authCount else {
            throw .auth("\(auth.count) bytes, 16 are wanted")
        }
        self.p256dh = p256dh
        self.auth = auth
    }

    public static func == (left: WebPushKeys, right: WebPushKeys) -> Bool {
        left.p256dh == right.p256dh && left.auth == right.auth
    }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(p256dh)
        hasher.combine(auth)
    }
}
