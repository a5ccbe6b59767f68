import Model
import Testing

@testable import Partitions

/// Conditions are decided at the device partitions, and what a read says rests on both ends of a pair.
@Suite("A condition") struct ConditionTests {
    private let condition = Condition(
        topics: ["a", "b"].compactMap { TopicName($0) }, root: .or(.topic(0), .topic(1)))

    private func request(_ harness: PartitionHarness, key: RequestKey? = nil, _ text: String) -> Request {
        .sendToCondition(
            key, project: PartitionHarness.project, condition, harness.envelope(text), fanoutsMax: 10)
    }

    /// Four partitions, of which a fourth is home to neither topic.
    private func harness(_ planted: PlantedBug = []) throws -> (PartitionHarness, PartitionID) {
        let harness = PartitionHarness { $0.planted = planted }
        let homes = [harness.home("a"), harness.home("b")]
        let other = try #require((0..<4).map { PartitionID($0) }.first { !homes.contains($0) })
        return (harness, other)
    }

    /// The partition comes back, and is asked again.
    private func comesBack(_ harness: PartitionHarness) {
        harness.away = []
        for _ in 0..<3 {
            harness.now = Instant(
                monotonic: harness.now.monotonic.advanced(by: .seconds(2)), wall: harness.now.wall)
            harness.fireTimers()
        }
    }

    /// The device swaps one topic for the other, so it has one of them at each moment. Before, each topic's
    /// members were read at another moment, and such a device was in neither set.
    @Test("reaches a device that swaps the topics, and answers when all devices are decided")
    func swap() throws {
        let (harness, other) = try harness()
        let (device, credential) = try #require(harness.register(in: other.rawValue))
        _ = harness.change(.subscribe, "b", [device])
        harness.listen(device, credential, stream: 1)
        _ = harness.takeEvents()
        harness.away = [other]
        let key = RequestKey(session: 1 << 8, number: 1)
        #expect(harness.request(request(harness, key: key, "x"), of: harness.home("a")) == nil)
        harness.away = []
        #expect(harness.change(.subscribe, "a", [device]) != nil)
        #expect(harness.change(.unsubscribe, "b", [device]) != nil)
        #expect(harness.takeEvents().isEmpty)
        comesBack(harness)
        #expect(harness.takeEvents() == ["x"])
        let isAnswered = harness.replies.values.contains { if case .accepted = $0 { true } else { false } }
        #expect(isAnswered)
    }

    /// A gateway that got no answer asks again under the same number.
    @Test("answers a repeated send when the first is decided")
    func repeated() throws {
        let (harness, other) = try harness()
        harness.away = [other]
        let key = RequestKey(session: 1 << 8, number: 1)
        let send = request(harness, key: key, "x")
        let home = harness.home("a")
        #expect(harness.request(send, of: home) == nil && harness.request(send, of: home) == nil)
        try harness.succeed(Int(home.rawValue))
        #expect(harness.request(send, of: home) == nil, "nor does the next owner")
        comesBack(harness)
        let answered = harness.replies.values.filter { if case .accepted = $0 { true } else { false } }
        #expect(answered.count == 1, "the former owner's answers went with it")
        guard case .accepted = harness.request(send, of: home) else {
            Issue.record("a decided send is answered at once")
            return
        }
    }

    /// The topic's partition has not heard of the change, so a send to the topic would not count it yet.
    @Test("and a read of a device's topics wait for the topics' partitions", arguments: [false, true])
    func reads(isPlanted: Bool) throws {
        let (harness, other) = try harness(isPlanted ? .readAhead : [])
        let (device, _) = try #require(harness.register(in: other.rawValue))
        let (still, _) = try #require(harness.register(in: other.rawValue))
        let home = harness.home("b")
        harness.away = [home]
        #expect(harness.change(.subscribe, "b", [device]) == nil)
        let read = Request.subscriptions(of: device, by: .backend)
        #expect((harness.request(read, of: other) != nil) == isPlanted)
        #expect(harness.request(.subscriptions(of: still, by: .backend), of: other) != nil)
        let coordinator = harness.home("a") == home ? other : harness.home("a")
        #expect(harness.request(request(harness, "x"), of: coordinator) == nil)
        comesBack(harness)
        #expect(harness.replies.values.contains { if case .accepted = $0 { true } else { false } })
        guard case .subscriptions(let topics) = harness.request(read, of: other) else {
            Issue.record("the read is answered")
            return
        }
        #expect(topics.count == 1)
    }

    /// Each of the sets is made once, and follows each change.
    @Test("knows the devices of its topics through changes")
    func held() throws {
        let harness = PartitionHarness(count: 1)
        let devices = try (0..<40).map { _ in try #require(harness.register(in: 0)).0 }
        let partition = harness.partitions[0]
        let name = try #require(TopicName("a"))
        func members() -> [UInt32] {
            partition.state.devices(with: name, in: PartitionHarness.project).sorted
        }
        #expect(members().isEmpty)
        _ = harness.change(.subscribe, "a", Array(devices[..<30]))
        #expect(members() == Array(0..<30))
        _ = harness.change(.unsubscribe, "a", Array(devices[..<10]))
        _ = harness.change(.subscribe, "b", devices)
        _ = harness.request(.unregister(devices[20], by: .backend), of: PartitionID(0))
        #expect(members() == (10..<30).filter { $0 != 20 })
        for number in 0..<(2 * HeldTopics.topicsMax) {
            _ = harness.change(.subscribe, "t\(number)", [devices[1]])
            let other = try #require(TopicName("t\(number)"))
            #expect(partition.state.devices(with: other, in: PartitionHarness.project).sorted == [1])
        }
        #expect(partition.brokenInvariant(isWhole: true) == nil)
        #expect(members() == (10..<30).filter { $0 != 20 })
    }

    @Test("of a set of devices that is wrong is seen")
    func laws() throws {
        let harness = PartitionHarness(count: 1)
        let (device, _) = try #require(harness.register(in: 0))
        _ = harness.change(.subscribe, "a", [device])
        let name = try #require(TopicName("a"))
        let partition = harness.partitions[0]
        _ = partition.state.devices(with: name, in: PartitionHarness.project)
        let number = try #require(partition.state.names.number(of: name.utf8, in: PartitionHarness.project))
        let whole = partition.state.held
        partition.state.held.remove(device.index.rawValue, from: number)
        #expect(
            partition.brokenInvariant(isWhole: true)
                == "the set of topic \(number.rawValue) is not what its devices say")
        partition.state.held = whole
        partition.state.held.add(device.index.rawValue, to: number)
        partition.state.held.order.append(7)
        #expect(partition.brokenInvariant(isWhole: true) == "sets of topics are not in order")
        partition.state.held = HeldTopics()
        for number in 0...UInt32(HeldTopics.topicsMax) {
            partition.state.held.order.append(number)
            partition.state.held.sets[number] = Bitmap()
        }
        #expect(partition.brokenInvariant(isWhole: true) == "more topics have a set than may")
    }
}
