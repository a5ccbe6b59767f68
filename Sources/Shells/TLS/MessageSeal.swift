import COpenSSL

/// Shows that a message comes from a process that has the key: HMAC-SHA-256, cut to 16 bytes (RFC 2104 §5).
public struct MessageSeal: Sendable {
    public static let tagBytes = 16
    private let key: [UInt8]

    public init(key: [UInt8]) { self.key = key }

    /// Derives a key of 32 bytes from a secret by HKDF (RFC 5869); `info` names the key's purpose. `nil` if
    /// libcrypto fails.
    public init?(secret: [UInt8], salt: [UInt8], info: [UInt8]) {
        guard let key = HKDF.derive(secret, salt: salt, info: info, count: 32) else { return nil }
        self.init(key: key)
    }

    public func tag(_ message: [UInt8]) -> [UInt8] {
        var whole = [UInt8](repeating: 0, count: Int(EVP_MAX_MD_SIZE))
        var count: UInt32 = 0
        let made = HMAC(EVP_sha256(), key, Int32(key.count), message, message.count, &whole, &count)
        precondition(made != nil && count == 32, "libcrypto cannot compute HMAC-SHA-256")
        return Array(whole[..<MessageSeal.tagBytes])
    }

    /// Compares in constant time.
    public func isGood(_ tag: [UInt8], of message: [UInt8]) -> Bool {
        guard tag.count == MessageSeal.tagBytes else { return false }
        return CRYPTO_memcmp(self.tag(message), tag, MessageSeal.tagBytes) == 0
    }
}
