/// Checks values against their types and writes them in canonical form.
enum SchemaReader {
    /// The values of an object's fields. Refuses a name that the schema does not have.
    static func fields(_ object: JSONValue, _ schema: Schema, path: @autoclosure () -> String)
        throws(APIError)
        -> FieldValues
    {
        guard object.isA(.object) else { throw .type(path(), "MESSAGE", value: object) }
        var values = FieldValues(object)
        try object.forEachField { (name, value) throws(APIError) in
            guard let index = schema.index(of: name) else {
                throw .unknownField(String(decoding: name, as: UTF8.self), at: path())
            }
            values.set(index, value)
        }
        return values
    }

    /// Checks a value against its type and writes it in canonical form.
    static func write(
        _ value: JSONValue, _ type: FieldType, path: @autoclosure () -> String, to out: inout JSONWriter
    ) throws(APIError) {
        switch type {
        case .string:
            guard let text = value.string else { throw .type(path(), "TYPE_STRING", value: value) }
            out.string(text)
        case .bool:
            guard let bool = value.bool ?? value.boolText else {
                throw .type(path(), "TYPE_BOOL", value: value)
            }
            out.bool(bool)
        case .int32(let min):
            guard let number = value.integer ?? value.integerText, number <= Int64(Int32.max) else {
                throw .type(path(), "TYPE_INT32", value: value)
            }
            guard number >= min else { throw .invalid(path(), "The number must not be below \(min).") }
            out.number(number)
        case .word(let words):
            guard let word = words.word(value) else { throw .type(path(), "TYPE_ENUM", value: value) }
            out.string(UnsafeBufferPointer(start: word.utf8Start, count: word.utf8CodeUnitCount))
        case .duration:
            guard let text = value.string, Duration.read(text) != nil else {
                throw .invalid(path(), "Illegal duration format; duration must end with 's'.")
            }
            out.string(text)
        case .timestamp:
            guard let text = value.string, Timestamp.isValid(text) else {
                throw .invalid(path(), "Illegal timestamp format; timestamps must be RFC 3339.")
            }
            out.string(text)
        case .color:
            guard let text = value.string, isColor(text) else {
                throw .invalid(path(), "The color must be in the form #RRGGBB.")
            }
            out.string(text)
        case .fraction:
            guard let number = value.number else { throw .type(path(), "TYPE_FLOAT", value: value) }
            guard (0...1).contains(number) else { throw .invalid(path(), "The number must be from 0 to 1.") }
            out.value(value)
        case .free:
            guard value.kind == .object else { throw .type(path(), "MESSAGE", value: value) }
            out.value(value)
        default: try writeComposite(value, type, path: path(), to: &out)
        }
    }

    private static func writeComposite(
        _ value: JSONValue, _ type: FieldType, path: String, to out: inout JSONWriter
    ) throws(APIError) {
        switch type {
        case .stringMap:
            out.beginObject()
            try forEachPair(value, path) { (key, value) throws(APIError) in
                out.key(key)
                out.string(value)
            }
            out.endObject()
        case .list(let element):
            guard value.kind == .array else { throw .type(path, "LIST", value: value) }
            out.beginArray()
            try value.forEachElement { (index, inner) throws(APIError) in
                try write(inner, element, path: "\(path)[\(index)]", to: &out)
            }
            out.endArray()
        case .object(let schema):
            let values = try fields(value, schema, path: path)
            out.beginObject()
            try write(values, schema, path: path, to: &out)
            out.endObject()
        default: break
        }
    }

    static func write(
        _ values: FieldValues, _ schema: Schema, path: String, to out: inout JSONWriter
    ) throws(APIError) {
        for index in 0..<schema.types.count {
            guard let value = values[index] else { continue }
            out.key(schema.camel[index])
            try write(value, schema.types[index], path: "\(path).\(schema.snake[index])", to: &out)
        }
    }

    /// Visits the entries of a map of strings in order. A repeated key has its last value.
    static func forEachPair(
        _ map: JSONValue, _ path: String, body: (Bytes, Bytes) throws(APIError) -> Void
    ) throws(APIError) {
        guard map.isA(.object) else { throw .type(path, "MAP", value: map) }
        var number = 0
        try map.forEachField { (_, value) throws(APIError) in
            guard value.isA(.string) else {
                throw .type("\(path)[\(number)].value", "TYPE_STRING", value: value)
            }
            number += 1
        }
        try map.forEachUniqueField { (key, value) throws(APIError) in
            if let text = value.string { try body(key, text) }
        }
    }

    private static func isColor(_ text: Bytes) -> Bool {
        guard text.count == 7, text[0] == UInt8(ascii: "#") else { return false }
        return text[1...].allSatisfy {
            ($0 >= 0x30 && $0 <= 0x39) || ($0 >= 0x41 && $0 <= 0x46) || ($0 >= 0x61 && $0 <= 0x66)
        }
    }
}

/// The indices on the tape of one object's fields. Of a repeated field the last one counts, and `null` counts
/// as missing. Inline, because each send makes some and must not allocate for them.
struct FieldValues {
    private let object: JSONValue
    /// 0 means a missing field: the tape has its root word there, and no value.
    private var tapeIndices = InlineArray<32, Int32>(repeating: 0)

    init(_ object: JSONValue) { self.object = object }

    /// `index` comes from a schema, so it is below `Schema.fieldsMax`. A document has fewer than 2^31 values.
    fileprivate mutating func set(_ index: Int, _ value: JSONValue) {
        tapeIndices[index] = value.kind == .null ? 0 : Int32(truncatingIfNeeded: value.index)
    }

    subscript(index: Int) -> JSONValue? {
        guard tapeIndices[index] != 0 else { return nil }
        return JSONValue(tape: object.tape, strings: object.strings, index: Int(tapeIndices[index]))
    }
}
