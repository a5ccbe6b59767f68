extension VAPID {
    static let subjectBytesMax = 255
    /// Names that nobody can reach from outside (RFC 6761, RFC 6762).
    private static let localNames: Set<Substring> = ["localhost", "local", "invalid", "test"]

    /// Why push services would refuse the subject; `nil` if they take it. Apple refuses hosts that nobody
    /// can reach, blanks and angle brackets; Mozilla refuses schemes other than the two of RFC 8292 §2.1.
    public static func check(subject: String) -> String? {
        guard subject.utf8.count <= subjectBytesMax else {
            return "The subject has \(subject.utf8.count) bytes, at most \(subjectBytesMax) are allowed."
        }
        let isPlain = subject.utf8.allSatisfy { byte in
            byte > 0x20 && byte < 0x7F && !"<>\"\\".utf8.contains(byte)
        }
        guard isPlain else {
            return "The subject must have no blank, bracket, quotation mark or letter outside ASCII."
        }
        if subject.hasPrefix("mailto:") {
            let address = subject.dropFirst("mailto:".count)
            let parts = address.split(separator: "@", omittingEmptySubsequences: false)
            guard parts.count == 2, !parts[0].isEmpty else {
                return
                    "The subject must have one address behind \"mailto:\", such as mailto:push@example.com."
            }
            return check(host: parts[1].prefix { $0 != "?" })
        }
        if subject.hasPrefix("https://") {
            let rest = subject.dropFirst("https://".count)
            let authority = rest.prefix { !"/?#".contains($0) }
            guard !authority.contains("@") else { return "The subject must have no user information." }
            return check(host: authority.prefix { $0 != ":" })
        }
        return "The subject must begin with \"mailto:\" or \"https://\"."
    }

    private static func check(host: Substring) -> String? {
        guard let name = HostName(String(host)), name.labels.count > 1, !name.isAddress else {
            return "The subject's host \"\(host)\" must be a full domain name."
        }
        guard let last = name.labels.last, !localNames.contains(last) else {
            return "The subject's host \"\(host)\" cannot be reached from outside."
        }
        return nil
    }
}
