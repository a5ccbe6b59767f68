import COpenSSL

/// The keys of a browser's subscription (RFC 8291 §3).
public struct WebPushKeys: Hashable, Sendable {
    public static let authCount = 16
    /// 65 bytes: an uncompressed point on P-256.
    public let p256dh: [UInt8]
    /// 16 bytes.
    public let auth: [UInt8]

    /// Throws `.p256dh` or `.auth` where the field has the wrong length, or the point is not on the curve.
    public init(p256dh: [UInt8], auth: [UInt8]) throws(PushCryptoError) {
        guard p256dh.count == P256Key.publicCount else {
            throw .p256dh("\(p256dh.count) bytes, 65 are wanted")
        }
        guard p256dh[0] == 4 else { throw .p256dh("the first byte must be 4: an uncompressed point") }
        guard let key = tidecast_P256_public(p256dh, p256dh.count) else {
            ERR_clear_error()
            throw .p256dh("the point is not on P-256")
        }
        EVP_PKEY_free(key)
        guard auth.count == WebPushKeys.authCount else {
            throw .auth("\(auth.count) bytes, 16 are wanted")
        }
        self.p256dh = p256dh
        self.auth = auth
    }
}
