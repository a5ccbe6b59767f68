import Model
import Testing

@testable import Partitions

/// Snapshots of partitions whose journals are short, by time alone.
@Suite("A snapshot by age")
struct SnapshotAgeTests {
    private static let hour = TimeSpan.seconds(3600)

    private func moment(_ seconds: UInt64) -> MonotonicTime {
        MonotonicTime(nanoseconds: 1).advanced(by: .seconds(seconds))
    }

    private func plan(_ id: UInt16 = 0, bytesMin: Int = .max) -> SnapshotPlan {
        SnapshotPlan(PartitionID(id), covering: .zero, bytesMin: bytesMin, age: SnapshotAgeTests.hour)
    }

    @Test("is due at another moment in each of 256 partitions, in the second half of the age")
    func spread() throws {
        let due = try (0..<256).map { number in
            var plan = plan(UInt16(number))
            plan.change(bytes: 1, at: moment(0))
            return try #require(plan.dueAt)
        }
        #expect(Set(due).count == 256)
        let first = try #require(due.min()), last = try #require(due.max())
        #expect(first >= moment(1800) && last <= moment(3600) && last.since(first) >= .seconds(1700))
        // No second of the half hour has more than one in eight of a partition's share.
        let busiest = Dictionary(grouping: due) { $0.since(moment(0)).nanoseconds / 60_000_000_000 }
        #expect(busiest.values.allSatisfy { $0.count <= 10 })
    }

    @Test("counts from the first change, is due once, and comes again after a failure")
    func once() {
        var plan = plan()
        #expect(plan.dueAt == nil && !plan.isDue(at: moment(9999)))
        plan.restored(Sequence(1), bytes: 8000)
        plan.change(bytes: 1, at: moment(100))
        plan.change(bytes: 1, at: moment(1000))
        #expect(plan.dueAt == moment(1900) && !plan.isDue(at: moment(1899)) && plan.isDue(at: moment(1900)))
        plan.start(PartitionID(0), covering: Sequence(2), token: 1)
        #expect(plan.dueAt == nil && !plan.isDue(at: moment(9999)))
        plan.failed(at: moment(2000))
        #expect(plan.dueAt == moment(3800))
    }

    @Test("is due after a quarter of the age if the journal has an eighth of the last snapshot's length")
    func eighth() {
        var plan = plan()
        plan.restored(Sequence(1), bytes: 800)
        plan.change(bytes: 99, at: moment(0))
        #expect(!plan.isDue(at: moment(451)))
        plan.change(bytes: 1, at: moment(440))
        #expect(!plan.isDue(at: moment(449)) && plan.isDue(at: moment(450)))
    }

    @Test("is due by bytes at once, whatever the age")
    func bytes() {
        var plan = plan(bytesMin: 1000)
        plan.change(bytes: 999, at: moment(0))
        #expect(!plan.isDue(at: moment(0)))
        plan.change(bytes: 1, at: moment(0))
        #expect(plan.isDue(at: moment(0)))
    }

    @Test("counts changes of earlier owners from the start, and what each owner does not at all")
    func replayed() {
        var idle = plan()
        idle.folded(.barrier(session: SessionID(1), epoch: Epoch(1), rules: 1))
        idle.closed(bytes: 30, at: nil)
        idle.begin(at: moment(5))
        idle.folded(.evict(session: 1))
        idle.closed(bytes: 9, at: moment(6))
        #expect(idle.dueAt == nil && !idle.isDue(at: moment(99_999)))
        var changed = plan()
        changed.change(bytes: 30, at: nil)
        changed.begin(at: moment(5))
        #expect(changed.dueAt == moment(1805))
    }

    @Test("is made of the last change though nothing follows, and none of an unchanged partition")
    func alone() throws {
        let harness = PartitionHarness(count: 2) {
            $0.snapshotBytesMin = .max
            $0.snapshotAge = .seconds(1800)
        }
        for _ in 0..<3 { _ = try #require(harness.register(in: 1)) }
        let applied = harness.partitions[1].applied
        harness.fireTimers(for: 890)
        #expect(harness.partitions[1].snapshots.covering == .zero)
        harness.fireTimers(for: 20)
        #expect(harness.partitions[1].snapshots.covering == applied)
        let parts = harness.parts[PartitionID(1)]?.count
        harness.fireTimers(for: 4000)
        #expect(harness.parts[PartitionID(1)]?.count == parts, "nothing has changed since")
        #expect(harness.parts[PartitionID(0)] == nil, "nothing has ever changed there")
        _ = try #require(harness.register(in: 1))
        harness.fireTimers(for: 1000)
        #expect(harness.partitions[1].snapshots.covering == harness.partitions[1].applied)
        #expect(!harness.trims.isEmpty, "the journal is trimmed to the older snapshot")
    }
}

extension SnapshotPlan {
    /// A record with a change is closed.
    fileprivate mutating func change(bytes: Int, at now: MonotonicTime?) {
        folded(.end(index: 1))
        closed(bytes: bytes, at: now)
    }
}
