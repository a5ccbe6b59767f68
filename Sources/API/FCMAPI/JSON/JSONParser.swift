import CSimdjson

/// Why a body is not JSON.
struct JSONError: Error {
    var reason: String
}

/// Parses JSON with simdjson, which validates everything first (UTF-8, escapes, numbers, depth, nothing
/// behind the document). Confined to one loop; values are valid until the next parse.
final class JSONParser {
    /// FCM's messages have a handful of levels; free-form parts (web push, APNs) may have more.
    static let depthMax = 64
    static let documentBytesMax = 4 << 20
    /// Names and values of one document; numbers, objects and lists count twice. A message within FCM's
    /// limits has fewer. The bound lets the code that reads a document spend some time on each of them.
    static let valuesMax = 8192

    private let parser: OpaquePointer
    /// The document, and behind it the bytes that simdjson may read past its end.
    private var padded = UnsafeMutableRawBufferPointer.allocate(byteCount: 4096, alignment: 64)

    init() {
        guard let parser = tidecast_json_parser_new(JSONParser.documentBytesMax, JSONParser.depthMax) else {
            fatalError("out of memory for a JSON parser")
        }
        self.parser = parser
    }

    deinit {
        tidecast_json_parser_free(parser)
        padded.deallocate()
    }

    /// `isLenient`: accepts a comma before a closing bracket, as protobuf's reader does. The parser looks for
    /// such commas only in a body that is not JSON with them.
    func parse(_ bytes: [UInt8], isLenient: Bool = false) throws(JSONError) -> JSONValue {
        let wanted = bytes.count + Int(tidecast_json_padding)
        if padded.count < wanted {
            padded.deallocate()
            padded = .allocate(byteCount: wanted * 2, alignment: 64)
        }
        var tape: UnsafePointer<UInt64>?
        var strings: UnsafePointer<UInt8>?
        bytes.withUnsafeBytes { padded.copyMemory(from: $0) }
        for index in bytes.count..<wanted { padded[index] = 0 }
        let start = padded.bindMemory(to: UInt8.self).baseAddress
        var problem = tidecast_json_parse(parser, start, bytes.count, &tape, &strings)
        if problem != nil, isLenient, blankTrailingCommas(bytes.count) {
            problem = tidecast_json_parse(parser, start, bytes.count, &tape, &strings)
        }
        if let problem { throw JSONError(reason: String(cString: problem)) }
        guard let tape, let strings else { throw JSONError(reason: "no document") }
        // The tape's first word has the index of the last; neither of the two is a value.
        guard tape[0] & 0xFF_FFFF_FFFF_FFFF <= JSONParser.valuesMax + 2 else {
            throw JSONError(reason: "The body has more than \(JSONParser.valuesMax) names and values.")
        }
        return JSONValue(tape: tape, strings: strings, index: 1)
    }

    /// Blanks each comma between a value and a closing bracket. Returns false if there is none.
    private func blankTrailingCommas(_ count: Int) -> Bool {
        var hasAny = false
        /// The last comma, while only blanks have followed it.
        var comma: Int?
        var before: UInt8 = 0
        var index = 0
        while index < count {
            let byte = padded[index]
            switch byte {
            case 0x20, 0x09, 0x0A, 0x0D:
                index += 1
                continue
            case UInt8(ascii: ","):
                switch before {
                case 0, UInt8(ascii: "{"), UInt8(ascii: "["), UInt8(ascii: ":"), byte: comma = nil
                default: comma = index
                }
            case UInt8(ascii: "}"), UInt8(ascii: "]"):
                if let comma {
                    padded[comma] = 0x20
                    hasAny = true
                }
                comma = nil
            default: comma = nil
            }
            before = byte
            index = byte == UInt8(ascii: "\"") ? endOfString(index, count) : index + 1
        }
        return hasAny
    }

    /// The index behind the string that begins at `start`.
    private func endOfString(_ start: Int, _ count: Int) -> Int {
        var index = start + 1
        while index < count, padded[index] != UInt8(ascii: "\"") {
            index += padded[index] == UInt8(ascii: "\\") ? 2 : 1
        }
        return index + 1
    }
}
