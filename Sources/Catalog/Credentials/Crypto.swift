import COpenSSL
import Model

/// Hashes and signatures by libcrypto.
package enum Crypto {
    package static func sha256(_ bytes: some Collection<UInt8>) -> [UInt8] {
        let input = Array(bytes)
        var digest = [UInt8](repeating: 0, count: 32)
        SHA256(input, input.count, &digest)
        return digest
    }

    /// Compares in a time that does not depend on the place of the difference.
    package static func equal(_ left: Span<UInt8>, _ right: Span<UInt8>) -> Bool {
        guard left.count == right.count else { return false }
        return left.withUnsafeBytes { left in
            right.withUnsafeBytes { right in
                CRYPTO_memcmp(left.baseAddress, right.baseAddress, left.count) == 0
            }
        }
    }

    /// Reads a key from its PEM. The BIO only points to the text, so the BIO must end before the text does.
    package static func read(_ pem: String, _ key: (OpaquePointer) -> OpaquePointer?) -> OpaquePointer? {
        Array(pem.utf8).withUnsafeBytes { bytes in
            guard let bio = BIO_new_mem_buf(bytes.baseAddress, Int32(clamping: bytes.count)) else {
                return nil
            }
            defer { BIO_free(bio) }
            return key(bio)
        }
    }

    /// Signs as a backend's library does, for `PublicKey.verifies`. `nil` if the PEM holds no private key.
    package static func signRS256(_ message: [UInt8], privateKey pem: String) -> [UInt8]? {
        guard let key = read(pem, { PEM_read_bio_PrivateKey($0, nil, nil, nil) }) else { return nil }
        defer { EVP_PKEY_free(key) }
        guard let context = EVP_MD_CTX_new() else { return nil }
        defer { EVP_MD_CTX_free(context) }
        guard EVP_DigestSignInit(context, nil, EVP_sha256(), nil, key) == 1 else { return nil }
        var signature = [UInt8](repeating: 0, count: Int(EVP_PKEY_get_size(key)))
        var count = signature.count
        guard EVP_DigestSign(context, &signature, &count, message, message.count) == 1 else { return nil }
        return Array(signature.prefix(count))
    }
}

package enum KeyHash {
    /// The name of a key in the directory.
    package static func of(_ key: some Collection<UInt8>) -> String { Hex.text(Crypto.sha256(key)) }
}
