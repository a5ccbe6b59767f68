/// A host name as DNS takes it, in lower case (RFC 1123 §2.1; underscores, which some networks use).
/// `Push.Example` is `push.example`.
struct HostName: Hashable, Sendable {
    static let bytesMax = 253
    static let labelBytesMax = 63
    let text: String

    /// `nil` if the text is no host name. A final dot is not taken: it would make two names of one host.
    init?(_ text: some StringProtocol) {
        // Some letters outside ASCII have a lower case inside: the Kelvin sign would become a k.
        guard text.utf8.allSatisfy({ $0 < 0x80 }) else { return nil }
        let lower = text.lowercased()
        guard !lower.isEmpty, lower.utf8.count <= HostName.bytesMax else { return nil }
        for label in lower.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false) {
            guard (1...HostName.labelBytesMax).contains(label.count), label.allSatisfy(HostName.allows),
                label.first != UInt8(ascii: "-"), label.last != UInt8(ascii: "-")
            else { return nil }
        }
        self.text = lower
    }

    var labels: [Substring] { text.split(separator: ".") }

    /// Whether a resolver may read the name as an IPv4 address: the last label is a number (RFC 6943 §3.1.1;
    /// `127.1`, `0x7f000001` and `2130706433` are such forms). No top-level domain is a number.
    var isAddress: Bool {
        guard let last = labels.last else { return false }
        if last.hasPrefix("0x") { return last.utf8.dropFirst(2).allSatisfy(HostName.isHexadecimal) }
        return last.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
    }

    private static func allows(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
            UInt8(ascii: "-"), UInt8(ascii: "_"):
            true
        default: false
        }
    }

    private static func isHexadecimal(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
            || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains(byte)
    }
}
