/// Why a key, a subscription or a text is refused. The description names the field and the reason.
public enum PushCryptoError: Error, Hashable, Sendable, CustomStringConvertible {
    /// 32 bytes are wanted, of a number from 1 to one less than the order of P-256.
    case privateKey(String)
    /// A browser's public key: 65 bytes of an uncompressed point on P-256.
    case p256dh(String)
    /// A browser's authentication secret: 16 bytes.
    case auth(String)
    /// The plaintext of one Web Push message has at most `limit` bytes.
    case tooLong(bytes: Int, limit: Int)
    /// libcrypto failed at the named step, for example because there is no memory.
    case library(String)

    public var description: String {
        switch self {
        case .privateKey(let reason): "private key: \(reason)"
        case .p256dh(let reason): "p256dh: \(reason)"
        case .auth(let reason): "auth: \(reason)"
        case .tooLong(let bytes, let limit): "plaintext: \(bytes) bytes, at most \(limit) are allowed"
        case .library(let step): "libcrypto cannot \(step)"
        }
    }
}
