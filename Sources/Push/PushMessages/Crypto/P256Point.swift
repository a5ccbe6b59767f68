import COpenSSL

/// A public key on P-256 that somebody else created.
///
/// `@unchecked Sendable` is safe: nothing changes the `EVP_PKEY` after `init`, and libcrypto lets several
/// threads read one key.
final class P256Point: @unchecked Sendable {
    let key: OpaquePointer

    /// Takes 65 bytes: 4, X, Y. Throws `.p256dh` if they are no point on the curve.
    init(_ bytes: [UInt8]) throws(PushCryptoError) {
        guard bytes.count == P256Key.publicCount else {
            throw .p256dh("\(bytes.count) bytes, 65 are wanted")
        }
        guard bytes[0] == 4 else { throw .p256dh("the first byte must be 4: an uncompressed point") }
        guard let key = tidecast_P256_public(bytes, bytes.count) else {
            ERR_clear_error()
            throw .p256dh("the point is not on P-256")
        }
        self.key = key
    }

    deinit { EVP_PKEY_free(key) }
}
