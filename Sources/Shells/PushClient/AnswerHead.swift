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
            // An interim answer (1xx) has its own header block, which ends here.
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
