import COpenSSL

/// 32 bytes (RFC 2104).
package enum HMACSHA256 {
    package static func of(_ key: [UInt8], _ message: [UInt8]) -> [UInt8] {
        var digest = [UInt8](repeating: 0, count: 32)
        var count: UInt32 = 0
        HMAC(EVP_sha256(), key, Int32(key.count), message, message.count, &digest, &count)
        return digest
    }
}

/// AES-256-GCM with a nonce of 12 bytes and a tag of 16 behind the ciphertext. `extra` is authenticated, and
/// is not in the result. `nil` if libcrypto refuses, or the text was not sealed so.
package enum GCM {
    package static let tagBytes = 16

    package static func seal(
        _ text: [UInt8], key: [UInt8], nonce: [UInt8], with extra: [UInt8]
    ) -> [UInt8]? {
        guard let context = EVP_CIPHER_CTX_new() else { return nil }
        defer { EVP_CIPHER_CTX_free(context) }
        var out = [UInt8](repeating: 0, count: text.count)
        var tag = [UInt8](repeating: 0, count: tagBytes)
        var (count, rest): (Int32, Int32) = (0, 0)
        guard EVP_EncryptInit_ex(context, EVP_aes_256_gcm(), nil, key, nonce) == 1,
            EVP_EncryptUpdate(context, nil, &count, extra, Int32(extra.count)) == 1,
            EVP_EncryptUpdate(context, &out, &count, text, Int32(text.count)) == 1,
            EVP_EncryptFinal_ex(context, nil, &rest) == 1, count == text.count, rest == 0,
            EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, Int32(tagBytes), &tag) == 1
        else { return nil }
        return out + tag
    }

    package static func open(
        _ sealed: [UInt8], key: [UInt8], nonce: [UInt8], with extra: [UInt8]
    ) -> [UInt8]? {
        guard sealed.count >= tagBytes, let context = EVP_CIPHER_CTX_new() else { return nil }
        defer { EVP_CIPHER_CTX_free(context) }
        let text = Array(sealed.dropLast(tagBytes))
        var tag = Array(sealed.suffix(tagBytes))
        var out = [UInt8](repeating: 0, count: text.count)
        var (count, rest): (Int32, Int32) = (0, 0)
        guard EVP_DecryptInit_ex(context, EVP_aes_256_gcm(), nil, key, nonce) == 1,
            EVP_DecryptUpdate(context, nil, &count, extra, Int32(extra.count)) == 1,
            EVP_DecryptUpdate(context, &out, &count, text, Int32(text.count)) == 1,
            EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, Int32(tagBytes), &tag) == 1,
            // Compares the tags; `open` returns no text before this.
            EVP_DecryptFinal_ex(context, nil, &rest) == 1, count == text.count, rest == 0
        else { return nil }
        return out
    }
}
