/// A header field of a request to a push service.
public enum SentField {
    /// What keeps the field from being sent, as a sentence: RFC 9110 §5.1 and §5.5, and fields that belong to
    /// the connection or that a client sets. HTTP/2 has names in lower case only (RFC 9113 §8.2).
    public static func mistake(name: String, value: String, isHTTP2: Bool) -> String? {
        guard !name.isEmpty, name.utf8.allSatisfy(isToken), !isHTTP2 || !name.utf8.contains(where: isUpper)
        else {
            return "\"\(name)\" is no name of a header field" + (isHTTP2 ? " in lower case" : "")
        }
        guard !own.contains(name.lowercased()) else { return "the client sets the field \(name) itself" }
        let isVisible = value.utf8.allSatisfy { $0 == 9 || $0 >= 32 && $0 != 127 }
        let blanks: [UInt8?] = [9, 32]
        guard isVisible, !blanks.contains(value.utf8.first), !blanks.contains(value.utf8.last) else {
            return "the field \(name) has a value that cannot be sent"
        }
        return nil
    }

    private static let own: Set = [
        "connection", "content-length", "expect", "host", "keep-alive", "proxy-connection", "te", "trailer",
        "transfer-encoding", "upgrade",
    ]

    private static func isUpper(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte)
    }

    private static func isToken(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"): true
        default: isUpper(byte) || "!#$%&'*+-.^_`|~".utf8.contains(byte)
        }
    }
}
