import Model

/// Writes JSON into its own memory. The caller must begin and end objects and arrays in order; the writer
/// sets the commas.
///
/// The writer uses a pointer instead of an array: each append to an array checks whether the array is shared
/// and large enough, which would cost more than all the rest of a short message.
struct JSONWriter: ~Copyable {
    private var base: UnsafeMutablePointer<UInt8>
    private var capacity: Int
    private(set) var count = 0
    private var needsComma = false

    init(capacity: Int = 256) {
        self.capacity = max(capacity, 64)
        base = .allocate(capacity: self.capacity)
    }

    deinit { base.deallocate() }

    var bytes: [UInt8] { Array(UnsafeBufferPointer(start: base, count: count)) }

    // MARK: Bytes

    /// Makes room for so many more bytes, and returns the place of the first of them.
    @inline(__always)
    private mutating func room(_ more: Int) -> UnsafeMutablePointer<UInt8> {
        if count + more > capacity { grow(more) }
        return base + count
    }

    @inline(never)
    private mutating func grow(_ more: Int) {
        capacity = max(capacity * 2, count + more)
        let larger = UnsafeMutablePointer<UInt8>.allocate(capacity: capacity)
        larger.update(from: base, count: count)
        base.deallocate()
        base = larger
    }

    @inline(__always)
    private mutating func put(_ byte: UInt8) {
        room(1).pointee = byte
        count += 1
    }

    @inline(__always)
    private mutating func put(_ start: UnsafePointer<UInt8>, _ length: Int) {
        room(length).update(from: start, count: length)
        count += length
    }

    @inline(__always)
    private mutating func put(_ text: StaticString) { put(text.utf8Start, text.utf8CodeUnitCount) }

    // MARK: Structure

    mutating func beginObject() { begin(UInt8(ascii: "{")) }
    mutating func endObject() { end(UInt8(ascii: "}")) }
    mutating func beginArray() { begin(UInt8(ascii: "[")) }
    mutating func endArray() { end(UInt8(ascii: "]")) }

    private mutating func begin(_ bracket: UInt8) {
        comma()
        put(bracket)
        needsComma = false
    }
    private mutating func end(_ bracket: UInt8) {
        put(bracket)
        needsComma = true
    }
    @inline(__always)
    private mutating func comma() {
        if needsComma { put(UInt8(ascii: ",")) }
        needsComma = true
    }

    // MARK: Names and values

    /// A name that this program has chosen, and that needs no escaping.
    mutating func key(_ name: StaticString) {
        comma()
        put(UInt8(ascii: "\""))
        put(name)
        put("\":")
        needsComma = false
    }

    mutating func key(_ name: Bytes) {
        string(name)
        put(UInt8(ascii: ":"))
        needsComma = false
    }

    mutating func key(_ name: some Collection<UInt8>) {
        string(name)
        put(UInt8(ascii: ":"))
        needsComma = false
    }

    mutating func string(_ text: Bytes) {
        comma()
        put(UInt8(ascii: "\""))
        quoted(text)
        put(UInt8(ascii: "\""))
    }

    mutating func string(_ text: [UInt8]) { text.withUnsafeBufferPointer { string($0) } }

    mutating func string(_ text: String) {
        var text = text
        text.withUTF8 { string($0) }
    }

    mutating func string(_ text: some Collection<UInt8>) { string(Array(text)) }

    /// A string of parts. Parts that are a `StaticString` need no escaping.
    mutating func beginString(_ text: StaticString) {
        comma()
        put(UInt8(ascii: "\""))
        put(text)
    }
    mutating func part(_ text: StaticString) { put(text) }
    mutating func part(_ text: [UInt8]) { text.withUnsafeBufferPointer { quoted($0) } }
    mutating func part(_ text: String) {
        var text = text
        text.withUTF8 { quoted($0) }
    }
    mutating func part(_ id: MessageID) {
        let start = room(MessageID.textCount)
        id.write(to: UnsafeMutableBufferPointer(start: start, count: MessageID.textCount))
        count += MessageID.textCount
    }
    mutating func endString() { put(UInt8(ascii: "\"")) }

    mutating func raw(_ text: String) {
        comma()
        var text = text
        text.withUTF8 { text in
            if let start = text.baseAddress { put(start, text.count) }
        }
    }
    mutating func bool(_ value: Bool) {
        comma()
        put(value ? "true" : "false")
    }

    mutating func number(_ value: some BinaryInteger) {
        guard var rest = UInt64(exactly: value) else { return raw(String(value)) }
        comma()
        var digits = 1
        var power: UInt64 = 10
        while digits < 20, rest >= power {
            digits += 1
            power = digits < 20 ? power * 10 : power
        }
        let start = room(digits)
        for index in stride(from: digits - 1, through: 0, by: -1) {
            start[index] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10)
            rest /= 10
        }
        count += digits
    }

    mutating func field(_ name: StaticString, _ text: String) {
        key(name)
        string(text)
    }
    mutating func field(_ name: StaticString, _ text: some Collection<UInt8>) {
        key(name)
        string(text)
    }

    // MARK: Escaping

    /// Escapes the characters that JSON demands to be escaped (RFC 8259 §7), and no others.
    private mutating func quoted(_ text: Bytes) {
        guard let start = text.baseAddress else { return }
        var index = text.prefixCount(
            where: { $0 >= 0x20 && $0 != 0x22 && $0 != 0x5C },
            failsIn: { $0.below(0x20) | $0.equal(to: 0x22) | $0.equal(to: 0x5C) })
        put(start, index)
        while index < text.count {
            escaped(start[index])
            index += 1
        }
    }

    private mutating func escaped(_ byte: UInt8) {
        switch byte {
        case 0x22:
            put("\\\"")
        case 0x5C:
            put("\\\\")
        case 0x0A: put("\\n")
        case 0x0D: put("\\r")
        case 0x09: put("\\t")
        case 0..<0x20:
            put("\\u00")
            put(UInt8(ascii: "0") + byte >> 4)
            let digit = byte & 15
            put(digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10)
        default: put(byte)
        }
    }

    /// A parsed value in compact form, with each name of an object once.
    mutating func value(_ value: JSONValue) {
        switch value.kind {
        case .object:
            beginObject()
            for field in value.uniqueFields() {
                key(field.name)
                self.value(field.value)
            }
            endObject()
        case .array:
            beginArray()
            for element in value.elements { self.value(element) }
            endArray()
        case .string: if let text = value.string { string(text) }
        case .signed: if let number = value.integer { self.number(number) }
        case .unsigned: if let number = value.unsigned { self.number(number) }
        case .double: raw("\(value.number ?? 0)")
        case .yes: bool(true)
        case .no: bool(false)
        default: raw("null")
        }
    }
}
