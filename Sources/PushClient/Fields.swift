/// A header field that a caller wants to send.
enum SentField {
    /// What keeps the field from being sent, as a sentence: RFC 9110 §5.1 and §5.5, and fields that belong to
    /// the connection or that the client sets.
    static func mistake(name: String, value: String) -> String? {
        guard !name.isEmpty, name.utf8.allSatisfy(isToken) else {
            return "\"\(name)\" is no name of a header field"
        }
        guard !own.contains(name.lowercased()) else { return "the client sets the field \(name) itself" }
        let isVisible = value.utf8.allSatisfy { $0 == 9 || $0 >= 32 && $0 != 127 }
        guard isVisible, value.utf8.first != 32, value.utf8.last != 32 else {
            return "the field \(name) has a value that cannot be sent"
        }
        return nil
    }

    private static let own: Set = [
        "connection", "content-length", "expect", "host", "keep-alive", "proxy-connection", "te", "trailer",
        "transfer-encoding", "upgrade",
    ]

    private static func isToken(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
        }
    }
}

/// An answer's header block, read from the lines that libcurl gives. libcurl shows HTTP/2's fields in the
/// form of HTTP/1.1.
struct AnswerHead {
    let bytesMax: Int
    /// The final status, once the header block is whole.
    private(set) var status: Int?
    /// Lower-case names. Fields past the bound are left out.
    private(set) var fields: [(name: String, value: String)] = []
    private var begun: Int?
    private var bytes = 0

    init(bytesMax: Int) { self.bytesMax = bytesMax }

    /// One line with its end: a status line, a field, or the empty line behind the fields.
    mutating func read(_ line: UnsafeRawBufferPointer) {
        // What follows the final header block are trailers.
        guard status == nil else { return }
        let line = line.prefix { $0 != 13 && $0 != 10 }
        if line.starts(with: "HTTP/".utf8) {
            // An interim answer (1xx) has a header block of its own, which ends here.
            begun = AnswerHead.status(line)
            (fields, bytes) = ([], 0)
        } else if line.isEmpty {
            if let begun, begun >= 200 { status = begun }
        } else if let colon = line.firstIndex(of: UInt8(ascii: ":")), colon > line.startIndex {
            bytes += line.count
            guard bytes <= bytesMax else { return }
            let blanks: Set<UInt8> = [9, 32]
            var value = line[(colon + 1)...].drop { blanks.contains($0) }
            while let last = value.last, blanks.contains(last) { value.removeLast() }
            fields.append(
                (
                    name: String(decoding: line[..<colon], as: UTF8.self).lowercased(),
                    value: String(decoding: value, as: UTF8.self)
                ))
        }
    }

    /// `HTTP/2 201` or `HTTP/1.1 201 Created` (RFC 9112 §4).
    private static func status(_ line: Slice<UnsafeRawBufferPointer>) -> Int? {
        let parts = line.split(separator: 32, maxSplits: 2)
        guard parts.count > 1, parts[1].count == 3 else { return nil }
        return Int(String(decoding: parts[1], as: UTF8.self))
    }
}
