import Bytes
import Journal
import Model
import StoredFormats
import Testing

@testable import Partitions

/// Records and snapshots as closed revisions wrote them.
@Suite("Facts and snapshots of closed revisions") struct StoredFactsTests {
    private static let header = RecordHeader(
        partition: PartitionID(7), sequence: Sequence(300), epoch: Epoch(4), history: History(9))

    @Test("are read from records, fact by fact")
    func recordsAreReadFactByFact() throws {
        var samples: [StoredFormats.Sample] = []
        for (index, fact) in (FactSamples.small + FactSamples.large).enumerated() {
            let body = FactSamples.encoded(fact)
            let record = try RecordCodec.encode(header: StoredFactsTests.header, body: body)
            samples.append(.init("fact-\(index)", record))
        }
        let stored = try StoredFormats.read("records.txt", recording: samples)
        #expect(!stored.isEmpty)
        for (revision, samples) in stored {
            var tags: Set<UInt8> = []
            for sample in samples {
                let record = try RecordCodec.decode(
                    sample.bytes, expecting: PartitionID(7), Sequence(300))
                #expect(record.header == StoredFactsTests.header)
                var reader = ByteReader(record.body)
                let fact = try Fact.decode(from: &reader)
                try reader.expectEnd()
                #expect(FactSamples.encoded(fact) == record.body, "\(revision) \(sample.name)")
                if let tag = record.body.first { tags.insert(tag) }
            }
            #expect(tags.isSuperset(of: 1...22), "\(revision)")
        }
    }

    @Test("are restored from snapshots")
    func snapshotsAreRestored() throws {
        func restored(_ bytes: [UInt8]) throws -> [UInt8] {
            var state = PartitionState(
                id: PartitionID(0), history: History(9), partitionCount: 2, names: TopicNames())
            try state.restore(bytes)
            return state.snapshot()
        }
        func written(isLarge: Bool) throws -> [UInt8] {
            var state = PartitionState(
                id: PartitionID(0), history: History(9), partitionCount: 2, names: TopicNames())
            try state.restore(FactSamples.snapshot(isLarge: isLarge))
            let writer = SnapshotWriter(state)
            while !writer.isWritten { writer.advance(4096, state) }
            defer { writer.releaseNames(state.names) }
            return writer.drain(upTo: .max)
        }
        let samples: [StoredFormats.Sample] = [
            .init("snapshot-small", try written(isLarge: false)),
            .init("snapshot-large", try written(isLarge: true)),
        ]
        let stored = try StoredFormats.read("snapshots.txt", recording: samples)
        #expect(!stored.isEmpty)
        for (revision, samples) in stored {
            #expect(samples.map(\.name) == ["snapshot-small", "snapshot-large"], "\(revision)")
            for (sample, isLarge) in zip(samples, [false, true]) {
                let expected = FactSamples.snapshot(isLarge: isLarge)
                #expect(try restored(sample.bytes) == expected, "\(revision) \(sample.name)")
            }
        }
    }
}
