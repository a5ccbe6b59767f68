import Model

/// A parameter of a statement, sent in the database's binary form: integers in big endian, arrays of one
/// dimension (PostgreSQL, "Binary Format" of each type; arrays as `array_recv` reads them).
enum Parameter {
    case null
    case int(Int64)
    /// An int4.
    case short(Int32)
    case text(String)
    case bytes(ArraySlice<UInt8>)
    case ints([Int64])
    /// An array of int4.
    case shorts([Int32])
    case byteStrings([[UInt8]])
    case texts([String])

    static func partition(_ id: PartitionID) -> Parameter { .short(Int32(id.rawValue)) }
    static func uint(_ value: UInt64) -> Parameter { .int(Int64(bitPattern: value)) }
    static func uint(_ value: UInt64?) -> Parameter { value.map { .uint($0) } ?? .null }
    static func bytes(_ value: [UInt8]) -> Parameter { .bytes(value[...]) }
}

/// Parameters laid out one behind the other, as libpq takes them.
struct Parameters {
    /// Types of elements, by the database's numbers (`pg_type.dat`).
    private static let byteString: Int32 = 17
    private static let int8: Int32 = 20
    private static let int4: Int32 = 23
    private static let text: Int32 = 25

    private(set) var bytes: [UInt8] = []
    /// The bytes of each parameter; `nil` is NULL.
    private(set) var ranges: [Range<Int>?] = []

    init(_ parameters: [Parameter]) {
        bytes.reserveCapacity(parameters.reduce(1) { $0 + Parameters.size($1) })
        for parameter in parameters {
            let start = bytes.count
            if append(parameter) { ranges.append(start..<bytes.count) } else { ranges.append(nil) }
        }
        // A parameter of no bytes must still point somewhere, because a null pointer means NULL.
        bytes.append(0)
    }

    private static func size(_ parameter: Parameter) -> Int {
        switch parameter {
        case .null: 0
        case .int: 8
        case .short: 4
        case .text(let text): text.utf8.count
        case .bytes(let bytes): bytes.count
        case .ints(let values): 20 + values.count * 12
        case .shorts(let values): 20 + values.count * 8
        case .byteStrings(let values): values.reduce(20) { $0 + 4 + $1.count }
        case .texts(let values): values.reduce(20) { $0 + 4 + $1.utf8.count }
        }
    }

    /// False for NULL.
    private mutating func append(_ parameter: Parameter) -> Bool {
        switch parameter {
        case .null: return false
        case .int(let value): big(value)
        case .short(let value): big(value)
        case .text(let text): bytes.append(contentsOf: text.utf8)
        case .bytes(let value): bytes.append(contentsOf: value)
        case .ints(let values):
            array(of: Parameters.int8, count: values.count)
            for value in values {
                big(Int32(8))
                big(value)
            }
        case .shorts(let values):
            array(of: Parameters.int4, count: values.count)
            for value in values {
                big(Int32(4))
                big(value)
            }
        case .byteStrings(let values):
            array(of: Parameters.byteString, count: values.count)
            for value in values {
                big(Int32(clamping: value.count))
                bytes.append(contentsOf: value)
            }
        case .texts(let values):
            array(of: Parameters.text, count: values.count)
            for value in values {
                big(Int32(clamping: value.utf8.count))
                bytes.append(contentsOf: value.utf8)
            }
        }
        return true
    }

    private mutating func array(of type: Int32, count: Int) {
        big(Int32(count == 0 ? 0 : 1))  // dimensions
        big(Int32(0))  // no NULL among them
        big(type)
        guard count > 0 else { return }
        big(Int32(clamping: count))
        big(Int32(1))  // the first one's index
    }

    private mutating func big(_ value: some FixedWidthInteger) {
        withUnsafeBytes(of: value.bigEndian) { bytes.append(contentsOf: $0) }
    }
}
