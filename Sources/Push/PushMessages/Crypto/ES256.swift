import COpenSSL

/// Signatures ES256 (RFC 7518 §3.4) that others made.
public enum ES256 {
    /// Whether 64 bytes (r, s) are a signature of the message by the key, 65 bytes of an uncompressed point
    /// on P-256. False also if the key or the signature has no such form.
    public static func verifies(_ signature: [UInt8], of message: [UInt8], by publicKey: [UInt8]) -> Bool {
        guard signature.count == P256Key.signatureCount, let point = try? P256Point(publicKey) else {
            return false
        }
        defer { ERR_clear_error() }
        guard let parts = ECDSA_SIG_new() else { return false }
        defer { ECDSA_SIG_free(parts) }
        let half = P256Key.signatureCount / 2
        let r = BN_bin2bn(signature, Int32(half), nil)
        let s = BN_bin2bn(Array(signature[half...]), Int32(half), nil)
        // `parts` becomes the owner of both numbers.
        guard ECDSA_SIG_set0(parts, r, s) == 1 else {
            BN_free(r)
            BN_free(s)
            return false
        }
        var der: UnsafeMutablePointer<UInt8>?
        let count = i2d_ECDSA_SIG(parts, &der)
        defer { tidecast_OPENSSL_free(der) }
        guard count > 0, let der, let context = EVP_MD_CTX_new() else { return false }
        defer { EVP_MD_CTX_free(context) }
        return EVP_DigestVerifyInit(context, nil, EVP_sha256(), nil, point.key) == 1
            && EVP_DigestVerify(context, der, Int(count), message, message.count) == 1
    }

    /// Whether the bytes are a key with which signatures can be verified.
    public static func isKey(_ bytes: [UInt8]) -> Bool { (try? P256Point(bytes)) != nil }
}
