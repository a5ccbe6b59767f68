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

    private let parser: OpaquePointer
    private var padded: [UInt8] = []

    init() {
        guard let parser = tidecast_json_parser_new(JSONParser.documentBytesMax, JSONParser.depthMax) else {
            fatalError("out of memory for a JSON parser")
        }
        self.parser = parser
    }

    deinit { tidecast_json_parser_free(parser) }

    func parse(_ bytes: [UInt8]) throws(JSONError) -> JSONValue {
        padded.removeAll(keepingCapacity: true)
        padded.append(contentsOf: bytes)
        padded.append(contentsOf: repeatElement(0, count: tidecast_json_padding))
        var tape: UnsafePointer<UInt64>?
        var strings: UnsafePointer<UInt8>?
        let problem = padded.withUnsafeBufferPointer {
            tidecast_json_parse(parser, $0.baseAddress, bytes.count, &tape, &strings)
        }
        if let problem { throw JSONError(reason: String(cString: problem)) }
        guard let tape, let strings else { throw JSONError(reason: "no document") }
        return JSONValue(tape: tape, strings: strings, place: 1)
    }
}
