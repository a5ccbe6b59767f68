/// The host names that a certificate is for: the DNS names among its subjectAltNames (RFC 9525). A wildcard
/// matches one whole label, the leftmost one: `*.example.com` matches `a.example.com`, and neither
/// `example.com` nor `a.b.example.com`.
public struct CertificateNames: Equatable, Sendable {
    public enum Match: Int, Comparable, Sendable {
        case none
        case wildcard
        case exact
        public static func < (left: Match, right: Match) -> Bool { left.rawValue < right.rawValue }
    }

    private var exact: Set<String> = []
    /// The part of each wildcard behind the asterisk, with its dot.
    private var wildcards: Set<String> = []

    public init(_ names: [String]) {
        for name in names.map(CertificateNames.plain) where !name.isEmpty {
            if !name.contains("*") {
                exact.insert(name)
            } else if name.hasPrefix("*."), name.count > 2, !name.dropFirst().contains("*") {
                wildcards.insert(String(name.dropFirst()))
            }
        }
    }

    public func match(_ host: String) -> Match {
        let host = CertificateNames.plain(host)
        if exact.contains(host) { return .exact }
        guard let dot = host.firstIndex(of: "."), dot > host.startIndex else { return .none }
        return wildcards.contains(String(host[dot...])) ? .wildcard : .none
    }

    /// Which of several certificates is for `host`: the first that names the host, else the first with a
    /// wildcard for the host, else the first of all.
    public static func choice(for host: String, among all: [CertificateNames]) -> Int {
        var best = (index: 0, match: Match.none)
        for (index, names) in all.enumerated() {
            let match = names.match(host)
            if match > best.match { best = (index, match) }
        }
        return best.index
    }

    /// In lower case (of ASCII only), without the dot of the root.
    private static func plain(_ name: String) -> String {
        let bytes = name.utf8.map { (0x41...0x5A).contains($0) ? $0 | 0x20 : $0 }
        return String(decoding: bytes.last == 0x2E ? bytes.dropLast() : bytes[...], as: UTF8.self)
    }
}
