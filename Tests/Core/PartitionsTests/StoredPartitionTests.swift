import Journal
import MemoryEngine
import Model
import Testing

@testable import Partitions

/// An heir reads a partition before it owns the partition, and the rest afterwards.
@Suite("A partition as its heir reads it") struct StoredPartitionTests {
    private let id = PartitionID(0)
    private let engine = MemoryEngine()
    private let session: SessionID

    init() throws {
        try engine.createPartitions(count: 1, histories: [History(7)])
        session = try engine.beginSession(node: "n")
        let row = try #require(try engine.partitions().first)
        let barrier = try Partition.barrier(of: row, by: session, behind: .zero)
        try #require(try engine.takeOver(id, from: row, by: session, barrier: barrier) == Epoch(1))
    }

    private func append(
        _ sequence: UInt64, generation: UInt64, epoch: UInt64 = 1
    ) throws -> AppendOutcome {
        let header = RecordHeader(
            partition: id, sequence: Sequence(sequence), epoch: Epoch(epoch), history: History(7))
        let body = FactSamples.encoded(.generation(number: generation, leavingOut: 0))
        let payload = try RecordCodec.encode(header: header, body: body)
        return engine.append(
            session: session, batch: BatchID(sequence << 8 | generation),
            rows: [Row(partition: id, sequence: Sequence(sequence), payload: payload)])
    }

    private func folded(_ stored: StoredPartition, onto former: Partition? = nil) throws -> Partition {
        let partition =
            former
            ?? Partition(
                id: id, history: History(7), options: PartitionOptions(partitionCount: 1),
                names: TopicNames(), proofs: PartitionHarness.Proofs())
        try stored.fold(into: partition)
        return partition
    }

    @Test("is read on from where the first reading ended")
    func tail() throws {
        #expect(try append(2, generation: 1) == .rows([.appended]))
        let first = try StoredPartition(id, from: engine)
        let partition = try folded(first)
        #expect(try append(3, generation: 2) == .rows([.appended]))
        let rest = try StoredPartition.read(id, behind: first.mark, from: engine)
        #expect(rest.isTail)
        #expect(
            try folded(rest, onto: partition).image() == folded(StoredPartition(id, from: engine)).image())
        #expect(partition.applied == Sequence(3) && partition.state.generation == 2)
    }

    /// A record that was visible and not durable is gone after a failover, and another record stands in its
    /// place.
    @Test("is read again where the database forgot what was read")
    func forgotten() throws {
        engine.faults = [.loseReply]
        #expect(try append(2, generation: 1) == .unknown("the reply was lost"))
        let first = try StoredPartition(id, from: engine)
        engine.crash(keepsUnacknowledged: false)
        #expect(!(try StoredPartition.read(id, behind: first.mark, from: engine).isTail), "it is gone")
        #expect(try append(2, generation: 5) == .rows([.appended]))
        let second = try StoredPartition.read(id, behind: first.mark, from: engine)
        #expect(!second.isTail, "another stands there")
        #expect(try folded(second).state.generation == 5)
    }

    @Test("is read from its snapshot where records were trimmed meanwhile")
    func trimmed() throws {
        let first = try StoredPartition(id, from: engine)
        // The engine trims nothing before there are two snapshots.
        for sequence in UInt64(2)...3 {
            _ = try append(sequence, generation: sequence)
            let snapshot = try SnapshotWriter.whole(of: folded(StoredPartition(id, from: engine)).state)
            try engine.writeSnapshot(
                session: session, partition: id, covering: Sequence(sequence), bytes: snapshot)
        }
        _ = try append(4, generation: 4)
        _ = try engine.trim(session: session, partition: id, below: Sequence(4), keeping: [], limit: 10)
        let second = try StoredPartition.read(id, behind: first.mark, from: engine)
        #expect(!second.isTail && second.snapshot != nil)
        #expect(try folded(second).state.generation == 4)
    }

    /// A former owner's late record stands behind the next owner's barrier: a reader refuses it.
    @Test("is refused where a record of an earlier epoch stands behind a barrier")
    func earlierEpoch() throws {
        #expect(try append(2, generation: 3, epoch: 0) == .rows([.appended]))
        #expect {
            try StoredPartition(id, from: engine)
        } throws: { error in
            "\(error)".contains("record 2 is of epoch 0, and stands behind one of epoch 1")
        }
    }

    /// The same where a snapshot covers the barrier.
    @Test("is refused where such a record stands behind a snapshot of the barrier")
    func behindSnapshot() throws {
        #expect(try append(2, generation: 1) == .rows([.appended]))
        try engine.writeSnapshot(
            session: session, partition: id, covering: Sequence(2),
            bytes: SnapshotWriter.whole(of: folded(StoredPartition(id, from: engine)).state))
        #expect(try append(3, generation: 3, epoch: 0) == .rows([.appended]))
        #expect {
            try folded(StoredPartition(id, from: engine))
        } throws: { error in
            "\(error)".contains("record 3: its epoch is before the last barrier's")
        }
    }
}
