import EngineContract
import Foundation
import Journal
import Model
import Testing

@testable import SQLiteEngine

@Suite("The log of SQLite") struct CheckpointTests {
    private func size(_ path: String) throws -> Int {
        let attributes = try FileManager.default.attributesOfItem(atPath: path)
        return try #require(attributes[.size] as? Int)
    }

    /// Without this the log grows for as long as the server runs, and the next start reads all of it.
    @Test("is copied into the file, and used again")
    func usedAgain() throws {
        let folder = TemporaryFolder()
        let engine = try SQLiteEngine(folder: folder.path)
        let session = try openSession(engine, partitions: 1)
        let noise = body(of: 1, partition: 0, bytes: 1 << 20)
        for sequence in UInt64(2)..<82 {
            let header = RecordHeader(
                partition: p(0), sequence: Sequence(sequence), epoch: Epoch(1), history: History(7))
            let row = Row(
                partition: p(0), sequence: Sequence(sequence),
                payload: try RecordCodec.encode(header: header, body: noise))
            let outcome = engine.append(session: session, batch: BatchID(sequence), rows: [row])
            #expect(outcome == .rows([.appended]))
        }
        let log = try size(folder.database + "-wal")
        #expect(log < 40 << 20, "80 MiB were written, and the log holds \(log) bytes")
        #expect(try size(folder.database) > 32 << 20)
        #expect(try engine.lastSequence(p(0)) == Sequence(81))
    }
}
