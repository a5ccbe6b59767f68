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
        #expect(harness.accepted == 1)
    }

    /// The devices of other partitions need not wait for a partition that is away. Its own devices get the
    /// message when it is back, also if the coordinator has changed meanwhile.
    @Test("reaches the others while a partition is away, and its devices later", arguments: [0, 1, 2])
    func away(successions: Int) throws {
        let (harness, other) = try harness()
        let home = harness.home("a")
        for (stream, partition) in [(1, home), (2, other)] as [(UInt64, PartitionID)] {
            let (device, credential) = try #require(harness.register(in: partition.rawValue))
            _ = harness.change(.subscribe, "b", [device])
            harness.listen(device, credential, stream: stream)
        }
        harness.settle()
        _ = harness.takeEvents()
        harness.away = [other]
        let key = RequestKey(session: 1 << 8, number: 1)
        #expect(harness.request(request(harness, key: key, "x"), of: home) == nil)
        harness.fireTimers(for: 7)
        #expect(harness.takeEvents().isEmpty && harness.accepted == 0)
        harness.fireTimers(for: 3)
        #expect(harness.takeEvents() == ["x"] && harness.accepted == 1)
        let undecided = harness.notices.compactMap { notice in
            if case .undecided(_, let at, isOver: false) = notice { at } else { nil }
        }
        #expect(undecided == [[other]])
        let second = harness.request(request(harness, "y"), of: home)
        #expect(second != nil && harness.takeEvents() == ["y"], "a later one waits no more")
        let coordinator = harness.partitions[Int(home.rawValue)]
        #expect(coordinator.unfinished(PartitionHarness.project) == (2, 2))
        #expect(coordinator.brokenInvariant(isWhole: true) == nil)
        // The gateway did not get the first answer.
        #expect(harness.request(request(harness, key: key, "x"), of: home) != nil)
        if successions > 0 { try harness.succeed(Int(home.rawValue)) }
        if successions > 1 { try harness.succeedFromSnapshot(Int(home.rawValue)) }
        harness.fireTimers(for: 20)
        #expect(harness.request(request(harness, "z"), of: home) != nil, "nor at the next owner")
        // The next owner has no stream of the first device yet.
        #expect(harness.takeEvents() == (successions == 0 ? ["z"] : []))
        comesBack(harness)
        #expect(harness.takeEvents() == ["x", "y", "z"] && harness.accepted == 4)
        let successor = harness.partitions[Int(home.rawValue)]
        #expect(successor.unfinished(PartitionHarness.project) == (0, 0))
        #expect(successor.brokenInvariant(isWhole: true) == nil)
    }

    /// Once the message's time is over, nobody can say for how many devices it was.
    @Test(
        "that a partition has not decided at its end goes to the others, and is counted", arguments: [0, 6])
    func undecided(ttl: UInt32) throws {
        let (harness, other) = try harness()
        let home = harness.home("a")
        let (device, credential) = try #require(harness.register(in: home.rawValue))
        _ = harness.change(.subscribe, "b", [device])
        harness.listen(device, credential, stream: 1)
        _ = harness.takeEvents()
        harness.away = [other]
        let send = Request.sendToCondition(
            nil, project: PartitionHarness.project, condition, harness.envelope("x", ttl: ttl),
            fanoutsMax: 10)
        #expect(harness.request(send, of: home) == nil)
        harness.fireTimers(for: 12)
        let isOver = harness.notices.contains { notice in
            if case .undecided(_, [other], isOver: true) = notice { true } else { false }
        }
        #expect(isOver && harness.accepted == 1)
        #expect(harness.takeEvents() == (ttl == 0 ? ["x"] : []))
        comesBack(harness)
        #expect(harness.takeEvents().isEmpty)
    }

    @Test("that a partition decides twice is no journal of ours")
    func misfit() throws {
        let (harness, other) = try harness()
        let home = harness.home("a")
        harness.away = [other]
        #expect(harness.request(request(harness, "x"), of: home) == nil)
        harness.fireTimers(for: 10)
        let partition = harness.partitions[Int(home.rawValue)]
        let ticket = try #require(partition.state.conditions.keys.first)
        func misfit(_ targets: [PartitionID], _ undecided: [PartitionID]) -> String? {
            let fact = Fact.resolve(
                ticket: ticket,
                targets: targets.map { PartitionTargets(partition: $0, devices: DeviceSet(1)) },
                undecided: undecided)
            return partition.state.misfit(fact, of: Sequence(1 << 20))
        }
        #expect(misfit([other], []) == nil && misfit([], [other]) == nil)
        #expect(misfit([home], []) == "a partition decides a condition again")
        #expect(misfit([], [home, other]) == "a partition decides a condition again")
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
        #expect(harness.accepted == 1, "the former owner's answers went with it")
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
    func invariants() throws {
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

extension PartitionHarness {
    fileprivate var accepted: Int {
        replies.values.count { if case .accepted = $0 { true } else { false } }
    }
}
