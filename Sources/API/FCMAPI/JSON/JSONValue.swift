/// One value on simdjson's tape (its doc/tape.md). The tape has words of eight bytes, and the highest byte of
/// a value's first word is its kind.
struct JSONValue {
    enum Kind: UInt8 {
        case object = 0x7B, array = 0x5B, string = 0x22
        case signed = 0x6C, unsigned = 0x75, double = 0x64
        case yes = 0x74, no = 0x66, null = 0x6E
        case endOfObject = 0x7D, endOfArray = 0x5D
    }
    let tape: UnsafePointer<UInt64>
    let strings: UnsafePointer<UInt8>
    let index: Int

    private var word: UInt64 { tape[index] }
    var kind: Kind { Kind(rawValue: UInt8(word >> 56)) ?? .null }
    @inline(__always)
    func isA(_ kind: Kind) -> Bool { UInt8(word >> 56) == kind.rawValue }
    private var payload: Int { Int(word & 0xFF_FFFF_FFFF_FFFF) }

    /// The index of the value behind this one.
    private var next: Int {
        if isA(.string) { return index + 1 }
        return switch kind {
        case .object, .array: Int(UInt32(truncatingIfNeeded: word))
        case .signed, .unsigned, .double: index + 2
        default: index + 1
        }
    }

    /// The bytes of a string, unescaped.
    var string: UnsafeBufferPointer<UInt8>? {
        guard isA(.string) else { return nil }
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

    /// A whole number that fits, also one written as 3.0.
    var integer: Int64? {
        switch kind {
        case .signed: Int64(bitPattern: tape[index + 1])
        case .unsigned: Int64(exactly: tape[index + 1])
        case .double: Int64(exactly: Double(bitPattern: tape[index + 1]))
        default: nil
        }
    }

    /// A whole number written as a string, as protobuf's JSON allows.
    var integerText: Int64? {
        guard let text = string, (1...20).contains(text.count), text[0] != UInt8(ascii: "+") else {
            return nil
        }
        return Int64(String(decoding: text, as: UTF8.self))
    }

    /// `true` or `false` written as a string, which protobuf's reader takes.
    var boolText: Bool? {
        guard let text = string else { return nil }
        return Schema.equal(text, "true") ? true : Schema.equal(text, "false") ? false : nil
    }

    /// What simdjson calls unsigned: only whole numbers above `Int64.max`.
    var unsigned: UInt64? { kind == .unsigned ? tape[index + 1] : nil }

    var number: Double? {
        switch kind {
        case .signed: Double(Int64(bitPattern: tape[index + 1]))
        case .unsigned: Double(tape[index + 1])
        case .double: Double(bitPattern: tape[index + 1])
        default: nil
        }
    }

    /// Visits the fields of an object in order, repeats included. Of a repeated name the last value must win,
    /// as it does if the visitor assigns.
    func forEachField(_ body: (Bytes, JSONValue) throws(APIError) -> Void) throws(APIError) {
        guard isA(.object) else { return }
        let end = next - 1
        var at = index + 1
        while at < end {
            let name = JSONValue(tape: tape, strings: strings, index: at)
            let value = JSONValue(tape: tape, strings: strings, index: name.next)
            if let name = name.string { try body(name, value) }
            at = value.next
        }
    }

    /// Visits the fields of an object, each name once. Nearly every object has at most 16 fields with
    /// different names: then the visit allocates nothing.
    func forEachUniqueField(_ body: (Bytes, JSONValue) throws(APIError) -> Void) throws(APIError) {
        if isShortWithoutRepeats { return try forEachField(body) }
        for field in uniqueFields() { try body(field.name, field.value) }
    }

    private var isShortWithoutRepeats: Bool {
        guard isA(.object) else { return true }
        var names = InlineArray<16, Int32>(repeating: 0)
        var count = 0
        let end = next - 1
        var at = index + 1
        while at < end {
            guard count < JSONValue.comparedMax else { return false }
            let name = JSONValue(tape: tape, strings: strings, index: at)
            guard let text = name.string else { return false }
            for known in 0..<count {
                let other = JSONValue(tape: tape, strings: strings, index: Int(names[known]))
                if let other = other.string, BytesKey(bytes: other) == BytesKey(bytes: text) { return false }
            }
            names[count] = Int32(truncatingIfNeeded: at)
            count += 1
            at = JSONValue(tape: tape, strings: strings, index: name.next).next
        }
        return true
    }

    /// The fields of an object, each name once, at its first position and with its last value.
    ///
    /// Up to 16 names are compared with each other. More are found by hash, so that the cost of a body full
    /// of names grows only with its length.
    func uniqueFields() -> [(name: Bytes, value: JSONValue)] {
        guard kind == .object else { return [] }
        var fields: [(name: Bytes, value: JSONValue)] = []
        var indices: [BytesKey: Int] = [:]
        let end = next - 1
        var at = index + 1
        while at < end {
            let name = JSONValue(tape: tape, strings: strings, index: at)
            let value = JSONValue(tape: tape, strings: strings, index: name.next)
            at = value.next
            guard let name = name.string else { continue }
            if fields.count == JSONValue.comparedMax, indices.isEmpty {
                for (index, field) in fields.enumerated() { indices[BytesKey(bytes: field.name)] = index }
            }
            let known =
                indices.isEmpty
                ? fields.firstIndex { BytesKey(bytes: $0.name) == BytesKey(bytes: name) }
                : indices[BytesKey(bytes: name)]
            if let known {
                fields[known].value = value
            } else {
                if !indices.isEmpty { indices[BytesKey(bytes: name)] = fields.count }
                fields.append((name, value))
            }
        }
        return fields
    }

    private static let comparedMax = 16

    func forEachElement(_ body: (Int, JSONValue) throws(APIError) -> Void) throws(APIError) {
        guard kind == .array else { return }
        let end = next - 1
        var at = index + 1
        var number = 0
        while at < end {
            let value = JSONValue(tape: tape, strings: strings, index: at)
            try body(number, value)
            number += 1
            at = value.next
        }
    }

    /// Bytes of all names and values inside, as FCM counts a payload. A number counts as 8 bytes.
    var weight: Int {
        switch kind {
        case .object: fieldsWeight
        case .array:
            elements.reduce(0) { $0 + $1.weight }
        case .string: string?.count ?? 0
        case .signed, .unsigned, .double: 8
        default: 1
        }
    }

    private var fieldsWeight: Int {
        var weight = 0
        let add = { (name: Bytes, value: JSONValue) in weight += name.count + value.weight }
        try? forEachUniqueField { (name, value) throws(APIError) in add(name, value) }
        return weight
    }

    var elements: [JSONValue] {
        guard kind == .array else { return [] }
        var elements: [JSONValue] = []
        let end = next - 1
        var at = index + 1
        while at < end {
            elements.append(JSONValue(tape: tape, strings: strings, index: at))
            at = elements[elements.count - 1].next
        }
        return elements
    }

    /// The value's kind, for an error's text.
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

    /// The value for an error's text: a string cut to 60 characters, an object or array as its kind.
    var shown: String {
        switch kind {
        case .string: "\"\(String((text ?? "").prefix(60)))\""
        case .signed: "\(integer ?? 0)"
        case .unsigned: "\(unsigned ?? 0)"
        case .double: "\(number ?? 0)"
        case .yes: "true"
        case .no: "false"
        case .null: "null"
        default: kindName
        }
    }
}

typealias Bytes = UnsafeBufferPointer<UInt8>

/// Borrowed bytes, compared and hashed by their content.
struct BytesKey: Hashable {
    let bytes: Bytes

    static func == (left: BytesKey, right: BytesKey) -> Bool {
        guard left.bytes.count == right.bytes.count else { return false }
        for index in 0..<left.bytes.count where left.bytes[index] != right.bytes[index] { return false }
        return true
    }

    func hash(into hasher: inout Hasher) { hasher.combine(bytes: UnsafeRawBufferPointer(bytes)) }
}
