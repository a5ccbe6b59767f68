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

    @Test("is told once after its bound, and told again when it moves")
    func told() {
        harness.fireTimers(for: 10)
        #expect(!harness.notices.contains(stalls))
        harness.fireTimers(for: 20)
        #expect(harness.notices.count { $0 == stalls } == 1 && !harness.notices.contains(moves))
        let waiting = harness.partitions[0].waitingEntries
        #expect(waiting.map(\.receiver) == [home])
        harness.away = []
        harness.fireTimers(for: 2)
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
        harness.fireTimers(for: 60)
        #expect(!harness.notices.contains(stalls))
        harness.partitions[0].unowned.remove(home)
        harness.fireTimers(for: 9)
        #expect(!harness.notices.contains(stalls))
        harness.fireTimers(for: 5)
        #expect(harness.notices.contains(stalls))
        harness.partitions[0].unowned.insert(home)
        harness.fireTimers(for: 2)
        #expect(harness.notices.contains(moves), "nobody is to blame now")
    }

    @Test("is none where it is long and moves")
    func moving() throws {
        for _ in 0..<30 {
            harness.away = []
            harness.fireTimers(for: 1)
            harness.away = [home]
            let (device, _) = try #require(harness.register(in: 0))
            _ = harness.change(.subscribe, topic, [device])
            harness.fireTimers(for: 1)
        }
        #expect(!harness.notices.contains(stalls))
    }
}

/// A condition that a partition with an owner does not answer (rule: outboxes-move).
@Suite("A condition that stands still")
struct StalledConditionTests {
    private let harness = PartitionHarness { $0.outboxStallMax = .seconds(10) }
    private let home: PartitionID
    private let silent: PartitionID
    private var stalls: PartitionNotice { .conditionStalls(at: silent) }
    private var moves: PartitionNotice { .conditionMoves(at: silent) }

    /// A partition without a part in the condition's topics hears nothing.
    init() throws {
        let harness = harness
        home = harness.home("a")
        let homes = [home, harness.home("b")]
        silent = try #require((0..<4).map { PartitionID($0) }.first { !homes.contains($0) })
        harness.away = [silent]
    }

    private func send(ttl: UInt32 = 3600) {
        let condition = Condition(
            topics: ["a", "b"].compactMap { TopicName($0) }, root: .or(.topic(0), .topic(1)))
        let envelope = harness.envelope("x", ttl: ttl)
        _ = harness.request(
            .sendToCondition(
                nil, project: PartitionHarness.project, condition, envelope, fanoutsMax: 10), of: home)
    }

    @Test("is told once after its bound, and told again when the partition answers")
    func told() {
        send()
        harness.fireTimers(for: 9)
        send()
        #expect(!harness.notices.contains(stalls))
        harness.fireTimers(for: 20)
        #expect(harness.notices.count { $0 == stalls } == 1 && !harness.notices.contains(moves))
        harness.away = []
        harness.fireTimers(for: 3)
        #expect(harness.notices.count { $0 == moves } == 1)
        #expect(harness.notices.count { if case .conditionStalls = $0 { true } else { false } } == 1)
    }

    @Test("is over when the message is, and none where the message is over first")
    func over() {
        send(ttl: 5)
        harness.fireTimers(for: 20)
        #expect(!harness.notices.contains(stalls))
        send(ttl: 20)
        harness.fireTimers(for: 30)
        #expect(harness.notices.filter { $0 == stalls || $0 == moves } == [stalls, moves])
    }

    @Test("is none while the partition, or a topic's partition, has no owner; then the bound begins again")
    func unowned() {
        send()
        for id in [silent, home] {
            harness.partitions[Int(home.rawValue)].unowned.insert(id)
            harness.fireTimers(for: 60)
            #expect(!harness.notices.contains(stalls))
            harness.partitions[Int(home.rawValue)].unowned.remove(id)
            harness.fireTimers(for: 8)
            #expect(!harness.notices.contains(stalls))
        }
        harness.fireTimers(for: 5)
        #expect(harness.notices.contains(stalls))
        harness.partitions[Int(home.rawValue)].unowned.insert(silent)
        harness.fireTimers(for: 2)
        #expect(harness.notices.contains(moves), "nobody is to blame now")
    }
}
