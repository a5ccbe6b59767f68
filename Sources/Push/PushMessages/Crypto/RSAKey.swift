import COpenSSL

/// A private RSA key for signatures RS256 (RFC 7518 §3.3), such as that of a Google service account.
///
/// `@unchecked Sendable` is safe: nothing changes the `EVP_PKEY` after `init`, and libcrypto lets several
/// threads read one key.
public final class RSAKey: @unchecked Sendable {
    /// Bits. RFC 7518 wants 2048 at the least; longer keys than 8192 bits only cost time.
    public static let bitsMin = 2048
    public static let bitsMax = 8192

    private let key: OpaquePointer

    /// Reads a private key in PEM (PKCS #8 or PKCS #1). Throws `.privateKey` if the text holds none, or the
    /// key is no RSA key of `bitsMin` to `bitsMax` bits, or locked by a password.
    public init(pem: String) throws(PushCryptoError) {
        let text = Array(pem.utf8)
        let found = text.withUnsafeBytes { text -> OpaquePointer? in
            guard let bio = BIO_new_mem_buf(text.baseAddress, Int32(clamping: text.count)) else { return nil }
            defer { BIO_free(bio) }
            // Without the callback libcrypto would ask for a password at the terminal.
            return PEM_read_bio_PrivateKey(bio, nil, { _, _, _, _ in -1 }, nil)
        }
        ERR_clear_error()
        guard let found else { throw .privateKey("the text holds no private key in PEM") }
        let bits = Int(EVP_PKEY_get_bits(found))
        guard EVP_PKEY_get_base_id(found) == EVP_PKEY_RSA, (RSAKey.bitsMin...RSAKey.bitsMax).contains(bits)
        else {
            EVP_PKEY_free(found)
            throw .privateKey("the key is no RSA key of \(RSAKey.bitsMin) to \(RSAKey.bitsMax) bits")
        }
        key = found
    }

    deinit { EVP_PKEY_free(key) }

    public func sign(_ message: [UInt8]) throws(PushCryptoError) -> [UInt8] {
        guard let context = EVP_MD_CTX_new() else { throw .library("sign") }
        defer { EVP_MD_CTX_free(context) }
        var signature = [UInt8](repeating: 0, count: Int(EVP_PKEY_get_size(key)))
        var count = signature.count
        guard EVP_DigestSignInit(context, nil, EVP_sha256(), nil, key) == 1,
            EVP_DigestSign(context, &signature, &count, message, message.count) == 1
        else { throw .library("sign") }
        return Array(signature.prefix(count))
    }
}
