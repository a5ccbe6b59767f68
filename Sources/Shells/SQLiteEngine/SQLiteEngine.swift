import CSQLite
import Glibc
import Journal
import Model

/// Journals on one machine, in one SQLite file, with nothing to install.
///
/// ```
/// FOLDER/LOCK               held while the folder is open
/// FOLDER/tidecast.db        and its -wal and -shm: everything but snapshots
/// FOLDER/snapshots/P-S.snap partition P up to record S
/// ```
/// One connection, a write-ahead log, and every commit synced to disk before it returns. The journal is an
/// ordinary rowid table with an index on (partition, sequence): payloads of all partitions go densely to the
/// table's end, and only the small index is written in many places. Measured: 32 records of 1 KiB commit in
/// 0.38 ms, against 0.63 ms with a rowid made of partition and sequence, which needs no index. A table
/// without a rowid is six times slower.
public final class SQLiteEngine: Engine {
    /// "TDCT": marks a database as one of ours.
    public static let applicationID: Int64 = 0x5444_4354
    public static let schemaVersion: Int64 = 1
    /// In `user_version` while an engine has the database open: without its log, the file lacks commits.
    static let openMark: Int64 = 1 << 30
    public static let fileName = "tidecast.db"
    /// The engine checks a file of up to this size whole when it opens it. Of a larger file it checks the
    /// small tables, because every record carries its own checksum.
    public static let quickCheckBytesMax = 64 << 20

    public let folder: String
    let snapshotFolder: String
    let snapshotEntries: OpenFolder
    let database: SQLiteConnection
    /// The owner of each partition, as far as this engine has read or written it.
    var owners: [PartitionID: SessionID] = [:]
    /// Uploads of snapshots under way, and the number of the last one.
    var uploads: [PartitionID: Upload] = [:]
    var lastUpload: UInt64 = 0
    /// The database's file, by its path and as it was when it was opened.
    private let path: ContiguousArray<CChar>
    private let place: Files.Place?
    private var isMarked = false
    /// Declared behind the connection, so that the lock is released last.
    private let lock: FolderLock

    public var failure: String? { database.failure }

    /// The process that has the folder open; `nil` if none has.
    public static func process(using folder: String) -> String? { FolderLock.holder(of: folder) }

    /// Opens the folder, and creates it first if need be. Throws `refused` with a sentence if the data is
    /// another program's or a newer one's, or the folder is open already; `corrupt` if the data is not whole.
    public init(folder: String) throws(EngineError) {
        self.folder = folder
        snapshotFolder = folder + "/snapshots"
        try Files.makeFolder(folder)
        try Files.makeFolder(snapshotFolder)
        snapshotEntries = try OpenFolder(snapshotFolder)
        lock = try FolderLock(folder: folder)
        let path = folder + "/" + SQLiteEngine.fileName
        let logPath = path + "-wal"
        // SQLite deletes the log beside a database that is empty, and the commits in it with the log.
        guard Files.size(path) > 0 || Files.size(logPath) == 0 else {
            throw .refused(
                "\(folder) has a write-ahead log and no \(SQLiteEngine.fileName), or an empty one: put the"
                    + " database back that belongs to the log, or move \(SQLiteEngine.fileName)-wal away")
        }
        try Files.makeFile(path)
        let (log, hasLog) = (LogCheck(path: logPath), Files.place(logPath.utf8CString) != nil)
        (self.path, place) = (path.utf8CString, Files.place(path.utf8CString))
        database = try SQLiteConnection(path: path)
        try checkIdentity(hasLog: hasLog)
        try configure()
        if let damage = log.damage(pagesBelieved: try database.pagesRecovered()) {
            // Closing would copy the rest of the log into the file and remove the log: nobody would see the
            // damage.
            _ = database.poison(damage)
            throw .corrupt(damage)
        }
        if try database.number("PRAGMA user_version") == 0 {
            try checkIsNew()
            try createSchema()
        }
        try check(fileBytes: Files.size(path))
        try removeOrphans()
        try verifyDurability()
        try database.execute("PRAGMA user_version = \(SQLiteEngine.schemaVersion | SQLiteEngine.openMark)")
        isMarked = true
        // The file itself must have the mark.
        try database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    }

    deinit {
        guard isMarked, failure == nil else { return }
        try? database.execute("PRAGMA user_version = \(SQLiteEngine.schemaVersion)")
    }

    /// Reads back the settings that make commits durable (rule: durability-is-verified).
    public func verifyDurability() throws(EngineError) {
        let mode = try database.text("PRAGMA journal_mode")
        let synchronous = try database.number("PRAGMA synchronous")
        guard mode == "wal", synchronous == 2 else {
            throw database.poison("commits are not durable: journal_mode \(mode), synchronous \(synchronous)")
        }
    }

    /// Fails if the open file is not the one in the folder any more: somebody has removed or replaced the
    /// folder, and the next start would not find what is written now.
    func demandInPlace() throws(EngineError) {
        let now = Files.place(path)
        // A folder that this user may not enter any more says nothing of the file.
        guard now != place, now != nil || errno == ENOENT || errno == ENOTDIR else { return }
        throw database.poison(
            "\(folder)/\(SQLiteEngine.fileName) was removed or replaced under the running server")
    }

    public func erasing<Result>(_ change: () throws -> Result) throws -> Result {
        // SQLite overwrites deleted bytes with zeros; the checkpoint copies the log into the file and
        // truncates it.
        try database.execute("PRAGMA secure_delete = ON")
        defer { try? database.execute("PRAGMA secure_delete = OFF") }
        let result = try change()
        try database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return result
    }

    /// SQLite's integers are signed; sequences stay far below their bound.
    static func check(_ sequence: Sequence) throws(EngineError) {
        guard sequence > .zero, sequence <= EngineRules.sequenceMax else {
            throw .refused("\(sequence.rawValue) is no sequence of a record")
        }
    }
}
