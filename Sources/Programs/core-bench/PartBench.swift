import Foundation
import Journal
import Model
import Partitions
import SQLiteEngine

// How long one part of a snapshot holds the committing thread, on the embedded engine in the current folder.

extension CoreBench {
    static func parts() throws {
        let folder = FileManager.default.currentDirectoryPath + "/core-bench-data"
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let engine = try SQLiteEngine(folder: folder)
        let id = PartitionID(0)
        try engine.createPartitions(count: 1, histories: [History(7)])
        let session = try engine.beginSession(node: "bench")
        guard let row = try engine.partitions().first else { return }
        let barrier = try Partition.barrier(of: row, by: session, behind: .zero)
        _ = try engine.takeOver(id, from: row, by: session, barrier: barrier)
        var random = SystemRandomNumberGenerator()
        let size = PartitionOptions(partitionCount: 1).snapshotPartBytes
        let bytes = (0..<size).map { _ in UInt8.random(in: 0...255, using: &random) }
        var times: [Double] = []
        var burned: [Double] = []
        for _ in 0..<5 {
            var upload: UInt64?
            var digest = SnapshotDigest(id, covering: Sequence(1))
            for number in 0..<96 {
                var part = SnapshotPart(upload: upload, number: number, bytes: bytes, end: nil)
                digest.add(bytes)
                if number == 95 { part.end = .init(parts: 96, length: 96 * size, digest: digest.value) }
                let begun = ContinuousClock.now
                let cpu = try milliseconds {
                    upload = try engine.writeSnapshot(
                        session: session, partition: id, covering: Sequence(1), part: part)
                }
                let took = begun.duration(to: .now).components
                times.append(Double(took.seconds) * 1e3 + Double(took.attoseconds) / 1e15)
                burned.append(cpu)
            }
        }
        times.sort()
        burned.sort()
        func figures(_ values: [Double]) -> String {
            String(
                format: "p50 %.2f, p99 %.2f, max %.2f", values[values.count / 2],
                values[values.count * 99 / 100], values[values.count - 1])
        }
        print("a part of \(size) bytes, ms: \(figures(times)); of that CPU: \(figures(burned))")
    }
}
