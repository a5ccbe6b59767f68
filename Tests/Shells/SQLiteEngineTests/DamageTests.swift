import EngineContract
import Foundation
import Journal
import Model
import SQLiteEngine
import Testing

/// Disks that are full, fail or lie.
@Suite("A disk that is full, fails or lies", .serialized) struct DamageTests {
    private let folder = TemporaryFolder()

    /// Copies the database while an engine has it open, as a power cut would leave it.
    private func copy(to path: String, log: Data? = nil) throws {
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        let database = try Data(contentsOf: URL(fileURLWithPath: folder.database))
        try database.write(to: URL(fileURLWithPath: path + "/tidecast.db"))
        let whole = try Data(contentsOf: URL(fileURLWithPath: folder.database + "-wal"))
        try (log ?? whole).write(to: URL(fileURLWithPath: path + "/tidecast.db-wal"))
    }

    @Test("without its database, the log is not taken for a new one's, and stays", arguments: [true, false])
    func noDatabase(isEmpty: Bool) throws {
        let engine = try SQLiteEngine(folder: folder.path)
        _ = try fill(engine, count: 3)
        let other = TemporaryFolder()
        try withExtendedLifetime(engine) { try copy(to: other.path) }
        let log = try Data(contentsOf: URL(fileURLWithPath: other.path + "/tidecast.db-wal"))
        let whole = try Data(contentsOf: URL(fileURLWithPath: other.path + "/tidecast.db"))
        try FileManager.default.removeItem(atPath: other.path + "/tidecast.db")
        if isEmpty { try Data().write(to: URL(fileURLWithPath: other.path + "/tidecast.db")) }
        for _ in 0..<2 {
            #expect(throws: EngineError.self) { _ = try SQLiteEngine(folder: other.path) }
            #expect(try Data(contentsOf: URL(fileURLWithPath: other.path + "/tidecast.db-wal")) == log)
        }
        try whole.write(to: URL(fileURLWithPath: other.path + "/tidecast.db"))
        #expect(try SQLiteEngine(folder: other.path).lastSequence(p(0)) == Sequence(3))
    }

    @Test("a database of a running server is refused without its log, until somebody makes an empty one")
    func noLog() throws {
        let other = TemporaryFolder()
        try {
            let engine = try SQLiteEngine(folder: folder.path)
            _ = try fill(engine, count: 3)
            try withExtendedLifetime(engine) { try copy(to: other.path) }
        }()
        let log = other.path + "/tidecast.db-wal"
        try FileManager.default.removeItem(atPath: log)
        for _ in 0..<2 {
            #expect(throws: EngineError.self) { _ = try SQLiteEngine(folder: other.path) }
            #expect(!FileManager.default.fileExists(atPath: log))
        }
        try Data().write(to: URL(fileURLWithPath: log))
        _ = try SQLiteEngine(folder: other.path)
        // After an orderly end there is no log, and nothing is missing.
        #expect(try SQLiteEngine(folder: folder.path).lastSequence(p(0)) == Sequence(3))
    }

    private func log() throws -> Data { try Data(contentsOf: URL(fileURLWithPath: folder.database + "-wal")) }

    /// Appends records 2...count of two partitions, one commit each. Returns the log's length after each
    /// commit.
    private func fill(_ engine: SQLiteEngine, count: UInt64) throws -> [Int] {
        let session = try openSession(engine)
        return try (2...count).map { sequence in
            let rows = try [row(0, sequence), row(1, sequence)]
            #expect(
                engine.append(session: session, batch: BatchID(sequence), rows: rows)
                    == .rows([.appended, .appended]))
            return try log().count
        }
    }

    @Test("loses nothing that a truncated log still holds")
    func truncatedLog() throws {
        let engine = try SQLiteEngine(folder: folder.path)
        let lengths = try fill(engine, count: 12)
        let whole = try log()
        let first = lengths[0]
        var offsets = Set(stride(from: first, through: whole.count, by: 577))
        for length in lengths { offsets.formUnion([length - 1, length, min(length + 1, whole.count)]) }
        let other = TemporaryFolder()
        for offset in offsets.sorted() {
            try? FileManager.default.removeItem(atPath: other.path)
            try copy(to: other.path, log: whole.prefix(offset))
            let reopened = try SQLiteEngine(folder: other.path)
            let held = UInt64(lengths.count { $0 <= offset })
            for partition in 0..<2 {
                let rows = try reopened.read(p(partition), from: .zero, bytesMax: .max)
                #expect(rows.map(\.sequence.rawValue) == Array(1...held + 1), "cut at \(offset)")
            }
        }
    }

    @Test("is found out where a bit flips in the middle of the log")
    func logBit() throws {
        let engine = try SQLiteEngine(folder: folder.path)
        let lengths = try fill(engine, count: 12)
        let whole = try log()
        var generator = SeededGenerator(seed: 21)
        let other = TemporaryFolder()
        // The flip is before the last two commits: a crash cannot have lost both.
        for _ in 0..<60 {
            let offset = Int.random(in: 0..<lengths[lengths.count - 3], using: &generator)
            var damaged = whole
            damaged[offset] ^= 1 << UInt8.random(in: 0..<8, using: &generator)
            try? FileManager.default.removeItem(atPath: other.path)
            try copy(to: other.path, log: damaged)
            do {
                let reopened = try SQLiteEngine(folder: other.path)
                // Nothing depends on the flipped bytes: a checkpoint's number, or the free room of a page.
                for partition in 0..<2 {
                    let rows = try reopened.read(p(partition), from: .zero, bytesMax: .max)
                    #expect(rows.count == 12, "a flip at \(offset) was not noticed")
                }
            } catch EngineError.corrupt {
                // The next opening finds the damage as well: nothing of the evidence is gone.
                #expect(throws: EngineError.self) { try SQLiteEngine(folder: other.path) }
            }
        }
    }

    @Test("has no flipped bit of the file served as truth")
    func fileBit() throws {
        let count: UInt64 = 30
        do {
            let engine = try SQLiteEngine(folder: folder.path)
            _ = try fill(engine, count: count)
            try engine.put(.project, key: "p", value: [UInt8](repeating: 3, count: 300))
        }
        let whole = try Data(contentsOf: URL(fileURLWithPath: folder.database))
        var generator = SeededGenerator(seed: 22)
        let other = TemporaryFolder()
        var found = 0
        for _ in 0..<150 {
            let offset = Int.random(in: 0..<whole.count, using: &generator)
            var damaged = whole
            damaged[offset] ^= 1 << UInt8.random(in: 0..<8, using: &generator)
            try? FileManager.default.removeItem(atPath: other.path)
            try FileManager.default.createDirectory(atPath: other.path, withIntermediateDirectories: true)
            try damaged.write(to: URL(fileURLWithPath: other.path + "/tidecast.db"))
            do {
                let engine = try SQLiteEngine(folder: other.path)
                #expect(try engine.partitions().map(\.epoch) == [Epoch(1), Epoch(1)], "flip at \(offset)")
                for partition in 0..<2 {
                    for found in try engine.read(p(partition), from: Sequence(2), bytesMax: .max) {
                        #expect(found.payload == (try row(partition, found.sequence.rawValue)).payload)
                    }
                }
                if let value = try engine.get(.project, key: "p") {
                    #expect(value == [UInt8](repeating: 3, count: 300))
                }
            } catch let error as EngineError {
                found += 1
                if case .fenced = error { Issue.record("a flip at \(offset) is no fence") }
            }
        }
        #expect(found > 0)
    }

    @Test("makes one payload corrupt where a byte changes, and the others are served")
    func flippedPayload() throws {
        let engine = try SQLiteEngine(folder: folder.path)
        _ = try fill(engine, count: 5)
        let other = OtherProgram(folder.database)
        let sql =
            "UPDATE journal SET payload = CAST(substr(payload, 1, 50) || x'00' || substr(payload, 52)"
            + " AS BLOB)"
        #expect(other.run(sql + " WHERE partition = 0 AND sequence = 3") == 0)
        #expect(throws: EngineError.self) { try engine.read(p(0), from: Sequence(3), bytesMax: 1) }
        #expect(try engine.read(p(0), from: Sequence(4), bytesMax: .max).count == 2)
        #expect(engine.failure == nil)
    }

    @Test("makes a snapshot corrupt where a bit flips, and the older one stands")
    func damagedSnapshot() throws {
        let engine = try SQLiteEngine(folder: folder.path)
        let session = try openSession(engine)
        try engine.writeSnapshot(session: session, partition: p(0), covering: .zero, bytes: [1, 2, 3])
        try engine.writeSnapshot(session: session, partition: p(0), covering: Sequence(1), bytes: [4, 5, 6])
        let path = folder.path + "/snapshots/" + (try engine.snapshots(p(0))[0].name)
        let whole = try Data(contentsOf: URL(fileURLWithPath: path))
        for bit in 0..<whole.count * 8 {
            var damaged = whole
            damaged[bit / 8] ^= 1 << UInt8(bit % 8)
            try damaged.write(to: URL(fileURLWithPath: path))
            #expect(throws: EngineError.self) { try engine.readSnapshot(p(0), covering: Sequence(1)) }
        }
        for count in 0..<whole.count {
            try whole.prefix(count).write(to: URL(fileURLWithPath: path))
            #expect(throws: EngineError.self) { try engine.readSnapshot(p(0), covering: Sequence(1)) }
        }
        try FileManager.default.removeItem(atPath: path)
        #expect(throws: EngineError.self) { try engine.readSnapshot(p(0), covering: Sequence(1)) }
        #expect(try engine.readSnapshot(p(0), covering: .zero) == [1, 2, 3])
        #expect(engine.failure == nil)
    }

    @Test("does not hold a newer build's snapshot for damaged")
    func newerSnapshot() throws {
        let engine = try SQLiteEngine(folder: folder.path)
        let session = try openSession(engine)
        try engine.writeSnapshot(session: session, partition: p(0), covering: Sequence(1), bytes: [1])
        let path = folder.path + "/snapshots/" + (try engine.snapshots(p(0))[0].name)
        var file = [UInt8](try Data(contentsOf: URL(fileURLWithPath: path)))
        for (digit, sentence) in [("2", "version 2: it is from a newer tidecast"), ("x", "is no snapshot")] {
            file[7] = Array(digit.utf8)[0]
            try Data(file).write(to: URL(fileURLWithPath: path))
            let error = #expect(throws: EngineError.self) {
                try engine.readSnapshot(p(0), covering: Sequence(1))
            }
            #expect("\(String(describing: error))".contains(sentence))
        }
    }

    /// A write fails for another reason than a full disk: the log's descriptor becomes one that only reads.
    @Test("stops the engine for good with any error but a full disk's")
    func otherError() async throws {
        try ChildArguments.write([folder.path], "otherError")
        await #expect(processExitsWith: .exitCode(7)) {
            let path = try ChildArguments.read("otherError")[0]
            let engine = try SQLiteEngine(folder: path)
            let session = try openSession(engine)
            let log = path + "/tidecast.db-wal"
            let reading = open(log, O_RDONLY)
            var here = stat()
            var there = stat()
            guard reading >= 0, fstat(reading, &there) == 0 else { exit(3) }
            for descriptor in 3..<reading where fstat(descriptor, &here) == 0 && here.st_ino == there.st_ino {
                dup2(reading, descriptor)
            }
            let failed = engine.append(session: session, batch: BatchID(1), rows: [try row(0, 2)])
            let after = engine.append(session: session, batch: BatchID(2), rows: [try row(0, 2)])
            guard failed.isUnknown, after.isUnknown, engine.failure != nil else { exit(1) }
            do {
                _ = try engine.partitions()
                exit(2)
            } catch EngineError.ioFailure {
                exit(7)
            }
        }
        let engine = try SQLiteEngine(folder: folder.path)
        #expect(try engine.lastSequence(p(0)) == Sequence(1))
    }

    /// Quotas of a disk and limits of files have other numbers than a full disk.
    @Test("refuses what has no room up to a file's limit, and goes on when it may grow")
    func fileLimit() async throws {
        try ChildArguments.write([folder.path], "fileLimit")
        await #expect(processExitsWith: .exitCode(7)) {
            let path = try ChildArguments.read("fileLimit")[0]
            let engine = try SQLiteEngine(folder: path)
            let session = try openSession(engine)
            signal(SIGXFSZ, SIG_IGN)
            var limit = rlimit(rlim_cur: 200_000, rlim_max: rlim_t(bitPattern: -1))
            setrlimit(__rlimit_resource_t(1), &limit)  // RLIMIT_FSIZE
            let large = engine.append(
                session: session, batch: BatchID(1), rows: [try row(0, 2, bytes: 400_000)])
            let small = engine.append(session: session, batch: BatchID(2), rows: [try row(0, 2)])
            limit.rlim_cur = limit.rlim_max
            setrlimit(__rlimit_resource_t(1), &limit)
            let after = engine.append(
                session: session, batch: BatchID(3), rows: [try row(0, 3, bytes: 400_000)])
            guard large == .refused("the disk is full"), engine.failure == nil else { exit(1) }
            guard small == .rows([.appended]), after == .rows([.appended]) else { exit(2) }
            exit(7)
        }
        let engine = try SQLiteEngine(folder: folder.path)
        #expect(try engine.lastSequence(p(0)) == Sequence(3))
    }

    @Test("acknowledges nothing in a folder that was removed or replaced", arguments: [false, true])
    func replaced(isReplaced: Bool) throws {
        let aside = folder.path + "-aside"
        defer { try? FileManager.default.removeItem(atPath: aside) }
        let engine = try SQLiteEngine(folder: folder.path)
        let session = try openSession(engine)
        #expect(
            engine.append(session: session, batch: BatchID(1), rows: [try row(0, 2)]) == .rows([.appended]))
        try FileManager.default.moveItem(atPath: folder.path, toPath: aside)
        if isReplaced { try FileManager.default.copyItem(atPath: aside, toPath: folder.path) }
        let outcome = engine.append(session: session, batch: BatchID(2), rows: [try row(0, 3)])
        #expect(outcome.isUnknown && engine.failure?.contains("removed or replaced") == true)
    }

    @Test("refuses while it is full, and heals without a restart")
    func fullDisk() throws {
        try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
        guard mount("tidecast", folder.path, "tmpfs", 0, "size=2m") == 0 else {
            print("skipped: mounting a small tmpfs needs root (\(String(cString: strerror(errno))))")
            return
        }
        defer { umount2(folder.path, Int32(MNT_DETACH)) }
        let ballast = folder.path + "/ballast"
        try Data(count: 600_000).write(to: URL(fileURLWithPath: ballast))
        let engine = try SQLiteEngine(folder: folder.path + "/data")
        let session = try openSession(engine)
        var sequence: UInt64 = 2
        var outcome = AppendOutcome.rows([.appended])
        while !outcome.isRefused, sequence < 1000 {
            let one = try row(0, sequence, bytes: 20_000)
            outcome = engine.append(session: session, batch: BatchID(sequence), rows: [one])
            if !outcome.isRefused { sequence += 1 }
        }
        #expect(outcome == .refused("the disk is full"))
        #expect(engine.failure == nil)
        // Reads go on; the refused record is not there, nor is a snapshot that found no room.
        #expect(try engine.lastSequence(p(0)) == Sequence(sequence - 1))
        #expect(throws: EngineError.refused("the disk is full")) {
            try engine.writeSnapshot(
                session: session, partition: p(0), covering: Sequence(1),
                bytes: [UInt8](repeating: 1, count: 1 << 20))
        }
        #expect(engine.failure == nil)
        #expect(try FileManager.default.contentsOfDirectory(atPath: engine.folder + "/snapshots").isEmpty)
        try FileManager.default.removeItem(atPath: ballast)
        let again = engine.append(
            session: session, batch: BatchID(5000), rows: [try row(0, sequence, bytes: 20_000)])
        #expect(again == .rows([.appended]))
        #expect(try engine.read(p(0), from: .zero, bytesMax: .max).count == Int(sequence))
    }
}
