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
            #expect(tags.isSuperset(of: Fact.Tag.allCases.map(\.rawValue)), "\(revision)")
        }
    }

    @Test("are restored from snapshots")
    func snapshotsAreRestored() throws {
        func lines(_ bytes: [UInt8]) throws -> [String] {
            var state = PartitionState(
                id: PartitionID(0), history: History(9), partitionCount: 2, names: TopicNames())
            try state.restore(bytes)
            return state.lines()
        }
        let samples: [StoredFormats.Sample] = [
            .init("snapshot-small", FactSamples.snapshot(isLarge: false)),
            .init("snapshot-large", FactSamples.snapshot(isLarge: true)),
        ]
        let stored = try StoredFormats.read("snapshots.txt", recording: samples)
        #expect(!stored.isEmpty)
        for (revision, samples) in stored {
            #expect(samples.map(\.name) == ["snapshot-small", "snapshot-large"], "\(revision)")
            for (sample, isLarge) in zip(samples, [false, true]) {
                let expected = try lines(FactSamples.snapshot(isLarge: isLarge))
                #expect(try lines(sample.bytes) == expected, "\(revision) \(sample.name)")
            }
        }
    }
}
