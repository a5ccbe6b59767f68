import Bytes
import Model
import Testing

@testable import Partitions

@Suite("Formats of partitions")
struct NewerFormatsTests {
    @Test("have tags of facts without holes, and a sample of each")
    func tags() {
        let written = Set(FactSamples.small.compactMap { FactSamples.encoded($0).first })
        #expect(written == Set(Fact.Tag.allCases.map(\.rawValue)))
        #expect(Fact.Tag.allCases.map(\.rawValue) == Array(1...UInt8(Fact.Tag.allCases.count)))
    }

    @Test("facts and snapshots of a newer tidecast are refused and say so")
    func newer() throws {
        func sentence(_ body: () throws -> Void) -> String {
            do { try body() } catch { return "\(error)" }
            return ""
        }
        for tag in [0, UInt8(Fact.Tag.allCases.count + 1), 255] {
            let said = sentence { try Partition.check([tag, 1, 2, 3]) }
            #expect(said.contains("a fact of unknown kind \(tag), as only a newer tidecast writes it"))
        }
        var message = FactSamples.encoded(FactSamples.small[6])
        let flags = Envelope.Flags.collapseKey.rawValue
        message[try #require(message.firstIndex(of: flags))] = flags | 8
        let unknown = sentence { try Partition.check(message) }
        #expect(unknown.contains("a message with unknown flags 10, as only a newer tidecast writes it"))
        var snapshot = FactSamples.snapshot(isLarge: false)
        var state = PartitionState(
            id: PartitionID(0), history: History(9), partitionCount: 2, names: TopicNames())
        snapshot[0] = SnapshotWriter.version + 1
        #expect(
            sentence { try state.restore(snapshot) }
                == "a snapshot of version 2: it is from a newer tidecast, this one reads version 1")
        snapshot[0] = 0
        #expect(sentence { try state.restore(snapshot) }.contains("a snapshot of version 0"))
    }

    @Test("records and snapshots under other stored rules are refused in a sentence")
    func otherRules() throws {
        let said = "under stored rules 7, as only another tidecast has them"
        let partition = PartitionHarness(count: 1).partitions[0]
        let barrier = Partition.barrier(session: SessionID(2), epoch: Epoch(2), rules: 7)
        #expect { try partition.replay(partition.applied.next, barrier) } throws: {
            "\($0)".contains("records \(said)")
        }
        var snapshot = FactSamples.snapshot(isLarge: false)
        snapshot.replaceSubrange(1..<9, with: [7, 0, 0, 0, 0, 0, 0, 0])
        var state = PartitionState(
            id: PartitionID(0), history: History(9), partitionCount: 2, names: TopicNames())
        do throws(DecodeError) {
            try state.restore(snapshot)
            Issue.record("the snapshot was read")
        } catch {
            #expect("\(error)".contains("a snapshot \(said)"))
        }
    }

    @Test("topics hash as they always did: fingerprints of pairs are made of it")
    func topicHash() {
        #expect(TopicNames.hash(Array("news".utf8), ProjectNumber(7)) == 0xa81586f1cc51a48d)
        #expect(TopicNames.hash([UInt8](), ProjectNumber(1)) == 0xeee488a61e6fb3f1)
    }

    @Test("a number of an outbox entry that no journal reaches is refused", arguments: [UInt64.max, 1 << 63])
    func hugeNumbers(number: UInt64) {
        let entry = OutboxEntry(number: Sequence(number), predecessor: .zero, items: [], fingerprint: 0)
        let said = OutboxAcknowledgement(
            from: PartitionID(1), history: History(1), mark: Sequence(number), fingerprint: 0)
        let frame = OutboxFrame(
            from: PartitionID(1), history: History(1), clock: WallTime(milliseconds: 1), entries: [entry])
        for event in [PartitionEvent.offered(frame), .acknowledged(said)] {
            var writer = ByteWriter()
            event.encode(into: &writer)
            var reader = ByteReader(writer.bytes)
            #expect(throws: DecodeError.self) { try PartitionEvent.decode(from: &reader) }
        }
    }
}
