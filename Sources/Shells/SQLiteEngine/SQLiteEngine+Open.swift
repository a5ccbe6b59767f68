import Glibc
import Journal
import Model

// Opening a folder: whose data it holds, how the file is written, whether the data is whole.

extension SQLiteEngine {
    func checkIdentity(hasLog: Bool) throws(EngineError) {
        let application = try database.number("PRAGMA application_id")
        let stored = try database.number("PRAGMA user_version")
        let version = stored & ~SQLiteEngine.openMark
        if application == 0, version == 0, try database.number("SELECT count(*) FROM sqlite_schema") == 0 {
            return
        }
        guard application == SQLiteEngine.applicationID else {
            throw .refused("\(folder)/\(SQLiteEngine.fileName) is another program's database")
        }
        guard version <= SQLiteEngine.schemaVersion else {
            throw .refused(
                "the data in \(folder) was written by a newer tidecast: its schema is \(version),"
                    + " and this one knows \(SQLiteEngine.schemaVersion)")
        }
        guard hasLog || stored == version else {
            let log = "\(folder)/\(SQLiteEngine.fileName)-wal"
            throw .refused(
                "\(SQLiteEngine.fileName) was copied from a running server, or its log was removed: without"
                    + " \(log) the newest commits are missing. Put that file back, or go on without these"
                    + " commits: `touch \(log)`")
        }
    }

    func configure() throws(EngineError) {
        // Page size and auto_vacuum count only before the first page is written.
        try database.execute("PRAGMA page_size = 4096; PRAGMA auto_vacuum = NONE")
        let mode = try database.text("PRAGMA journal_mode = WAL")
        guard mode == "wal" else {
            throw .refused("the file system of \(folder) cannot hold a write-ahead log")
        }
        // Debian's SQLite overwrites deleted rows with zeros, which doubles the cost of trimming.
        try database.execute(
            """
            PRAGMA synchronous = FULL; PRAGMA mmap_size = 0;
            PRAGMA temp_store = MEMORY;
            PRAGMA secure_delete = OFF; PRAGMA cache_size = -16384; PRAGMA trusted_schema = OFF;
            PRAGMA cell_size_check = ON
            """)
    }

    func createSchema() throws(EngineError) {
        try database.transaction { () throws(EngineError) in
            try database.execute(
                """
                CREATE TABLE session (
                    id INTEGER PRIMARY KEY AUTOINCREMENT, node TEXT NOT NULL, alive INTEGER NOT NULL);
                CREATE TABLE lease (session INTEGER PRIMARY KEY, counter INTEGER NOT NULL);
                CREATE TABLE partition (
                    id INTEGER PRIMARY KEY, history INTEGER NOT NULL, owner INTEGER, epoch INTEGER NOT NULL,
                    floor INTEGER NOT NULL, checksum INTEGER NOT NULL);
                CREATE TABLE journal (
                    id INTEGER PRIMARY KEY, partition INTEGER NOT NULL, sequence INTEGER NOT NULL,
                    batch INTEGER NOT NULL, payload BLOB NOT NULL);
                CREATE UNIQUE INDEX journal_place ON journal (partition, sequence);
                CREATE TABLE snapshot (
                    partition INTEGER NOT NULL, covering INTEGER NOT NULL, name TEXT NOT NULL,
                    PRIMARY KEY (partition, covering));
                CREATE TABLE node (id TEXT PRIMARY KEY, value BLOB NOT NULL);
                CREATE TABLE project (key TEXT PRIMARY KEY, value BLOB NOT NULL);
                CREATE TABLE credential (key TEXT PRIMARY KEY, value BLOB NOT NULL);
                CREATE TABLE "key" (key TEXT PRIMARY KEY, value BLOB NOT NULL);
                CREATE TABLE setting (key TEXT PRIMARY KEY, value BLOB NOT NULL);
                PRAGMA application_id = \(SQLiteEngine.applicationID);
                PRAGMA user_version = \(SQLiteEngine.schemaVersion);
                """)
        }
        try OpenFolder(folder).sync()
    }

    func check(fileBytes: Int) throws(EngineError) {
        if fileBytes <= SQLiteEngine.quickCheckBytesMax {
            try demandOK("PRAGMA quick_check(1)")
            return
        }
        for table in ["session", "partition", "snapshot", "project", "credential", "key", "setting"] {
            try demandOK("PRAGMA quick_check('\(table)')")
        }
    }

    private func demandOK(_ pragma: String) throws(EngineError) {
        let found = try database.text(pragma)
        guard found == "ok" else { throw .corrupt("the database in \(folder): \(found)") }
    }

    /// Refuses to begin an empty database beside snapshots, which belong to another one.
    func checkIsNew() throws(EngineError) {
        guard !Files.names(in: snapshotFolder).contains(where: { $0.hasSuffix(".snap") }) else {
            throw .refused(
                "\(folder) has snapshots and no data in \(SQLiteEngine.fileName): put the database back, or"
                    + " name an empty folder")
        }
    }

    /// Removes what a crash has left: drafts, and snapshots between the file and its row, or after the row
    /// was deleted. If the database names a file that is not there, or knows less than a file covers, then
    /// another database was here: its files stay, because it may come back.
    func removeOrphans() throws(EngineError) {
        var named: Set<String> = []
        let statement = try database.statement("SELECT name FROM snapshot")
        defer { statement.reset() }
        while try statement.step() { named.insert(statement.text(0)) }
        let present = Set(Files.names(in: snapshotFolder))
        let isWhole = !named.isEmpty && named.isSubset(of: present)
        let lastSession = try database.number("SELECT coalesce(max(id), 0) FROM session")
        for name in present.subtracting(named) {
            guard let file = SnapshotFile(name), file.session <= lastSession else { continue }
            var isOver = file.isDraft
            if !isOver, isWhole { isOver = try isPast(file) }
            if isOver { unlink(snapshotFolder + "/" + name) }
        }
    }

    private func isPast(_ file: SnapshotFile) throws(EngineError) -> Bool {
        let row = try database.statement("SELECT floor FROM partition WHERE id = ?1")
        row.bind(1, UInt64(file.partition.rawValue))
        defer { row.reset() }
        guard try row.step() else { return false }
        return file.covering <= (try lastSequence(file.partition, floor: Sequence(row.uint(0))))
    }
}

/// The name of a snapshot's file: `0-13-2.snap` is partition 0 up to record 13, written in session 2.
struct SnapshotFile {
    let partition: PartitionID
    let covering: Sequence
    let session: Int
    /// Not renamed yet.
    let isDraft: Bool

    /// `nil` for a file that the engine has not made.
    init?(_ name: String) {
        let parts = name.split(separator: ".", omittingEmptySubsequences: false)
        let numbers = parts[0].split(separator: "-", omittingEmptySubsequences: false)
        guard parts.dropFirst() == ["snap"] || parts.dropFirst() == ["snap", "aside"], numbers.count == 3,
            let partition = UInt16(numbers[0]), let covering = UInt64(numbers[1]),
            let session = Int(numbers[2])
        else { return nil }
        (self.partition, self.covering) = (PartitionID(partition), Sequence(covering))
        (self.session, isDraft) = (session, parts.count == 3)
    }
}
