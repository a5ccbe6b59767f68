import CPQ
import Journal

/// Fields that the server sends beside or instead of rows (`postgres_ext.h`: macros that Swift does not
/// import).
enum Field: Unicode.Scalar {
    case severity = "V"
    case state = "C"
    case message = "M"
    case sourceFile = "F"

    func text(of result: OpaquePointer) -> String? {
        PQresultErrorField(result, Int32(rawValue.value)).map { String(cString: $0) }
    }

    /// Whether a notice beside an answer casts doubt on the answer. The warning that a commit is not
    /// replicated has the code of any warning (01000) and comes in the server's language; only the server's
    /// source file distinguishes it. Only other warnings are harmless, such as that transaction numbers run
    /// low.
    static func leavesDoubt(_ notice: OpaquePointer) -> Bool {
        guard let state = Field.state.text(of: notice), state.hasPrefix("00") || state.hasPrefix("01"),
            let file = Field.sourceFile.text(of: notice)
        else { return true }
        return file.hasSuffix("syncrep.c")
    }
}

/// Rows of the database's answer, in binary. A value of another shape than asked for is `corrupt`, never a
/// trap.
final class Reply {
    private let result: OpaquePointer

    /// Takes the result over and frees it.
    init(_ result: OpaquePointer) { self.result = result }
    deinit { PQclear(result) }

    var status: ExecStatusType { PQresultStatus(result) }
    var count: Int { Int(PQntuples(result)) }
    var rows: Range<Int> { 0..<count }
    var message: String {
        let text = field(.message) ?? PQresultErrorMessage(result).map { String(cString: $0) }
        return text.map(Reply.trimmed) ?? ""
    }
    var state: String? { field(.state) }
    /// FATAL and PANIC end the connection.
    var endsConnection: Bool {
        let severity = field(.severity)
        return severity == "FATAL" || severity == "PANIC"
    }

    private func field(_ field: Field) -> String? { field.text(of: result) }

    /// libpq ends its messages with a new line.
    static func trimmed(_ text: String) -> String {
        var text = text[...]
        while text.last?.isWhitespace == true { text.removeLast() }
        return text.split(separator: "\n").joined(separator: "; ")
    }

    func isNull(_ row: Int, _ column: Int) -> Bool {
        PQgetisnull(result, Int32(clamping: row), Int32(clamping: column)) != 0
    }

    func withBytes<Result>(
        _ row: Int, _ column: Int, body: (UnsafeRawBufferPointer) throws(Fault) -> Result
    ) throws(Fault) -> Result {
        let length = PQgetlength(result, Int32(clamping: row), Int32(clamping: column))
        let start = PQgetvalue(result, Int32(clamping: row), Int32(clamping: column))
        return try body(UnsafeRawBufferPointer(start: start, count: start == nil ? 0 : Int(length)))
    }

    func int(_ row: Int, _ column: Int) throws(Fault) -> Int64 {
        try withBytes(row, column) { bytes throws(Fault) in
            switch bytes.count {
            case 8: return Int64(bigEndian: bytes.loadUnaligned(as: Int64.self))
            case 4: return Int64(Int32(bigEndian: bytes.loadUnaligned(as: Int32.self)))
            default: throw .engine(.corrupt("a number of \(bytes.count) bytes from the database"))
            }
        }
    }

    func uint(_ row: Int, _ column: Int) throws(Fault) -> UInt64 {
        UInt64(bitPattern: try int(row, column))
    }

    func bool(_ row: Int, _ column: Int) throws(Fault) -> Bool {
        try withBytes(row, column) { bytes throws(Fault) in
            guard bytes.count == 1 else {
                throw .engine(.corrupt("a truth value of \(bytes.count) bytes from the database"))
            }
            return bytes[0] != 0
        }
    }

    func bytes(_ row: Int, _ column: Int) throws(Fault) -> [UInt8] {
        try withBytes(row, column) { bytes throws(Fault) in Array(bytes) }
    }

    func text(_ row: Int, _ column: Int) throws(Fault) -> String {
        try withBytes(row, column) { bytes throws(Fault) in String(decoding: bytes, as: UTF8.self) }
    }
}
