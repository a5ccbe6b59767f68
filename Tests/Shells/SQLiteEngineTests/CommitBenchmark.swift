import EngineContract
import Foundation
import Journal
import Model
import SQLiteEngine
import Testing

/// Prints measurements and judges nothing: `TIDECAST_BENCH=1 swift test --filter CommitBenchmark`.
@Suite("Measurements on SQLite") struct CommitBenchmark {
    @Test(
        "time commits of one row for each of 1, 16 and 32 partitions",
        .enabled(if: ProcessInfo.processInfo.environment["TIDECAST_BENCH"] == "1", "set TIDECAST_BENCH=1"))
    func commits() throws { try measureCommits() }

    @Test(
        "time how long a snapshot of 12 MB holds up commits, whole and in parts",
        .enabled(if: ProcessInfo.processInfo.environment["TIDECAST_BENCH"] == "1", "set TIDECAST_BENCH=1"))
    func snapshots() throws { try measureSnapshots() }
}

/// Commits of one row for each of 1, 16 or 32 partitions, of 1 and 64 KiB that do not compress.
func measureCommits() throws {
    for (partitions, bytes, count) in [
        (1, 1024, 4000), (16, 1024, 3000), (32, 1024, 2000), (16, 65_536, 150), (32, 65_536, 80),
    ] {
        let folder = TemporaryFolder()
        let engine = try SQLiteEngine(folder: folder.path)
        let session = try openSession(engine, partitions: partitions)
        var times: [Double] = []
        let cpuBefore = clock()
        for commit in 0..<UInt64(count) {
            let rows = try (0..<partitions).map { try row($0, commit + 2, bytes: bytes) }
            let begun = Date()
            guard case .rows = engine.append(session: session, batch: BatchID(commit), rows: rows) else {
                return
            }
            times.append(Date().timeIntervalSince(begun))
        }
        let cpu = Double(clock() - cpuBefore) / 1e6
        let total = times.reduce(0, +)
        times.sort()
        let figures = [
            "\(partitions) x \(bytes) B:", "\(Int(Double(count) / total)) commits/s,",
            "\(Int(Double(count * partitions) / total)) rows/s,",
            String(
                format: "p50 %.2f ms, p99 %.2f ms, max %.1f ms,", times[count / 2] * 1e3,
                times[count * 99 / 100] * 1e3, times[count - 1] * 1e3),
            String(format: "CPU %.1f us a row with its making", cpu / Double(count * partitions) * 1e6),
        ]
        print(figures.joined(separator: " "))
    }
}

/// For how long a snapshot of 12 MB holds the thread that commits: in one piece, and in each of its parts.
func measureSnapshots() throws {
    let folder = TemporaryFolder()
    let engine = try SQLiteEngine(folder: folder.path)
    let session = try openSession(engine)
    let large = body(of: 1, partition: 0, bytes: 128 << 10)
    let bytes = Array(repeatElement(large, count: 96).joined())
    var begun = Date()
    try engine.writeSnapshot(session: session, partition: p(0), covering: Sequence(1), bytes: bytes)
    let whole = Date().timeIntervalSince(begun)
    var times: [Double] = []
    var upload: UInt64?
    var digest = SnapshotDigest(p(0), covering: Sequence(1))
    for number in 0..<96 {
        var part = SnapshotPart(upload: upload, number: number, bytes: large, end: nil)
        digest.add(large)
        if number == 95 { part.end = .init(parts: 96, length: bytes.count, digest: digest.value) }
        begun = Date()
        upload = try engine.writeSnapshot(
            session: session, partition: p(0), covering: Sequence(1), part: part)
        times.append(Date().timeIntervalSince(begun))
    }
    times.sort()
    print(
        String(
            format: "a snapshot of 12 MB: whole %.1f ms; a part p50 %.2f ms, max %.2f ms", whole * 1e3,
            times[48] * 1e3, times[95] * 1e3))
}
