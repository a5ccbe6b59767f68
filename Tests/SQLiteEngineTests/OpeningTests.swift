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

    private func sentence(_ body: () throws -> Void) -> String {
        do {
            try body()
            return ""
        } catch EngineError.refused(let reason), EngineError.corrupt(let reason) {
            return reason
        } catch {
            return "\(error)"
        }
    }

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
    func reopening() throws {
        do {
            let engine = try SQLiteEngine(folder: folder.path)
            let session = try openSession(engine)
            _ = engine.append(session: session, batch: BatchID(1), rows: [try row(0, 2)])
            try engine.writeSnapshot(session: session, partition: p(0), covering: Sequence(2), bytes: [1, 2])
            try engine.put(.setting, key: "x", value: [9])
        }
        let engine = try SQLiteEngine(folder: folder.path)
        #expect(try engine.read(p(0), from: Sequence(2), bytesMax: .max) == [try row(0, 2)])
        #expect(try engine.readSnapshot(p(0), covering: Sequence(2)) == [1, 2])
        #expect(try engine.get(.setting, key: "x") == [9])
    }

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

    @Test("removes snapshots that no row names")
    func strayFiles() throws {
        do {
            let engine = try SQLiteEngine(folder: folder.path)
            let session = try openSession(engine)
            try engine.writeSnapshot(session: session, partition: p(0), covering: Sequence(1), bytes: [1])
        }
        for name in ["0-7-1.snap", "0-8-1.snap.aside"] {
            try Data([1]).write(to: URL(fileURLWithPath: folder.path + "/snapshots/" + name))
        }
        _ = try SQLiteEngine(folder: folder.path)
        let left = try FileManager.default.contentsOfDirectory(atPath: folder.path + "/snapshots")
        #expect(left == ["0-1-1.snap"])
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
