import COpenSSL
import Model

public enum PushDigest {
    /// SHA-256: 32 bytes.
    static func sha256(_ bytes: [UInt8]) -> [UInt8] {
        var digest = [UInt8](repeating: 0, count: 32)
        SHA256(bytes, bytes.count, &digest)
        return digest
    }

    /// The SHA-256 of any text in so many characters of base64url, at most 43: replaces a collapse key that a
    /// push service would refuse.
    public static func short(_ text: some Collection<UInt8>, count: Int) -> String {
        String(decoding: Base64URL.encode(sha256(Array(text))).prefix(count), as: UTF8.self)
    }
}
