import Model
import Testing

@testable import Partitions

/// A message that a record takes out of the log stays for its device until that record is durable, for a
/// device that comes back before (rule: delete-on-durable-only).
@Suite("A message that a record takes out of the log") struct UncommittedRemovalTests {
    private let device = DeviceSet(3)

    private func entry(_ position: UInt64, key: UInt32 = 0, record: UInt64 = 1) -> LogEntry {
        LogEntry(
            position: Position(position), ends: .same(WallTime(milliseconds: 9_000_000)), project: 1,
            key: key, record: Sequence(record), ordinal: 0, bytes: 1, targets: device, body: [1])
    }

    private func positions(_ log: borrowing DeliveryLog) -> [UInt64] {
        log.durablyWaiting(for: 3, after: .zero, limit: 10).map(\.position.rawValue)
    }

    @Test("stays for its device until that record is durable")
    func untilDurable() {
        var log = DeliveryLog()
        for position in [10, 20] as [UInt64] { log.append(entry(position)) }
        log.removingRecord = Sequence(2)
        log.drop(device, upTo: Position(10)) { _, _ in }
        log.removingRecord = nil
        log.append(entry(30, record: 2))
        #expect(log.waiting(for: 3, after: .zero, limit: 10).map(\.position.rawValue) == [20, 30])
        #expect(positions(log) == [10, 20, 30])
        #expect(log.durablyWaiting(for: 4, after: .zero, limit: 10).isEmpty)
        #expect(log.durablyWaiting(for: 3, after: Position(10), limit: 1).map(\.position.rawValue) == [20])
        log.forgetRemovals(upTo: Sequence(1))
        #expect(positions(log) == [10, 20, 30])
        log.forgetRemovals(upTo: Sequence(2))
        #expect(positions(log) == [20, 30])
    }

    @Test("leaves nothing behind where the record is folded from the journal")
    func fromJournal() {
        var log = DeliveryLog()
        log.append(entry(10))
        log.drop(device, upTo: Position(10)) { _, _ in }
        #expect(positions(log).isEmpty && log.removals.isEmpty)
    }
}
