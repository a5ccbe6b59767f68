import CPQ
import Glibc
import Journal

/// Why a statement gave no result.
enum StatementFailure: Error {
    /// The server said no: its SQLSTATE, and its sentence.
    case refused(state: String, message: String)
    /// The connection broke before the answer came. The statement may have been carried out.
    case broken(String)
}

/// One connection to a PostgreSQL server through libpq: prepared statements, binary parameters and results.
///
/// It connects when it is first used, and again after it broke. Which of several hosts of its connection
/// string it reaches is libpq's choice: the one that takes writes.
final class Connection {
    /// Put before the connection string, which may say otherwise. A server that is gone without a word is
    /// noticed within seconds.
    private static let defaults = [
        ("connect_timeout", "3"), ("target_session_attrs", "read-write"), ("keepalives_idle", "2"),
        ("keepalives_interval", "1"), ("keepalives_count", "3"), ("tcp_user_timeout", "5000"),
        ("application_name", "tidecast"),
    ]
    /// Set once on each connection. No statement has a time limit: a commit that is cancelled while it waits
    /// for a standby is visible and not replicated (design 5.4).
    private static let session = """
        SET search_path = tidecast; SET lock_timeout = '1s';
        SET idle_in_transaction_session_timeout = '5s'; SET client_min_messages = warning;
        SET synchronous_commit = on; SET bytea_output = hex
        """

    private let conninfo: String
    private var handle: OpaquePointer?
    private var prepared: Set<String> = []
    /// Called on each new connection, before anything else is done with it.
    var onConnected: ((Connection) throws(StatementFailure) -> Void)?

    init(_ conninfo: String) { self.conninfo = conninfo }

    deinit { PQfinish(handle) }

    /// Lets go of the connection; the next use makes another.
    func close() {
        PQfinish(handle)
        handle = nil
        prepared = []
    }

    private func connected() throws(StatementFailure) -> OpaquePointer {
        if let handle, PQstatus(handle) == CONNECTION_OK { return handle }
        close()
        let pairs = Connection.defaults + [("dbname", conninfo)]
        var keywords = pairs.map { UnsafePointer(strdup($0.0)) } + [nil]
        var values = pairs.map { UnsafePointer(strdup($0.1)) } + [nil]
        defer {
            for text in keywords + values { free(UnsafeMutablePointer(mutating: text)) }
        }
        guard let made = PQconnectdbParams(&keywords, &values, 1) else {
            throw .broken("libpq gives no connection")
        }
        guard PQstatus(made) == CONNECTION_OK else {
            let reason = Connection.text(PQerrorMessage(made))
            PQfinish(made)
            throw .broken("cannot reach the database: \(reason)")
        }
        handle = made
        do throws(StatementFailure) {
            try simple(Connection.session, on: made)
            try onConnected?(self)
        } catch {
            close()
            throw error
        }
        return made
    }

    var isInTransaction: Bool {
        handle.map {
            PQtransactionStatus($0) == PQTRANS_INTRANS || PQtransactionStatus($0) == PQTRANS_INERROR
        }
            ?? false
    }

    var serverVersion: Int { handle.map { Int(PQserverVersion($0)) } ?? 0 }

    /// Statements without parameters and without rows of interest.
    func execute(_ sql: String) throws(StatementFailure) { try simple(sql, on: try connected()) }

    private func simple(_ sql: String, on handle: OpaquePointer) throws(StatementFailure) {
        _ = try checked(PQexec(handle, sql), handle)
    }

    /// One prepared statement. Its text is its name.
    func run(_ sql: String, _ parameters: [Parameter] = []) throws(StatementFailure) -> Rows {
        let handle = try connected()
        if !prepared.contains(sql) {
            let types = parameters.map(\.type)
            _ = try checked(PQprepare(handle, name(of: sql), sql, Int32(types.count), types), handle)
            prepared.insert(sql)
        }
        // The bytes of all parameters in one piece, so that their addresses hold for the call.
        let bytes = parameters.flatMap { $0.bytes ?? [] }
        let lengths = parameters.map { Int32($0.bytes?.count ?? 0) }
        let formats = [Int32](repeating: 1, count: parameters.count)
        let result = bytes.withUnsafeBytes { raw -> OpaquePointer? in
            var offset = 0
            // An address that is never read stands for an empty value; none at all is NULL.
            let base = raw.bindMemory(to: CChar.self).baseAddress
            let values = parameters.map { parameter -> UnsafePointer<CChar>? in
                guard let value = parameter.bytes else { return nil }
                defer { offset += value.count }
                return base.map { $0 + offset } ?? Connection.nothing
            }
            return PQexecPrepared(handle, name(of: sql), Int32(values.count), values, lengths, formats, 1)
        }
        return Rows(try checked(result, handle))
    }

    // Never read and never freed.
    nonisolated(unsafe) private static let nothing = UnsafePointer(
        UnsafeMutablePointer<CChar>.allocate(capacity: 1))

    /// All of it or nothing.
    func transaction<Result>(_ body: () throws(EngineError) -> Result) throws(EngineError) -> Result {
        try wrap { () throws(StatementFailure) in try self.execute("BEGIN") }
        do throws(EngineError) {
            let result = try body()
            try wrap { () throws(StatementFailure) in try self.execute("COMMIT") }
            return result
        } catch {
            if handle.map({ PQtransactionStatus($0) != PQTRANS_IDLE }) ?? false {
                do { try execute("ROLLBACK") } catch { close() }
            }
            throw error
        }
    }

    func wrap<Result>(_ body: () throws(StatementFailure) -> Result) throws(EngineError) -> Result {
        do throws(StatementFailure) {
            return try body()
        } catch {
            switch error {
            case .refused(let state, let message): throw .refused("\(message) (\(state))")
            case .broken(let reason): throw .refused(reason)
            }
        }
    }

    private func name(of sql: String) -> String {
        // PostgreSQL cuts names at 63 bytes, so the text itself cannot be one.
        "s\(UInt(bitPattern: sql.hashValue))"
    }

    private func checked(_ result: OpaquePointer?, _ handle: OpaquePointer) throws(StatementFailure)
        -> OpaquePointer
    {
        guard let result else {
            let reason = Connection.text(PQerrorMessage(handle))
            close()
            throw .broken("the connection to the database broke: \(reason)")
        }
        switch PQresultStatus(result) {
        case PGRES_COMMAND_OK, PGRES_TUPLES_OK: return result
        default: break
        }
        let state = Connection.text(PQresultErrorField(result, Int32(UInt8(ascii: "C"))))
        let message = Connection.text(PQresultErrorField(result, Int32(UInt8(ascii: "M"))))
        PQclear(result)
        guard PQstatus(handle) == CONNECTION_OK, !state.isEmpty, !state.hasPrefix("57P") else {
            close()
            throw .broken("the connection to the database broke: \(message)")
        }
        throw .refused(state: state, message: message)
    }

    static func text(_ pointer: UnsafePointer<CChar>?) -> String {
        guard let pointer else { return "" }
        var text = String(cString: pointer)
        while let last = text.last, last.isNewline || last == " " { text.removeLast() }
        return text
    }
}
