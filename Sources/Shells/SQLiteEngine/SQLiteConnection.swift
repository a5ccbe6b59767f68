import CSQLite
import Glibc
import Journal

/// The one connection to the database file, and the judge of its errors.
///
/// A full disk, a lock and a lack of descriptors refuse: the transaction is rolled back, nothing of it is in,
/// and the connection goes on. Any other error poisons the connection. After a failed fsync the kernel may
/// have dropped what it could not write, and the same handle would go on acknowledging over the hole
/// (measured). So the engine asks nothing more of a poisoned handle, not even to close, because closing would
/// copy the log into the file.
final class SQLiteConnection {
    /// How long a statement waits for another program's lock before it is refused.
    static let busyMilliseconds: Int32 = 2000
    /// Pages in the log at which the engine copies the log into the file: 32 MiB. SQLite's own default of 4
    /// MiB stalls more often, and its automatic checkpoint swallows errors. Here an error stops the engine,
    /// unless it is a refusal.
    static let checkpointPages: Int32 = 8192

    /// SQLITE_IOERR_SHMSIZE, a macro that Swift does not import.
    private static let indexCannotGrow = SQLITE_IOERR | (19 << 8)
    /// SQLITE_IOERR_WRITE. SQLite says SQLITE_FULL of ENOSPC alone.
    private static let cannotWrite = SQLITE_IOERR | (3 << 8)

    private(set) var failure: String?
    private let handle: OpaquePointer
    private var statements: [String: Statement] = [:]
    /// Pages in the log after the last commit, written by SQLite's hook.
    private let pagesInLog: UnsafeMutablePointer<Int32>
    private var checkpointAt = SQLiteConnection.checkpointPages

    init(path: String) throws(EngineError) {
        var opened: OpaquePointer?
        let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_NOFOLLOW
        let code = sqlite3_open_v2(path, &opened, flags, nil)
        guard code == SQLITE_OK, let opened else {
            let reason = String(cString: sqlite3_errstr(code))
            let isWanting = SQLiteConnection.isOutOfDescriptors(code, sqlite3_system_errno(opened))
            sqlite3_close_v2(opened)
            if isWanting { throw .refused(Files.tooManyOpen) }
            throw .ioFailure("cannot open \(path): \(reason)")
        }
        handle = opened
        pagesInLog = .allocate(capacity: 1)
        pagesInLog.initialize(to: 0)
        sqlite3_busy_timeout(handle, SQLiteConnection.busyMilliseconds)
        // This hook replaces SQLite's own checkpoints, which use the same hook: setting their pragma later
        // would remove this one.
        sqlite3_wal_hook(
            handle,
            { context, _, _, pages in
                context?.assumingMemoryBound(to: Int32.self).pointee = pages
                return SQLITE_OK
            }, pagesInLog)
    }

    deinit {
        guard failure == nil else { return }
        for statement in statements.values { sqlite3_finalize(statement.pointer) }
        sqlite3_close_v2(handle)
        pagesInLog.deallocate()
    }

    func works() throws(EngineError) {
        if let failure { throw .ioFailure(failure) }
    }

    /// Gives up for good.
    func poison(_ reason: String) -> EngineError {
        if failure == nil { failure = reason }
        return .ioFailure(reason)
    }

    /// The error that a code means; poisons the connection if the error is more than a refusal.
    func fault(_ code: Int32) -> EngineError {
        // SQLite keeps the kernel's number of some failures only, and no success changes `errno`.
        let last = errno
        let system = sqlite3_system_errno(handle)
        let reason = String(cString: sqlite3_errmsg(handle))
        switch code & 0xff {
        case SQLITE_FULL: return .refused("the disk is full")
        case SQLITE_BUSY, SQLITE_LOCKED: return .refused("another program has locked the database")
        case SQLITE_IOERR where code == SQLiteConnection.indexCannotGrow && Files.isFull(system):
            // The index of the log lives in a shared-memory file. The file could not grow, and nothing was
            // written.
            return .refused("the disk is full")
        case SQLITE_IOERR where code == SQLiteConnection.cannotWrite && Files.isFull(last):
            return .refused("the disk is full")
        case SQLITE_CANTOPEN where SQLiteConnection.isOutOfDescriptors(code, system):
            return .refused(Files.tooManyOpen)
        case SQLITE_CORRUPT, SQLITE_NOTADB:
            let file = sqlite3_db_filename(handle, nil).map { String(cString: $0) } ?? ""
            _ = poison("the database file \(file) is damaged: \(reason)")
            return .corrupt("the database file \(file) is damaged: \(reason)")
        default:
            let cause = system == 0 ? "" : " (\(String(cString: strerror(system))))"
            return poison("SQLite error \(code): \(reason)\(cause)")
        }
    }

    /// Whether SQLite could not open a file for lack of a descriptor. `system`: the kernel's error number.
    static func isOutOfDescriptors(_ code: Int32, _ system: Int32) -> Bool {
        code & 0xff == SQLITE_CANTOPEN && Files.isOutOfDescriptors(system)
    }

    /// The statement for this text, prepared once.
    func statement(_ sql: String) throws(EngineError) -> Statement {
        try works()
        if let known = statements[sql] { return known }
        var pointer: OpaquePointer?
        let code = sqlite3_prepare_v3(handle, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &pointer, nil)
        guard code == SQLITE_OK, let pointer else { throw fault(code) }
        let statement = Statement(pointer, of: self)
        statements[sql] = statement
        return statement
    }

    /// Runs statements that are needed once.
    func execute(_ sql: String) throws(EngineError) {
        try works()
        let code = sqlite3_exec(handle, sql, nil, nil, nil)
        guard code == SQLITE_OK else { throw fault(code) }
    }

    /// Rows that the last insert, update or delete changed.
    var changes: Int32 { sqlite3_changes(handle) }

    /// Runs `body` in a transaction, all or nothing: an error inside rolls the transaction back.
    func transaction<Result>(
        _ body: () throws(EngineError) -> Result
    ) throws(EngineError) -> Result {
        try checkpointIfDue()
        try statement("BEGIN IMMEDIATE").run()
        do throws(EngineError) {
            let result = try body()
            try statement("COMMIT").run()
            return result
        } catch {
            try rollBack()
            throw error
        }
    }

    private func rollBack() throws(EngineError) {
        guard failure == nil else { return }
        // A full disk may have rolled the transaction back already.
        if sqlite3_get_autocommit(handle) == 0 { sqlite3_exec(handle, "ROLLBACK", nil, nil, nil) }
        guard sqlite3_get_autocommit(handle) != 0 else {
            throw poison("a transaction could not be rolled back")
        }
    }

    /// Copies the log into the file when the log has grown enough. This happens before a transaction, not
    /// after one, so that committed rows are acknowledged first.
    private func checkpointIfDue() throws(EngineError) {
        try works()
        guard pagesInLog.pointee >= checkpointAt else { return }
        let code = sqlite3_wal_checkpoint_v2(handle, nil, SQLITE_CHECKPOINT_PASSIVE, nil, nil)
        if code == SQLITE_OK {
            checkpointAt = SQLiteConnection.checkpointPages
            pagesInLog.pointee = 0
            return
        }
        guard case .refused = fault(code) else { throw .ioFailure(failure ?? "a checkpoint failed") }
        // Another connection reads, or the disk is full: the log grows, and a later transaction tries again.
        checkpointAt = pagesInLog.pointee + SQLiteConnection.checkpointPages / 4
    }

    /// Pages that SQLite found whole in the log; after opening, all pages that recovery believed.
    func pagesRecovered() throws(EngineError) -> Int {
        var pages: Int32 = 0
        let code = sqlite3_wal_checkpoint_v2(handle, nil, SQLITE_CHECKPOINT_PASSIVE, &pages, nil)
        guard code == SQLITE_OK else { throw fault(code) }
        return Int(pages)
    }

    /// The single value of a pragma or query, as a number and as text.
    func number(_ sql: String) throws(EngineError) -> Int64 {
        let statement = try statement(sql)
        defer { statement.reset() }
        return try statement.step() ? statement.int(0) : 0
    }

    func text(_ sql: String) throws(EngineError) -> String {
        let statement = try statement(sql)
        defer { statement.reset() }
        return try statement.step() ? statement.text(0) : ""
    }
}
