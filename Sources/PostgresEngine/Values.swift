import CPQ

/// A parameter in PostgreSQL's binary form.
struct Parameter {
    let type: Oid
    /// `nil` is NULL.
    let bytes: [UInt8]?

    private enum Types {
        static let bool: Oid = 16
        static let bytea: Oid = 17
        static let int8: Oid = 20
        static let int4: Oid = 23
        static let text: Oid = 25
        static let byteaArray: Oid = 1001
        static let int4Array: Oid = 1007
        static let int8Array: Oid = 1016
    }

    static func int4(_ value: Int) -> Parameter {
        Parameter(type: Types.int4, bytes: big(Int32(clamping: value)))
    }
    static func int8(_ value: UInt64) -> Parameter {
        Parameter(type: Types.int8, bytes: big(Int64(bitPattern: value)))
    }
    static func int8(_ value: UInt64?) -> Parameter {
        Parameter(type: Types.int8, bytes: value.map { big(Int64(bitPattern: $0)) })
    }
    static func text(_ value: String) -> Parameter { Parameter(type: Types.text, bytes: Array(value.utf8)) }
    static func bytea(_ value: [UInt8]) -> Parameter { Parameter(type: Types.bytea, bytes: value) }

    static func int4s(_ values: [Int]) -> Parameter {
        array(Types.int4Array, of: Types.int4, values.map { big(Int32(clamping: $0)) })
    }
    static func int8s(_ values: [UInt64]) -> Parameter {
        array(Types.int8Array, of: Types.int8, values.map { big(Int64(bitPattern: $0)) })
    }
    static func byteas(_ values: [[UInt8]]) -> Parameter { array(Types.byteaArray, of: Types.bytea, values) }

    /// One dimension, no NULLs: dimensions, flags, type, length, lower bound, then each with its length.
    private static func array(_ type: Oid, of element: Oid, _ values: [[UInt8]]) -> Parameter {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(20 + values.reduce(0) { $0 + $1.count + 4 })
        for head in [values.isEmpty ? 0 : 1, 0, Int32(bitPattern: element)] { bytes += big(head) }
        if !values.isEmpty {
            bytes += big(Int32(values.count))
            bytes += big(Int32(1))
        }
        for value in values {
            bytes += big(Int32(value.count))
            bytes += value
        }
        return Parameter(type: type, bytes: bytes)
    }

    private static func big(_ value: some FixedWidthInteger) -> [UInt8] {
        withUnsafeBytes(of: value.bigEndian) { Array($0) }
    }
}

/// What a statement gave back, in binary form.
final class Rows {
    private let result: OpaquePointer
    let count: Int
    /// Rows that the statement changed.
    var changed: Int { Int(Connection.text(PQcmdTuples(result))) ?? 0 }

    init(_ result: OpaquePointer) {
        self.result = result
        count = Int(PQntuples(result))
    }

    deinit { PQclear(result) }

    func isNull(_ row: Int, _ column: Int) -> Bool { PQgetisnull(result, Int32(row), Int32(column)) == 1 }

    func bytes(_ row: Int, _ column: Int) -> [UInt8] {
        let length = Int(PQgetlength(result, Int32(row), Int32(column)))
        guard length > 0, let start = PQgetvalue(result, Int32(row), Int32(column)) else { return [] }
        return Array(UnsafeRawBufferPointer(start: start, count: length))
    }

    func text(_ row: Int, _ column: Int) -> String { String(decoding: bytes(row, column), as: UTF8.self) }

    /// An integer or boolean of any width.
    func number(_ row: Int, _ column: Int) -> UInt64 {
        let bytes = bytes(row, column)
        let isNegative = bytes.count < 8 && (bytes.first ?? 0) & 0x80 != 0 && bytes.count > 1
        return bytes.reduce(isNegative ? UInt64.max : 0) { $0 << 8 | UInt64($1) }
    }

    func optional(_ row: Int, _ column: Int) -> UInt64? { isNull(row, column) ? nil : number(row, column) }
}
