import EngineContract
import Foundation
import Journal
import Model
import SQLiteEngine
import Testing

/// Measures commits, prints and judges nothing: `TIDECAST_BENCH=1 swift test --filter CommitBenchmark`.
@Suite struct CommitBenchmark {
    @Test(.enabled(if: ProcessInfo.processInfo.environment["TIDECAST_BENCH"] == "1", "set TIDECAST_BENCH=1"))
    func commits() throws { try measureCommits() }
}

/// Commits of one row for each of 1, 16 or 32 partitions, of 1 and 64 KiB that do not compress.
func measureCommits() throws {
    for (partitions, bytes, count) in [
        (1, 1024, 4000), (16, 1024, 3000), (32, 1024, 2000), (16, 65_536, 150), (32, 65_536, 80),
    ] {
        let folder = TemporaryFolder()
        let engine = try SQLiteEngine(folder: folder.path)
        let session = try begin(engine, partitions: partitions)
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
