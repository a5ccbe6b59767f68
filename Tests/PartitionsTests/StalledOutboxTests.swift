import Model
import Testing

@testable import Partitions

/// An outbox whose receiver has an owner and takes nothing (rule: outboxes-move).
@Suite("An outbox that stands still")
struct StalledOutboxTests {
    private let harness = PartitionHarness { $0.outboxStallMax = .seconds(10) }
    private let home: PartitionID
    private let topic: String
    private var stalls: PartitionNotice { .outboxStalls(to: home) }
    private var moves: PartitionNotice { .outboxMoves(to: home) }

    /// A device subscribes while the topic's partition hears nothing.
    init() throws {
        let harness = harness
        topic = try #require((0..<100).map { "topic-\($0)" }.first { harness.home($0).rawValue != 0 })
        home = harness.home(topic)
        let (device, _) = try #require(harness.register(in: 0))
        harness.away = [home]
        _ = harness.change(.subscribe, topic, [device])
    }

    private func pass(_ seconds: Int) {
        for _ in 0..<seconds {
            harness.now.monotonic = harness.now.monotonic.advanced(by: .seconds(1))
            harness.fireTimers()
        }
    }

    @Test("is told once after its bound, and told again when it moves")
    func told() {
        pass(10)
        #expect(!harness.notices.contains(stalls))
        pass(20)
        #expect(harness.notices.count { $0 == stalls } == 1 && !harness.notices.contains(moves))
        let waiting = harness.partitions[0].waitingEntries
        #expect(waiting.map(\.receiver) == [home])
        harness.away = []
        pass(2)
        #expect(harness.notices.count { $0 == moves } == 1)
        #expect(harness.partitions[0].waitingEntries.isEmpty)
    }

    @Test("is offered again each second, and told, also while new entries come")
    func busy() throws {
        for number in 0..<30 {
            harness.now.monotonic = harness.now.monotonic.advanced(by: .milliseconds(500))
            harness.fireTimers()
            let (device, _) = try #require(harness.register(in: 0))
            _ = harness.change(.subscribe, topic, [device])
            // One frame was lost: what comes behind it does not fit.
            if number == 2 { harness.away = [] }
            if number > 5 {
                #expect(harness.partitions[0].waitingEntries.isEmpty, "after \(number) entries")
            }
        }
    }

    @Test("is none while its receiver has no owner; the bound counts from the owner on")
    func unowned() {
        harness.partitions[0].unowned.insert(home)
        pass(60)
        #expect(!harness.notices.contains(stalls))
        harness.partitions[0].unowned.remove(home)
        pass(9)
        #expect(!harness.notices.contains(stalls))
        pass(5)
        #expect(harness.notices.contains(stalls))
        harness.partitions[0].unowned.insert(home)
        pass(2)
        #expect(harness.notices.contains(moves), "nobody is to blame now")
    }

    @Test("is none where it is long and moves")
    func moving() throws {
        for _ in 0..<30 {
            harness.away = []
            pass(1)
            harness.away = [home]
            let (device, _) = try #require(harness.register(in: 0))
            _ = harness.change(.subscribe, topic, [device])
            pass(1)
        }
        #expect(!harness.notices.contains(stalls))
    }
}
