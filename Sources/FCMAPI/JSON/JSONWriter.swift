/// Writes JSON into bytes. The caller keeps the order of begin and end; commas come by themselves.
struct JSONWriter {
    var bytes: [UInt8] = []
    private var needsComma = false

    init(capacity: Int = 256) { bytes.reserveCapacity(capacity) }

    mutating func beginObject() { begin(UInt8(ascii: "{")) }
    mutating func endObject() { end(UInt8(ascii: "}")) }
    mutating func beginArray() { begin(UInt8(ascii: "[")) }
    mutating func endArray() { end(UInt8(ascii: "]")) }

    private mutating func begin(_ bracket: UInt8) {
        comma()
        bytes.append(bracket)
        needsComma = false
    }
    private mutating func end(_ bracket: UInt8) {
        bytes.append(bracket)
        needsComma = true
    }
    private mutating func comma() {
        if needsComma { bytes.append(UInt8(ascii: ",")) }
        needsComma = true
    }

    /// A name of this program's own, which needs no escaping.
    mutating func key(_ name: StaticString) {
        if needsComma { bytes.append(UInt8(ascii: ",")) }
        bytes.append(UInt8(ascii: "\""))
        bytes.append(contentsOf: UnsafeBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount))
        bytes.append(UInt8(ascii: "\""))
        bytes.append(UInt8(ascii: ":"))
        needsComma = false
    }

    /// A string whose bytes `body` appends; they must need no escaping.
    mutating func plain(_ body: (inout [UInt8]) -> Void) {
        comma()
        bytes.append(UInt8(ascii: "\""))
        body(&bytes)
        bytes.append(UInt8(ascii: "\""))
    }

    mutating func key(_ name: some Collection<UInt8>) {
        quoted(name)
        bytes.append(UInt8(ascii: ":"))
        needsComma = false
    }

    mutating func string(_ text: some Collection<UInt8>) { quoted(text) }
    mutating func string(_ text: String) { quoted(text.utf8) }

    mutating func raw(_ text: String) {
        comma()
        bytes.append(contentsOf: text.utf8)
    }
    mutating func number(_ value: some BinaryInteger) { raw(String(value)) }
    mutating func bool(_ value: Bool) { raw(value ? "true" : "false") }

    mutating func field(_ name: StaticString, _ text: String) {
        key(name)
        string(text)
    }
    mutating func field(_ name: StaticString, _ text: some Collection<UInt8>) {
        key(name)
        string(text)
    }

    /// Escapes what JSON must have escaped (RFC 8259 §7), and nothing else.
    private mutating func quoted(_ text: some Collection<UInt8>) {
        comma()
        bytes.append(UInt8(ascii: "\""))
        let isPlain = text.withContiguousStorageIfAvailable { buffer -> Bool in
            for byte in buffer where byte < 0x20 || byte == 0x22 || byte == 0x5C { return false }
            bytes.append(contentsOf: buffer)
            return true
        }
        if isPlain != true { for byte in text { escaped(byte) } }
        bytes.append(UInt8(ascii: "\""))
    }

    private mutating func escaped(_ byte: UInt8) {
        switch byte {
        case 0x22, 0x5C:
            bytes.append(0x5C)
            bytes.append(byte)
        case 0x0A: bytes.append(contentsOf: [0x5C, UInt8(ascii: "n")])
        case 0x0D: bytes.append(contentsOf: [0x5C, UInt8(ascii: "r")])
        case 0x09: bytes.append(contentsOf: [0x5C, UInt8(ascii: "t")])
        case 0..<0x20:
            bytes.append(contentsOf: "\\u00".utf8)
            bytes.append(UInt8(ascii: "0") + byte >> 4)
            bytes.append(Array("0123456789abcdef".utf8)[Int(byte & 15)])
        default: bytes.append(byte)
        }
    }

    /// A parsed value as it was, in compact form, each name of an object once.
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
