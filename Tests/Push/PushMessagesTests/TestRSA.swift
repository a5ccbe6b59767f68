import COpenSSL

/// RSA keys that libcrypto makes for tests.
enum TestRSA {
    // Safe: tests only read the key.
    private struct Key: @unchecked Sendable {
        let raw: OpaquePointer?
    }
    private static let key = Key(raw: tidecast_RSA_generate(2048))

    static let pem = text(key.raw)
    static func pem(bits: UInt32) -> String {
        let other = tidecast_RSA_generate(bits)
        defer { EVP_PKEY_free(other) }
        return text(other)
    }
    static var curvePEM: String {
        let other = tidecast_P256_generate()
        defer { EVP_PKEY_free(other) }
        return text(other)
    }

    private static func text(_ key: OpaquePointer?) -> String {
        let bio = BIO_new(BIO_s_mem())
        defer { BIO_free(bio) }
        PEM_write_bio_PKCS8PrivateKey(bio, key, nil, nil, 0, nil, nil)
        var bytes = [UInt8](repeating: 0, count: 8192)
        let count = BIO_read(bio, &bytes, Int32(bytes.count))
        return String(decoding: bytes.prefix(Int(max(0, count))), as: UTF8.self)
    }

    static func verifies(_ message: [UInt8], _ signature: [UInt8]) -> Bool {
        let context = EVP_MD_CTX_new()
        defer { EVP_MD_CTX_free(context) }
        EVP_DigestVerifyInit(context, nil, EVP_sha256(), nil, key.raw)
        return EVP_DigestVerify(context, signature, signature.count, message, message.count) == 1
    }
}
