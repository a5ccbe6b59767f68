import CSQLite
import EngineContract
import Foundation
import Journal
import Model
import SQLiteEngine
import Testing

/// Runs statements on a connection of its own, as another program would.
final class OtherProgram {
    private var handle: OpaquePointer?

    init(_ path: String) { sqlite3_open(path, &handle) }
    deinit { sqlite3_close(handle) }

    @discardableResult
    func run(_ sql: String) -> Int32 { sqlite3_exec(handle, sql, nil, nil, nil) }
}

@Suite("Opening a folder") struct OpeningTests {
    private let folder = TemporaryFolder()

    private func mode(_ path: String) throws -> Int {
        let attributes = try FileManager.default.attributesOfItem(atPath: path)
        return (attributes[.posixPermissions] as? Int ?? 0) & 0o777
    }

    /// A descriptor that is closed twice could be another file's meanwhile. The test runs in a process of its
    /// own, which shares no descriptors.
    @Test("closes nobody's descriptor where the folder is open elsewhere")
    func openElsewhere() async throws {
        try ChildArguments.write([folder.path], "openElsewhere")
        await #expect(processExitsWith: .success) {
            let path = try ChildArguments.read("openElsewhere")[0]
            let engine = try SQLiteEngine(folder: path)
            Thread.detachNewThread { while true { _ = try? SQLiteEngine(folder: path) } }
            for _ in 0..<20_000 {
                let file = open("/dev/null", O_RDONLY)
                guard close(file) == 0 else { _exit(1) }
            }
            withExtendedLifetime(engine) {}
            // Ends the other thread as well.
            _exit(0)
        }
    }

    @Test("finds what was written before")
    func reopening() throws { try EngineContract.expectReopened { try SQLiteEngine(folder: folder.path) } }

    @Test("makes folders and files that nobody else may read")
    func privateModes() throws {
        let engine = try SQLiteEngine(folder: folder.path + "/deep/inside")
        _ = try openSession(engine)
        for path in ["", "/deep", "/deep/inside", "/deep/inside/snapshots"] {
            #expect(try mode(folder.path + path) == 0o700)
        }
        for name in ["LOCK", "tidecast.db", "tidecast.db-wal", "tidecast.db-shm"] {
            #expect(try mode(folder.path + "/deep/inside/" + name) == 0o600)
        }
    }

    @Test("is refused while the folder is open, with the process that has it")
    func aFolderIsOpenedOnce() throws {
        let engine = try SQLiteEngine(folder: folder.path)
        let reason = sentence { _ = try SQLiteEngine(folder: folder.path) }
        #expect(reason.contains("another tidecast (pid \(getpid()))"), "\(reason)")
        _ = engine.folder
    }

    @Test("waits for a command that has the folder for a moment")
    func aCommandHasTheFolder() throws {
        try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
        let file = open(folder.path + "/LOCK", O_RDWR | O_CREAT, 0o600)
        #expect(flock(file, LOCK_EX | LOCK_NB) == 0)
        Thread.detachNewThread {
            usleep(100_000)
            close(file)
        }
        _ = try SQLiteEngine(folder: folder.path)
    }

    @Test("refuses a newer schema")
    func aNewerSchemaIsRefused() throws {
        do { _ = try SQLiteEngine(folder: folder.path) }
        OtherProgram(folder.database).run("PRAGMA user_version = 2")
        #expect(
            sentence { _ = try SQLiteEngine(folder: folder.path) }.contains("written by a newer tidecast"))
    }

    @Test("refuses another program's database, and leaves it alone")
    func foreignDatabase() throws {
        try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
        do { OtherProgram(folder.database).run("CREATE TABLE theirs (x)") }
        #expect(sentence { _ = try SQLiteEngine(folder: folder.path) }.contains("another program's database"))
        #expect(OtherProgram(folder.database).run("SELECT * FROM theirs") == SQLITE_OK)
    }

    @Test("refuses a file that is no database")
    func noDatabase() throws {
        try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
        try Data(repeating: 65, count: 8192).write(to: URL(fileURLWithPath: folder.database))
        #expect(throws: EngineError.self) { try SQLiteEngine(folder: folder.path) }
    }

    private var snapshotNames: [String] {
        get throws {
            try FileManager.default.contentsOfDirectory(atPath: folder.path + "/snapshots").sorted()
        }
    }

    private func add(_ names: [String]) throws {
        for name in names {
            try Data([1]).write(to: URL(fileURLWithPath: folder.path + "/snapshots/" + name))
        }
    }

    @Test("removes its own snapshots that no row names")
    func strayFiles() throws {
        do {
            let engine = try SQLiteEngine(folder: folder.path)
            let session = try openSession(engine)
            try engine.writeSnapshot(session: session, partition: p(0), covering: Sequence(1), bytes: [1])
        }
        // Of a later database: a later record, a later session, a partition that is not here.
        let others = ["0-7-1.snap", "0-1-9.snap", "0-1-9.snap.aside", "7-0-1.snap"]
        let foreign = ["photo.jpg", "0-1-1", "0-1.snap", "0-x-1.snap", ".snap", "0-1-1.snap.aside.old"]
        try add(["0-0-1.snap", "0-8-1.snap.aside"] + others + foreign)
        _ = try SQLiteEngine(folder: folder.path)
        #expect(try snapshotNames == (["0-1-1.snap"] + others + foreign).sorted())
    }

    @Test("removes no snapshot where the database is another one's")
    func otherDatabase() throws {
        let old = folder.path + "/old"
        do {
            let engine = try SQLiteEngine(folder: folder.path)
            let session = try openSession(engine)
            try engine.writeSnapshot(session: session, partition: p(0), covering: .zero, bytes: [1])
        }
        try FileManager.default.copyItem(atPath: folder.database, toPath: old)
        try FileManager.default.removeItem(atPath: folder.path + "/snapshots/0-0-1.snap")
        try add(["0-1-1.snap"])
        _ = try SQLiteEngine(folder: folder.path)
        #expect(try snapshotNames == ["0-1-1.snap"])
        // Without its database, the folder is not taken for an empty one.
        try FileManager.default.removeItem(atPath: folder.database)
        let refusal = sentence { _ = try SQLiteEngine(folder: folder.path) }
        #expect(refusal.contains("has snapshots and no data in tidecast.db"))
        #expect(try snapshotNames == ["0-1-1.snap"])
        try FileManager.default.removeItem(atPath: folder.database)
        try FileManager.default.moveItem(atPath: old, toPath: folder.database)
        _ = try SQLiteEngine(folder: folder.path)
    }

    @Test("gives an engine that refuses while the database is locked, and then resumes")
    func locked() throws {
        let engine = try SQLiteEngine(folder: folder.path)
        let session = try openSession(engine)
        let other = OtherProgram(folder.database)
        #expect(other.run("BEGIN EXCLUSIVE") == SQLITE_OK)
        let outcome = engine.append(session: session, batch: BatchID(1), rows: [try row(0, 2)])
        #expect(outcome == .refused("another program has locked the database"))
        #expect(other.run("ROLLBACK") == SQLITE_OK)
        #expect(engine.failure == nil)
        let again = engine.append(session: session, batch: BatchID(2), rows: [try row(0, 2)])
        #expect(again == .rows([.appended]))
    }
}
