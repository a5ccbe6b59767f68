import Glibc
import Journal
import Model

// Opening a folder: whose data it holds, how the file is written, whether the data is whole.

extension SQLiteEngine {
    func checkIdentity() throws(EngineError) {
        let application = try database.number("PRAGMA application_id")
        let version = try database.number("PRAGMA user_version")
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

    /// Removes files of snapshots that no row names. A crash leaves them, between a file and its row, or
    /// after a row was deleted.
    func removeOrphans() throws(EngineError) {
        var named: Set<String> = []
        let statement = try database.statement("SELECT name FROM snapshot")
        defer { statement.reset() }
        while try statement.step() { named.insert(statement.text(0)) }
        for name in Files.names(in: snapshotFolder) where !named.contains(name) {
            unlink(snapshotFolder + "/" + name)
        }
    }
}
