import Bytes
import Model
import Testing

@testable import Partitions

/// An outbox and its receiver's mark do not fit together, because an owner of another cluster has taken part
/// (rule: denied-marks).
@Suite("An outbox whose receiver's mark does not fit it")
struct StrangeMarkTests {
    private let harness = PartitionHarness()
    private let home: PartitionID
    private let topics: [String]
    private var receiver: Partition { harness.partitions[Int(home.rawValue)] }

    init() {
        let harness = harness
        let first = (0..<100).map { "topic-\($0)" }.first { harness.home($0).rawValue != 0 } ?? ""
        home = harness.home(first)
        topics = (0..<1000).map { "topic-\($0)" }.filter { [home] in harness.home($0) == home }
        harness.expectsDifferences = true
    }

    private func members(_ topic: String) -> [UInt32] {
        guard let number = harness.names.number(of: Array(topic.utf8), in: PartitionHarness.project) else {
            return []
        }
        return receiver.state.topics.members(number, of: PartitionID(0))
    }

    /// The receiver's mark as a stranger has left it, in memory and in what it has told.
    private func setMark(_ change: (inout InboxMark) -> Void) throws {
        var mark = try #require(receiver.state.marks[PartitionID(0)])
        change(&mark)
        receiver.state.marks[PartitionID(0)] = mark
        receiver.durableMarks[PartitionID(0)] = mark
    }

    /// What is accepted leaves the outbox, and the receiver has it.
    private func expectFlow() throws {
        let (device, _) = try #require(harness.register(in: 0))
        for topic in topics.prefix(3) {
            let request = harness.change(.subscribe, topic, [device])
            harness.fireTimers(for: 3)
            #expect(request != nil || members(topic).contains(device.index.rawValue))
        }
        for topic in topics.prefix(3) { #expect(members(topic).contains(device.index.rawValue)) }
        #expect(harness.partitions[0].state.outboxes[home]?.isEmpty ?? true)
        harness.publish("hello", to: topics[0])
        harness.fireTimers(for: 2)
        #expect(receiver.state.outboxes[PartitionID(0)]?.isEmpty ?? true)
        #expect(harness.waitingCount(0, device.index.rawValue) == 1)
    }

    private func subscribeOne() throws -> Registration {
        let (device, _) = try #require(harness.register(in: 0))
        _ = harness.change(.subscribe, topics[0], [device])
        return device
    }

    /// A device subscribes while the topic's partition hears nothing.
    private func subscribeUnheard() throws -> Registration {
        harness.away = [home]
        let (device, _) = try #require(harness.register(in: 0))
        _ = harness.change(.subscribe, topics[1], [device])
        return device
    }

    @Test("flows again where the mark is ahead of all that was sent")
    func ahead() throws {
        _ = try subscribeOne()
        try setMark { $0.number = Sequence($0.number.rawValue + 1000) }
        try expectFlow()
        #expect(harness.notices.contains(.markMended(of: PartitionID(0))))
    }

    @Test("flows again where the mark is between two entries")
    func between() throws {
        _ = try subscribeOne()
        let device = try subscribeUnheard()
        harness.away = []
        try setMark { $0.number = Sequence($0.number.rawValue + 1) }
        harness.fireTimers(for: 2)
        #expect(members(topics[1]) == [device.index.rawValue])
        try expectFlow()
    }

    @Test("flows again where the mark is of a generation that never was")
    func generation() throws {
        _ = try subscribeOne()
        try setMark { $0.generation += 3 }
        try expectFlow()
        #expect(harness.notices.contains(.markMended(of: PartitionID(0))))
    }

    @Test("flows again where the mark is of another history")
    func history() throws {
        _ = try subscribeOne()
        try setMark { $0.history = History(999) }
        try expectFlow()
        #expect(harness.notices.contains(.markMended(of: PartitionID(0))))
    }

    @Test("is said to be mended when the record of it is durable: a former owner's never is")
    func saidLate() throws {
        _ = try subscribeOne()
        harness.holdsAppends = true
        let frame = OutboxFrame(
            from: PartitionID(0), history: History(5), clock: WallTime(milliseconds: 1), entries: [])
        receiver.mend(frame)
        // Bookkeeping waits a while for other records.
        harness.fireTimers(for: 2)
        var effects: [PartitionEffect] = []
        receiver.flush(now: harness.now, into: &effects)
        harness.carryOut(effects, of: home)
        harness.fireTimers(for: 2)
        #expect(!harness.notices.contains(.markMended(of: PartitionID(0))))
        harness.releaseAppends()
        #expect(harness.notices.contains(.markMended(of: PartitionID(0))))
    }

    @Test("flows again where the receiver lacks what a stranger has acknowledged")
    func acknowledgedByStranger() throws {
        _ = try subscribeOne()
        let device = try subscribeUnheard()
        let sender = harness.partitions[0]
        let last = try #require(sender.state.outboxes[home]?.unacknowledged.last)
        let said = OutboxAcknowledgement(
            from: home, history: sender.history, generation: 0, mark: last.number,
            fingerprint: last.fingerprint)
        harness.send(.acknowledged(said), to: PartitionID(0))
        harness.away = []
        #expect(members(topics[1]) == [])
        try expectFlow()
        #expect(members(topics[1]).contains(device.index.rawValue), "the pair is told again")
        #expect(harness.notices.contains(.markMended(of: PartitionID(0))))
    }

    @Test("is read as it was written where it denies a mark, and not where it is cut short")
    func wire() throws {
        var frame = OutboxFrame(
            from: PartitionID(1), history: History(5), clock: WallTime(milliseconds: 1), entries: [])
        frame.denied = ToldMark(history: History(9), generation: 300, number: Sequence(70))
        var writer = ByteWriter()
        PartitionEvent.offered(frame).encode(into: &writer)
        var reader = ByteReader(writer.bytes)
        guard case .offered(let read) = try PartitionEvent.decode(from: &reader) else {
            Issue.record("no frame")
            return
        }
        #expect(read.denied == frame.denied && read.history == frame.history && reader.isAtEnd)
        for length in 0..<writer.count {
            var reader = ByteReader(Array(writer.bytes[..<length]))
            #expect(throws: DecodeError.self) { try PartitionEvent.decode(from: &reader) }
        }
    }

    @Test("stays as it is without the rule: the planted bug shows")
    func planted() throws {
        let harness = PartitionHarness { $0.planted = .denyNothing }
        let (device, _) = try #require(harness.register(in: 0))
        let topic = try #require((0..<100).map { "topic-\($0)" }.first { harness.home($0).rawValue != 0 })
        let receiver = harness.partitions[Int(harness.home(topic).rawValue)]
        _ = harness.change(.subscribe, topic, [device])
        receiver.state.marks[PartitionID(0)]?.generation = 3
        receiver.durableMarks[PartitionID(0)]?.generation = 3
        _ = harness.change(.unsubscribe, topic, [device])
        for _ in 0..<3 { harness.settle() }
        #expect(!(harness.partitions[0].state.outboxes[receiver.id]?.isEmpty ?? true))
    }

    @Test("moves for no acknowledgement ahead of what was sent")
    func aheadOfSent() throws {
        _ = try subscribeOne()
        let sender = harness.partitions[0]
        let known = sender.acknowledged[home]
        for number in [1, 1000] as [UInt64] {
            let said = OutboxAcknowledgement(
                from: home, history: sender.history, generation: 0,
                mark: Sequence(sender.applied.rawValue + number), fingerprint: 0)
            harness.send(.acknowledged(said), to: PartitionID(0))
        }
        #expect(sender.acknowledged[home] == known)
        try expectFlow()
    }
}
