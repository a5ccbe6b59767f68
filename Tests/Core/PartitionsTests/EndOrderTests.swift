import Model
import Testing

@testable import Partitions

/// A device's end must make the same outbox entry wherever it is folded: a receiver may have a part of the
/// entry before the sender's next owner makes the entry again.
@Suite("The end of a device") struct EndOrderTests {
    private func apply(_ facts: [Fact], to state: inout PartitionState, from record: UInt64) {
        for (number, fact) in facts.enumerated() {
            var cursor = PartitionState.Cursor(record: Sequence(record + UInt64(number)))
            state.apply(fact, &cursor)
            state.applied = cursor.record
        }
    }

    private func state() -> PartitionState {
        PartitionState(id: PartitionID(0), history: History(9), partitionCount: 1, names: TopicNames())
    }

    private func topic(_ name: String) -> TopicName { TopicName(checked: Array(name.utf8)) }

    @Test("leaves topics in one order, in a live state and in one from a snapshot")
    func leavesComeInOneOrder() throws {
        let project = ProjectNumber(1)
        let names = ["e", "b", "d", "a", "c"]
        var facts: [Fact] = [.register(index: 0, project: project, nonce: 1, secret: 1, day: Day(1))]
        facts += names.map { .subscribe(project: project, topic: topic($0), day: Day(1), indices: [0]) }
        // The table moves its last slot into the free slot.
        facts.append(.unsubscribe(project: project, topic: topic("e"), indices: [0]))
        var lived = state()
        apply(facts, to: &lived, from: 1)
        var read = state()
        try read.restore(SnapshotWriter.whole(of: lived))
        apply([.end(index: 0)], to: &lived, from: 20)
        apply([.end(index: 0)], to: &read, from: 20)
        func left(_ state: borrowing PartitionState) -> [String] {
            var found: [String] = []
            for entry in state.outboxes[PartitionID(0)]?.unacknowledged.suffix(1) ?? [] {
                for case .leave(_, let topic, _) in entry.items {
                    found.append(String(decoding: topic.utf8, as: UTF8.self))
                }
            }
            return found
        }
        #expect(left(lived) == ["a", "b", "c", "d"])
        #expect(left(read) == ["a", "b", "c", "d"])
    }
}
