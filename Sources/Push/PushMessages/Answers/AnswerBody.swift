import CSimdjson

/// The body of a push service's refusal: often JSON, sometimes a page. At most its first 4 KiB are read.
struct AnswerBody {
    static let bytesMax = 4096
    private static let excerptMax = 120
    let bytes: [UInt8]

    init(_ bytes: [UInt8]) { self.bytes = Array(bytes.prefix(AnswerBody.bytesMax)) }

    /// The string at a JSON pointer (RFC 6901), at most 200 bytes of it, without control characters.
    func text(_ pointer: String) -> String? {
        guard !bytes.isEmpty else { return nil }
        var out = [UInt8](repeating: 0, count: 200)
        let count = tidecast_json_text_at(bytes, bytes.count, pointer, &out, out.count)
        return count < 0 ? nil : AnswerBody.plain(out[..<count])
    }

    func integer(_ pointer: String) -> Int64? {
        var out: Int64 = 0
        guard !bytes.isEmpty, tidecast_json_integer_at(bytes, bytes.count, pointer, &out) == 0 else {
            return nil
        }
        return out
    }

    /// The first line's beginning, for a log.
    var excerpt: String {
        let line = bytes.drop { $0 <= 0x20 }.prefix { $0 != 0x0A && $0 != 0x0D }
        return AnswerBody.plain(line.prefix(AnswerBody.excerptMax))
    }

    /// Whether the body has the ASCII word `word`, given in lower case. Case does not count.
    func mentions(_ word: StaticString) -> Bool {
        let length = word.utf8CodeUnitCount
        guard bytes.count >= length else { return false }
        return (0...bytes.count - length).contains { start in
            (0..<length).allSatisfy { index in
                let byte = bytes[start + index]
                let isUpper = byte >= UInt8(ascii: "A") && byte <= UInt8(ascii: "Z")
                return (isUpper ? byte | 0x20 : byte) == word.utf8Start[index]
            }
        }
    }

    /// A foreign text must not bring control characters into a log.
    private static func plain(_ bytes: ArraySlice<UInt8>) -> String {
        String(decoding: bytes.map { $0 < 0x20 || $0 >= 0x7F ? UInt8(ascii: "?") : $0 }, as: UTF8.self)
    }
}
