import CSQLite
import Journal

/// A prepared statement, kept for the life of its connection. Use: bind, step until there is no row, reset.
final class Statement {
    let pointer: OpaquePointer
    unowned let connection: SQLiteConnection

    init(_ pointer: OpaquePointer, of connection: SQLiteConnection) {
        self.pointer = pointer
        self.connection = connection
    }

    /// SQLITE_TRANSIENT: SQLite copies the bytes before the call returns. The header's macro is a cast of -1,
    /// which Swift does not import; the value is never called.
    private static let copied = unsafeBitCast(-1, to: sqlite3_destructor_type.self)

    @discardableResult
    func bind(_ index: Int32, _ value: Int64) -> Statement {
        sqlite3_bind_int64(pointer, index, value)
        return self
    }

    @discardableResult
    func bind(_ index: Int32, _ value: UInt64) -> Statement { bind(index, Int64(bitPattern: value)) }

    @discardableResult
    func bind(_ index: Int32, _ value: UInt64?) -> Statement {
        if let value { return bind(index, value) }
        sqlite3_bind_null(pointer, index)
        return self
    }

    @discardableResult
    func bind(_ index: Int32, _ text: String) -> Statement {
        var text = text
        text.withUTF8 { bytes in
            bytes.withMemoryRebound(to: CChar.self) { characters in
                _ = sqlite3_bind_text(
                    pointer, index, characters.baseAddress, Int32(clamping: characters.count),
                    Statement.copied)
            }
        }
        return self
    }

    @discardableResult
    func bind(_ index: Int32, _ bytes: [UInt8]) -> Statement {
        guard !bytes.isEmpty else {
            sqlite3_bind_zeroblob(pointer, index, 0)
            return self
        }
        bytes.withUnsafeBytes {
            _ = sqlite3_bind_blob(pointer, index, $0.baseAddress, Int32(clamping: $0.count), Statement.copied)
        }
        return self
    }

    /// Runs a statement that gives no rows, with a blob that is not copied.
    func run(_ index: Int32, borrowing bytes: [UInt8]) throws(EngineError) {
        try bytes.withUnsafeBufferPointer { buffer throws(EngineError) in
            if buffer.isEmpty {
                sqlite3_bind_zeroblob(pointer, index, 0)
            } else {
                // SQLITE_STATIC (nil): the bytes do not move until the statement is reset, two lines below.
                sqlite3_bind_blob(pointer, index, buffer.baseAddress, Int32(clamping: buffer.count), nil)
            }
            defer { reset() }
            while try step() {}
        }
    }

    /// Runs a statement and drops its rows, if it gives any.
    func run() throws(EngineError) {
        defer { reset() }
        while try step() {}
    }

    /// Whether there is a row.
    func step() throws(EngineError) -> Bool {
        switch sqlite3_step(pointer) {
        case SQLITE_ROW: return true
        case SQLITE_DONE: return false
        case let code: throw connection.fault(code)
        }
    }

    func reset() {
        sqlite3_reset(pointer)
        sqlite3_clear_bindings(pointer)
    }

    func int(_ column: Int32) -> Int64 { sqlite3_column_int64(pointer, column) }
    func uint(_ column: Int32) -> UInt64 { UInt64(bitPattern: int(column)) }
    func isNull(_ column: Int32) -> Bool { sqlite3_column_type(pointer, column) == SQLITE_NULL }

    func bytes(_ column: Int32) -> [UInt8] {
        let count = Int(sqlite3_column_bytes(pointer, column))
        guard count > 0, let start = sqlite3_column_blob(pointer, column) else { return [] }
        return Array(UnsafeRawBufferPointer(start: start, count: count))
    }

    func text(_ column: Int32) -> String { String(decoding: bytes(column), as: UTF8.self) }
}
