import CSimdjson

/// What is wrong with a body that is no JSON.
struct JSONError: Error {
    var reason: String
}

/// Parses JSON with simdjson: everything is validated (UTF-8, escapes, numbers, depth, nothing behind the
/// document) before anything is looked at. Confined to one loop; values are good until the next parse.
final class JSONParser {
    /// FCM's messages are a handful of levels deep; free-form parts (web push, APNs) may be deeper.
    static let depthMax = 64
    static let documentBytesMax = 4 << 20
    /// Names and values of one document; numbers, objects and lists count twice. A message within FCM's
    /// limits has fewer. Whoever looks at a document may take its time for each of them.
    static let valuesMax = 8192

    private let parser: OpaquePointer
    /// The document, and behind it the room that simdjson may read past its end.
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

    /// `isLenient`: a comma before a closing bracket is taken, as protobuf's reader takes it. Only a body
    /// that is no JSON without that is looked through for them.
    func parse(_ bytes: [UInt8], isLenient: Bool = false) throws(JSONError) -> JSONValue {
        let wanted = bytes.count + Int(tidecast_json_padding)
        if padded.count < wanted {
            padded.deallocate()
            padded = .allocate(byteCount: wanted * 2, alignment: 64)
        }
        var tape: UnsafePointer<UInt64>?
        var strings: UnsafePointer<UInt8>?
        bytes.withUnsafeBytes { padded.copyMemory(from: $0) }
        for place in bytes.count..<wanted { padded[place] = 0 }
        let start = padded.bindMemory(to: UInt8.self).baseAddress
        var problem = tidecast_json_parse(parser, start, bytes.count, &tape, &strings)
        if problem != nil, isLenient, blankTrailingCommas(bytes.count) {
            problem = tidecast_json_parse(parser, start, bytes.count, &tape, &strings)
        }
        if let problem { throw JSONError(reason: String(cString: problem)) }
        guard let tape, let strings else { throw JSONError(reason: "no document") }
        // The first word of the tape says where its last stands; these two are no values.
        guard tape[0] & 0xFF_FFFF_FFFF_FFFF <= JSONParser.valuesMax + 2 else {
            throw JSONError(reason: "It has more than \(JSONParser.valuesMax) names and values.")
        }
        return JSONValue(tape: tape, strings: strings, place: 1)
    }

    /// Blanks each comma that stands behind a value and before a closing bracket. `false` where there is
    /// none.
    private func blankTrailingCommas(_ count: Int) -> Bool {
        var hasAny = false
        /// The last comma, as long as nothing but blanks has come behind it.
        var comma: Int?
        var before: UInt8 = 0
        var place = 0
        while place < count {
            let byte = padded[place]
            switch byte {
            case 0x20, 0x09, 0x0A, 0x0D:
                place += 1
                continue
            case UInt8(ascii: ","):
                switch before {
                case 0, UInt8(ascii: "{"), UInt8(ascii: "["), UInt8(ascii: ":"), byte: comma = nil
                default: comma = place
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
            place = byte == UInt8(ascii: "\"") ? endOfString(place, count) : place + 1
        }
        return hasAny
    }

    /// The place behind a string that begins here.
    private func endOfString(_ start: Int, _ count: Int) -> Int {
        var place = start + 1
        while place < count, padded[place] != UInt8(ascii: "\"") {
            place += padded[place] == UInt8(ascii: "\\") ? 2 : 1
        }
        return place + 1
    }
}
