import COpenSSL

enum MAC {
    /// 32 bytes. HKDF's two steps (RFC 5869 §2) are one such call each if 32 bytes or fewer are wanted.
    static func hmacSHA256(_ key: [UInt8], _ message: [UInt8]) throws(PushCryptoError) -> [UInt8] {
        var digest = [UInt8](repeating: 0, count: 32)
        var count: UInt32 = 0
        let made = HMAC(EVP_sha256(), key, Int32(key.count), message, message.count, &digest, &count)
        guard made != nil, count == 32 else { throw .library("compute HMAC-SHA-256") }
        return digest
    }
}

enum AESGCM {
    /// Appends the ciphertext and the tag of 16 bytes. `key` has 16 bytes, `nonce` 12 (NIST SP 800-38D).
    static func seal(
        _ plaintext: [UInt8], key: [UInt8], nonce: [UInt8], into out: inout [UInt8]
    ) throws(PushCryptoError) {
        precondition(key.count == 16 && nonce.count == 12, "AES-128-GCM has keys of 16 bytes, nonces of 12")
        guard let context = EVP_CIPHER_CTX_new() else { throw .library("encrypt") }
        defer { EVP_CIPHER_CTX_free(context) }
        let start = out.count
        out.append(contentsOf: repeatElement(0, count: plaintext.count + 16))
        let isSealed = out.withUnsafeMutableBufferPointer { bytes in
            guard let base = bytes.baseAddress else { return false }
            var count: Int32 = 0
            var rest: Int32 = 0
            let tag = base + start + plaintext.count
            return EVP_EncryptInit_ex(context, EVP_aes_128_gcm(), nil, key, nonce) == 1
                && EVP_EncryptUpdate(context, base + start, &count, plaintext, Int32(plaintext.count)) == 1
                && count == plaintext.count && EVP_EncryptFinal_ex(context, tag, &rest) == 1 && rest == 0
                && EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, 16, tag) == 1
        }
        guard isSealed else { throw .library("encrypt") }
    }
}
