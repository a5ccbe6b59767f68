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

    func parse(_ bytes: [UInt8]) throws(JSONError) -> JSONValue {
        let wanted = bytes.count + Int(tidecast_json_padding)
        if padded.count < wanted {
            padded.deallocate()
            padded = .allocate(byteCount: wanted * 2, alignment: 64)
        }
        var tape: UnsafePointer<UInt64>?
        var strings: UnsafePointer<UInt8>?
        bytes.withUnsafeBytes { padded.copyMemory(from: $0) }
        for place in bytes.count..<wanted { padded[place] = 0 }
        let problem = tidecast_json_parse(
            parser, padded.bindMemory(to: UInt8.self).baseAddress, bytes.count, &tape, &strings)
        if let problem { throw JSONError(reason: String(cString: problem)) }
        guard let tape, let strings else { throw JSONError(reason: "no document") }
        // The first word of the tape says where its last stands; these two are no values.
        guard tape[0] & 0xFF_FFFF_FFFF_FFFF <= JSONParser.valuesMax + 2 else {
            throw JSONError(reason: "It has more than \(JSONParser.valuesMax) names and values.")
        }
        return JSONValue(tape: tape, strings: strings, place: 1)
    }
}
