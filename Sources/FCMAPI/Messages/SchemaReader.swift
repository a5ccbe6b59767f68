/// Checks values against their types and writes them in canonical form.
enum SchemaReader {
    /// The value of each field of an object, the last where a field stands twice; `null` is not there.
    static func fields(_ object: JSONValue, _ schema: Schema, _ path: String) throws(APIError) -> [JSONValue?]
    {
        guard object.kind == .object else { throw .type(path, "MESSAGE", object) }
        var values = [JSONValue?](repeating: nil, count: schema.types.count)
        try object.forEachField { (name, value) throws(APIError) in
            guard let place = schema.place(of: name) else {
                throw .unknownField(String(decoding: name, as: UTF8.self), at: path)
            }
            values[place] = value.kind == .null ? nil : value
        }
        return values
    }

    /// Writes a value as its type wants it.
    static func write(
        _ value: JSONValue, _ type: FieldType, _ path: @autoclosure () -> String, to out: inout JSONWriter
    ) throws(APIError) {
        switch type {
        case .string:
            guard let text = value.string else { throw .type(path(), "TYPE_STRING", value) }
            out.string(text)
        case .bool:
            guard let bool = value.bool else { throw .type(path(), "TYPE_BOOL", value) }
            out.bool(bool)
        case .int32(let min):
            guard let number = value.integer, number <= Int64(Int32.max) else {
                throw .type(path(), "TYPE_INT32", value)
            }
            guard number >= min else { throw .invalid(path(), "The number must not be below \(min).") }
            out.number(number)
        case .word(let words):
            guard let text = value.text else { throw .type(path(), "TYPE_ENUM", value) }
            guard let word = words.first(where: { $0 == text || $0.lowercased() == text }) else {
                throw .type(path(), "TYPE_ENUM", value)
            }
            out.string(word)
        case .duration:
            guard let text = value.string, Duration.nanoseconds(text) != nil else {
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
            guard let number = value.number else { throw .type(path(), "TYPE_FLOAT", value) }
            guard (0...1).contains(number) else { throw .invalid(path(), "The number must be from 0 to 1.") }
            out.value(value)
        case .free:
            guard value.kind == .object else { throw .type(path(), "MESSAGE", value) }
            out.value(value)
        default: try writeComposite(value, type, path(), to: &out)
        }
    }

    private static func writeComposite(
        _ value: JSONValue, _ type: FieldType, _ path: String, to out: inout JSONWriter
    ) throws(APIError) {
        switch type {
        case .stringMap:
            out.beginObject()
            for (key, value) in try pairs(value, path) {
                out.key(key)
                out.string(value)
            }
            out.endObject()
        case .list(let element):
            guard value.kind == .array else { throw .type(path, "LIST", value) }
            out.beginArray()
            try value.forEachElement { (place, inner) throws(APIError) in
                try write(inner, element, "\(path)[\(place)]", to: &out)
            }
            out.endArray()
        case .object(let schema):
            let values = try fields(value, schema, path)
            out.beginObject()
            try write(values, schema, path, to: &out)
            out.endObject()
        default: break
        }
    }

    static func write(
        _ values: [JSONValue?], _ schema: Schema, _ path: String, to out: inout JSONWriter
    ) throws(APIError) {
        for place in 0..<values.count {
            guard let value = values[place] else { continue }
            out.key(schema.camel[place])
            try write(value, schema.types[place], "\(path).\(schema.camel[place])", to: &out)
        }
    }

    typealias Bytes = UnsafeBufferPointer<UInt8>

    /// The entries of a map of strings, in order; a repeated key has its last value.
    static func pairs(_ map: JSONValue, _ path: String) throws(APIError) -> [(Bytes, Bytes)] {
        guard map.kind == .object else { throw .type(path, "MAP", map) }
        var pairs: [(Bytes, Bytes)] = []
        var number = 0
        try map.forEachField { (key, value) throws(APIError) in
            guard let text = value.string else {
                throw .type("\(path)[\(number)].value", "TYPE_STRING", value)
            }
            number += 1
            if let known = pairs.firstIndex(where: { $0.0.elementsEqual(key) }) {
                pairs[known].1 = text
            } else {
                pairs.append((key, text))
            }
        }
        return pairs
    }

    private static func isColor(_ text: Bytes) -> Bool {
        guard text.count == 7, text[0] == UInt8(ascii: "#") else { return false }
        return text[1...].allSatisfy {
            ($0 >= 0x30 && $0 <= 0x39) || ($0 >= 0x41 && $0 <= 0x46) || ($0 >= 0x61 && $0 <= 0x66)
        }
    }
}

/// protobuf's JSON form of a duration: `3.5s`.
enum Duration {
    /// `nil` where the form is wrong or the number too large.
    static func nanoseconds(_ text: UnsafeBufferPointer<UInt8>) -> UInt64? {
        guard text.count >= 2, text.count <= 32, text[text.count - 1] == UInt8(ascii: "s") else { return nil }
        var seconds: UInt64 = 0
        var nanoseconds: UInt64 = 0
        var scale: UInt64 = 1_000_000_000
        var place = 0
        while place < text.count - 1, let digit = digit(text[place]) {
            guard seconds < 10_000_000_000 else { return nil }
            seconds = seconds * 10 + digit
            place += 1
        }
        guard place > 0 else { return nil }
        if text[place] == UInt8(ascii: ".") {
            let start = place + 1
            place = start
            while place < text.count - 1, let digit = digit(text[place]) {
                guard place - start < 9 else { return nil }
                scale /= 10
                nanoseconds += digit * scale
                place += 1
            }
            guard place > start else { return nil }
        }
        guard place == text.count - 1, seconds < 10_000_000_000 else { return nil }
        return seconds * 1_000_000_000 + nanoseconds
    }

    static func digit(_ byte: UInt8) -> UInt64? {
        byte >= 0x30 && byte <= 0x39 ? UInt64(byte - 0x30) : nil
    }
}

/// RFC 3339 timestamps, as far as their form goes.
enum Timestamp {
    static func isValid(_ text: UnsafeBufferPointer<UInt8>) -> Bool {
        guard text.count >= 20, text.count <= 40 else { return false }
        let pattern = Array("0000-00-00T00:00:00".utf8)
        for (place, wanted) in pattern.enumerated() {
            if wanted == 0x30 {
                guard Duration.digit(text[place]) != nil else { return false }
            } else if text[place] != wanted
                && !(wanted == UInt8(ascii: "T") && text[place] == UInt8(ascii: "t"))
            {
                return false
            }
        }
        var place = pattern.count
        if text[place] == UInt8(ascii: ".") {
            place += 1
            let start = place
            while place < text.count, Duration.digit(text[place]) != nil { place += 1 }
            guard place > start, place - start <= 9 else { return false }
        }
        guard place < text.count else { return false }
        if text[place] == UInt8(ascii: "Z") || text[place] == UInt8(ascii: "z") {
            return place + 1 == text.count
        }
        guard text[place] == UInt8(ascii: "+") || text[place] == UInt8(ascii: "-"), place + 6 == text.count
        else {
            return false
        }
        return [1, 2, 4, 5].allSatisfy { Duration.digit(text[place + $0]) != nil }
            && text[place + 3] == UInt8(ascii: ":")
    }

    /// `2026-11-20T22:26:44.123Z`
    static func text(_ milliseconds: Int64) -> String {
        let days = Int(milliseconds.quotientAndRemainder(dividingBy: 86_400_000).quotient)
        let rest = Int(milliseconds - Int64(days) * 86_400_000)
        func two(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }
        let thousandths = String(rest % 1000 + 1000).dropFirst()
        let clock =
            "\(two(rest / 3_600_000)):\(two(rest / 60_000 % 60)):\(two(rest / 1000 % 60)).\(thousandths)Z"
        return "\(date(days))T\(clock)"
    }

    /// `2026-11-20` from days since 1970 (civil-from-days: eras of 400 years that begin in March).
    static func date(_ days: Int) -> String {
        let shifted = days + 719_468
        let era = shifted / 146_097
        let dayOfEra = shifted % 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let month = (5 * dayOfYear + 2) / 153
        let day = dayOfYear - (153 * month + 2) / 5 + 1
        let realMonth = month < 10 ? month + 3 : month - 9
        let year = yearOfEra + era * 400 + (realMonth <= 2 ? 1 : 0)
        func two(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }
        return "\(year)-\(two(realMonth))-\(two(day))"
    }
}
