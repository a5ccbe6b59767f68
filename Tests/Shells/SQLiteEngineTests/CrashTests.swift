import EngineContract
import EngineDriver
import Foundation
import Journal
import Model
import SQLiteEngine
import Testing

/// A child process appends and notes each acknowledgement until SIGKILL ends it. The test then opens the
/// folder again, and each record that was noted must be there.
@Suite("A process that is killed", .serialized) struct CrashTests {
    private let folder = TemporaryFolder()

    /// Appends through the engine's thread until something ends the process. Each acknowledgement is a line
    /// in `acks`.
    private static func appendForever(_ folder: String) throws {
        mkdir(folder, 0o700)
        let acks = open(folder + "/acks", O_WRONLY | O_CREAT | O_APPEND, 0o600)
        let thread = EngineThread(
            makeEngine: { try SQLiteEngine(folder: folder) }, onFatal: { _ in abort() },
            onResolved: { _, resolved in
                for one in resolved where one.resolution == .durable {
                    let line = Array("\(one.partition.rawValue) \(one.sequence.rawValue)\n".utf8)
                    _ = write(acks, line, line.count)
                }
            })
        let begun = Gathered<SessionID>()
        thread.perform(
            { try openSession($0, partitions: 3) }, then: { begun.add([try? $0.get()].compactMap { $0 }) })
        guard let session = begun.wait(for: 1).first else { abort() }
        thread.use(session)
        for sequence in 2...UInt64.max {
            for partition in 0..<3 { thread.submit([try row(partition, sequence, bytes: 700)], for: 0) }
            while thread.counters.rows + 30 < (sequence - 1) * 3 { usleep(100) }
        }
    }

    private static func bytes(of path: String) -> Int {
        var status = stat()
        return stat(path, &status) == 0 ? Int(status.st_size) : 0
    }

    /// Expects each record that the child noted in the journal as it was sent, and no holes in the journal.
    private func checkAcknowledged(least: Int) throws {
        let text = (try? String(contentsOfFile: folder.path + "/acks", encoding: .utf8)) ?? ""
        let lines = text.split(separator: "\n").map { $0.split(separator: " ").compactMap { UInt64($0) } }
        let acknowledged = lines.filter { $0.count == 2 }
        #expect(acknowledged.count >= least)
        let engine = try SQLiteEngine(folder: folder.path)
        for partition in 0..<3 {
            let rows = try engine.read(p(partition), from: .zero, bytesMax: .max)
            #expect(rows.map(\.sequence.rawValue) == Array(1..<UInt64(rows.count + 1)))
            let last = acknowledged.filter { $0[0] == UInt64(partition) }.map { $0[1] }.max() ?? 0
            #expect(rows.count >= Int(last), "partition \(partition): \(last) was acknowledged")
            for found in rows.dropFirst() {
                #expect(found == (try row(partition, found.sequence.rawValue, bytes: 700)))
            }
        }
    }

    @Test(
        "at a failpoint loses nothing that it acknowledged",
        arguments: ["append.before:1", "append.before:40", "append.committed:1", "append.committed:40"])
    func atFailpoint(failpoint: String) async throws {
        try ChildArguments.write([folder.path, failpoint], "atFailpoint")
        await #expect(processExitsWith: .signal(SIGKILL)) {
            let arguments = try ChildArguments.read("atFailpoint")
            setenv("TIDECAST_FAILPOINT", arguments[1], 1)
            try CrashTests.appendForever(arguments[0])
        }
        try checkAcknowledged(least: failpoint.hasSuffix(":40") ? 39 : 0)
    }

    @Test(
        "at any moment loses nothing that it acknowledged", arguments: [0, 3_000, 20_000, 90_000] as [UInt32])
    func atAnyMoment(microseconds: UInt32) async throws {
        try ChildArguments.write([folder.path, "\(microseconds)"], "atAnyMoment")
        await #expect(processExitsWith: .signal(SIGKILL)) {
            let arguments = try ChildArguments.read("atAnyMoment")
            let path = arguments[0]
            let microseconds = try #require(UInt32(arguments[1]))
            Thread.detachNewThread {
                while CrashTests.bytes(of: path + "/acks") < 100 { usleep(500) }
                usleep(microseconds)
                kill(getpid(), SIGKILL)
            }
            try CrashTests.appendForever(path)
        }
        try checkAcknowledged(least: 10)
    }

    @Test(
        "while it writes a snapshot leaves the former snapshot, and nothing of the new one",
        arguments: ["snapshot.writing:1", "snapshot.writing:3", "snapshot.renamed:1"])
    func cutSnapshot(failpoint: String) async throws {
        let path = folder.path
        do {
            let engine = try SQLiteEngine(folder: path)
            let session = try openSession(engine)
            try engine.writeSnapshot(session: session, partition: p(0), covering: .zero, bytes: [1])
        }
        try ChildArguments.write([path, failpoint], "cutSnapshot")
        await #expect(processExitsWith: .signal(SIGKILL)) {
            let arguments = try ChildArguments.read("cutSnapshot")
            setenv("TIDECAST_FAILPOINT", arguments[1], 1)
            let engine = try SQLiteEngine(folder: arguments[0])
            let session = try openSession(engine)
            try engine.writeSnapshot(
                session: session, partition: p(0), covering: Sequence(2),
                bytes: [UInt8](repeating: 7, count: 3 << 20))
        }
        let engine = try SQLiteEngine(folder: path)
        #expect(try engine.snapshots(p(0)).map(\.covering) == [.zero])
        #expect(try engine.readSnapshot(p(0), covering: .zero) == [1])
        #expect(
            Array(try FileManager.default.contentsOfDirectory(atPath: path + "/snapshots")) == ["0-0-1.snap"])
    }
}
