import var Glibc.AF_INET
import var Glibc.AF_INET6
import func Glibc.inet_pton

/// A host: a DNS name, or an IP address in the one form that all resolvers read alike.
enum PushHost: Hashable, Sendable {
    case name(HostName)
    case ipv4(String)
    /// Eight groups of hexadecimal digits, without brackets.
    case ipv6(String)

    var text: String {
        switch self {
        case .name(let name): name.text
        case .ipv4(let text), .ipv6(let text): text
        }
    }
    var isAddress: Bool { if case .name = self { false } else { true } }

    /// `nil` if the text is neither a name nor an address. Names such as `127.1` and `0x7f.1`, which some
    /// resolvers read as addresses, are neither.
    init?(_ text: some StringProtocol) {
        if text.hasPrefix("["), text.hasSuffix("]") {
            var bytes = [UInt8](repeating: 0, count: 16)
            guard inet_pton(AF_INET6, String(text.dropFirst().dropLast()), &bytes) == 1 else { return nil }
            let groups = stride(from: 0, to: 16, by: 2).map { index in
                String(UInt16(bytes[index]) << 8 | UInt16(bytes[index + 1]), radix: 16)
            }
            self = .ipv6(groups.joined(separator: ":"))
            return
        }
        guard let name = HostName(text) else { return nil }
        guard name.isAddress else {
            self = .name(name)
            return
        }
        var bytes = [UInt8](repeating: 0, count: 4)
        guard inet_pton(AF_INET, name.text, &bytes) == 1 else { return nil }
        self = .ipv4(name.text)
    }
}

/// `HOST` or `HOST:PORT` (RFC 3986 §3.2, without user information).
struct Authority: Hashable {
    var host: PushHost
    var port: Int?

    init(_ text: String) throws(PushEndpointError) {
        var host = text[...]
        var number: Substring?
        if text.hasPrefix("[") {
            guard let end = text.firstIndex(of: "]") else { throw .host }
            host = text[...end]
            let rest = text[text.index(after: end)...]
            guard rest.isEmpty || rest.hasPrefix(":") else { throw .host }
            number = rest.isEmpty ? nil : rest.dropFirst()
        } else if let colon = text.firstIndex(of: ":") {
            host = text[..<colon]
            number = text[text.index(after: colon)...]
        }
        guard let found = PushHost(host) else { throw .host }
        self.host = found
        if let number {
            let isDecimal =
                (1...5).contains(number.utf8.count)
                && number.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
            guard isDecimal, let value = Int(number), (1...65535).contains(value) else { throw .port }
            port = value
        }
    }
}
