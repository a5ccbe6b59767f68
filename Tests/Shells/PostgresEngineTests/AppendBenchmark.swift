import EngineContract
import Foundation
import Journal
import Model
import PostgresEngine
import Testing

/// Prints measurements and judges nothing: `TIDECAST_BENCH=1 swift test --filter AppendBenchmark`.
@Suite(
    "Measurements on PostgreSQL", .serialized, .enabled(if: Server.isInstalled, Server.missing),
    .enabled(if: ProcessInfo.processInfo.environment["TIDECAST_BENCH"] == "1", "set TIDECAST_BENCH=1"))
struct AppendBenchmark {
    /// One writer; each append has one row of 512 bytes, which do not compress, for each of the partitions.
    @Test("time appends of one row for each of 1 to 256 partitions")
    func appends() throws {
        for partitions in [1, 16, 64, 256] {
            let engine = try newEngine()
            let session = try openSession(engine, partitions: partitions)
            let count = max(200, 20_000 / partitions)
            // The rows are made before, so that only the engine is measured.
            let batches = try (0..<UInt64(count)).map { commit in
                try (0..<partitions).map { try row($0, commit + 2, bytes: 512 - RecordCodec.headerBytes) }
            }
            var times: [Double] = []
            let cpuBefore = clock()
            for (commit, rows) in batches.enumerated() {
                let begun = Date()
                let done = engine.append(session: session, batch: BatchID(UInt64(commit)), rows: rows)
                times.append(Date().timeIntervalSince(begun))
                guard case .rows(let outcomes) = done, outcomes.allSatisfy({ $0 == .appended }) else {
                    throw Failed(description: "\(done)")
                }
            }
            let cpu = Double(clock() - cpuBefore) / 1e6
            report("\(partitions) x 512 B", &times, rows: partitions, cpu: cpu)
        }
    }

    @Test("time appends of no rows")
    func appendsOfNoRows() throws {
        let engine = try newEngine()
        let session = try openSession(engine)
        var times: [Double] = []
        let cpuBefore = clock()
        for _ in 0..<5000 {
            let begun = Date()
            _ = engine.append(session: session, batch: BatchID(1), rows: [])
            times.append(Date().timeIntervalSince(begun))
        }
        report("no rows", &times, rows: 1, cpu: Double(clock() - cpuBefore) / 1e6)
    }

    @Test("time a takeover with a snapshot of 10 MiB and 10,000 rows")
    func takeovers() throws {
        let engine = try newEngine()
        let session = try openSession(engine, partitions: 1)
        for start in stride(from: UInt64(2), to: 10_002, by: 500) {
            _ = engine.append(
                session: session, batch: BatchID(1), rows: try (start..<start + 500).map { try row(0, $0) })
        }
        let block = body(of: 1, partition: 0, bytes: 1 << 20)
        let bytes = Array(repeatElement(block, count: 10).joined())
        var begun = Date()
        try engine.writeSnapshot(session: session, partition: p(0), covering: Sequence(1), bytes: bytes)
        print("snapshot of 10 MiB written: \(Int(Date().timeIntervalSince(begun) * 1e3)) ms")
        try engine.fence(session)
        let heir = try engine.beginSession(node: "b")
        begun = Date()
        let former = try engine.partitions()[0]
        let barrier = try row(0, try engine.lastSequence(p(0)).next.rawValue)
        _ = try engine.takeOver(p(0), from: former, by: heir, barrier: barrier)
        let taken = Date()
        _ = try engine.readSnapshot(p(0), covering: Sequence(1))
        let rows = try engine.read(p(0), from: Sequence(2), bytesMax: .max)
        let read = Date()
        print(
            String(
                format: "takeover: %.1f ms, and read in %.1f ms (10 MiB, %d rows)",
                taken.timeIntervalSince(begun) * 1e3, read.timeIntervalSince(taken) * 1e3, rows.count))
    }

    private func report(_ name: String, _ times: inout [Double], rows: Int, cpu: Double) {
        let count = times.count
        let total = times.reduce(0, +)
        times.sort()
        print(
            "\(name): \(Int(Double(count) / total)) appends/s, \(Int(Double(count * rows) / total)) rows/s, "
                + String(
                    format: "p50 %.2f ms, p99 %.2f ms, CPU here %.1f us a row", times[count / 2] * 1e3,
                    times[count * 99 / 100] * 1e3, cpu / Double(count * rows) * 1e6))
    }
}
