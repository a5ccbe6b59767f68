/// Names a certificate: the SHA-256 of its DER form (X.509).
public struct CertificateFingerprint: Hashable, Comparable, Sendable {
    public static let byteCount = 32

    public let bytes: [UInt8]

    /// `nil` if the count is not `byteCount`.
    public init?(_ bytes: [UInt8]) {
        guard bytes.count == CertificateFingerprint.byteCount else { return nil }
        self.bytes = bytes
    }

    /// From 64 hexadecimal digits in either case, with a colon between all bytes or without colons. `nil` for
    /// another text.
    public init?(_ text: String) {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 1 || parts.allSatisfy({ $0.utf8.count == 2 }),
            let bytes = Hex.bytes(parts.joined())
        else { return nil }
        self.init(bytes)
    }

    /// As OpenSSL prints it: upper-case digits, with a colon between two bytes.
    public var text: String { bytes.map { Hex.text([$0]).uppercased() }.joined(separator: ":") }

    /// 64 lower-case digits.
    public var digits: String { Hex.text(bytes) }

    public static func < (left: CertificateFingerprint, right: CertificateFingerprint) -> Bool {
        left.bytes.lexicographicallyPrecedes(right.bytes)
    }
}
