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

/// One value on simdjson's tape (its doc/tape.md): eight bytes for each value, of which the first is the
/// kind.
struct JSONValue {
    enum Kind: UInt8 {
        case object = 0x7B, array = 0x5B, string = 0x22
        case signed = 0x6C, unsigned = 0x75, double = 0x64
        case yes = 0x74, no = 0x66, null = 0x6E
        case endOfObject = 0x7D, endOfArray = 0x5D
    }
    fileprivate let tape: UnsafePointer<UInt64>
    fileprivate let strings: UnsafePointer<UInt8>
    fileprivate let place: Int

    private var word: UInt64 { tape[place] }
    var kind: Kind { Kind(rawValue: UInt8(word >> 56)) ?? .null }
    private var payload: Int { Int(word & 0xFF_FFFF_FFFF_FFFF) }

    /// Where the value after this one stands.
    private var next: Int {
        switch kind {
        case .object, .array: Int(UInt32(truncatingIfNeeded: word))
        case .signed, .unsigned, .double: place + 2
        default: place + 1
        }
    }

    /// The bytes of a string, unescaped.
    var string: UnsafeBufferPointer<UInt8>? {
        guard kind == .string else { return nil }
        let start = strings + payload
        let count = UnsafeRawPointer(start).loadUnaligned(as: UInt32.self)
        return UnsafeBufferPointer(start: start + 4, count: Int(UInt32(littleEndian: count)))
    }

    var text: String? { string.map { String(decoding: $0, as: UTF8.self) } }

    var bool: Bool? {
        switch kind {
        case .yes: true
        case .no: false
        default: nil
        }
    }

    /// A whole number that fits, also where it was written as 3.0.
    var integer: Int64? {
        switch kind {
        case .signed: Int64(bitPattern: tape[place + 1])
        case .unsigned: Int64(exactly: tape[place + 1])
        case .double: Int64(exactly: Double(bitPattern: tape[place + 1]))
        default: nil
        }
    }

    var number: Double? {
        switch kind {
        case .signed: Double(Int64(bitPattern: tape[place + 1]))
        case .unsigned: Double(tape[place + 1])
        case .double: Double(bitPattern: tape[place + 1])
        default: nil
        }
    }

    /// The fields of an object in their order, repeats included (the last wins: whoever assigns in order has
    /// that).
    func forEachField(
        _ body: (UnsafeBufferPointer<UInt8>, JSONValue) throws(APIError) -> Void
    ) throws(APIError) {
        guard kind == .object else { return }
        let end = next - 1
        var at = place + 1
        while at < end {
            let key = JSONValue(tape: tape, strings: strings, place: at)
            let value = JSONValue(tape: tape, strings: strings, place: at + 1)
            if let name = key.string { try body(name, value) }
            at = value.next
        }
    }

    func forEachElement(_ body: (Int, JSONValue) throws(APIError) -> Void) throws(APIError) {
        guard kind == .array else { return }
        let end = next - 1
        var at = place + 1
        var number = 0
        while at < end {
            let value = JSONValue(tape: tape, strings: strings, place: at)
            try body(number, value)
            number += 1
            at = value.next
        }
    }

    /// The value's kind as an error names it.
    var kindName: String {
        switch kind {
        case .object: "an object"
        case .array: "an array"
        case .string: "a string"
        case .signed, .unsigned, .double: "a number"
        case .yes, .no: "true or false"
        default: "null"
        }
    }

    /// As it would be written, for an error's text; cut to some length.
    var shown: String {
        switch kind {
        case .string: "\"\(String((text ?? "").prefix(60)))\""
        case .signed, .unsigned: "\(integer ?? 0)"
        case .double: "\(number ?? 0)"
        case .yes: "true"
        case .no: "false"
        case .null: "null"
        default: kindName
        }
    }
}
