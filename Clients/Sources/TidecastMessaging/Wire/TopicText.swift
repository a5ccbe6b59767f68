/// Names of topics as the app writes them.
enum TopicText {
    static let lengthMax = 900

    /// The topic's name without a leading `/topics/`; `nil` if the rest is not of the form
    /// `[a-zA-Z0-9-_.~%]{1,900}`.
    ///
    /// Source: FCM v1 discovery document, `TopicSubscription.topicName`.
    static func name(of text: String) -> String? {
        let prefix = "/topics/"
        let name = text.hasPrefix(prefix) ? String(text.dropFirst(prefix.count)) : text
        guard !name.isEmpty, name.utf8.count <= lengthMax, name.utf8.allSatisfy(allows) else { return nil }
        return name
    }

    /// The name as a part of a path. Only `%` needs an escape.
    static func inPath(_ name: String) -> String {
        name.split(separator: "%", omittingEmptySubsequences: false).joined(separator: "%25")
    }

    private static func allows(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: "-_.~%".utf8.contains(byte)
        }
    }
}
