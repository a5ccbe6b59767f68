import Model
import Testing

@testable import Partitions

/// One of several databases loses its end, the others do not (rule: lost-ends-raise-the-generation). The
/// partitions must then fit together again.
@Suite("A database that lost its end, of several")
struct LostEndTests {
    /// Partitions in databases of their own, with random subscriptions of devices and random sends.
    private struct PairHarness {
        let harness: PartitionHarness
        var dice: Dice
        var devices: [Registration] = []
        var generation: UInt64 = 0
        var probes = 0
        static let topics = (0..<6).map { "topic-\($0)" }

        init(_ seed: UInt64, _ planted: PlantedBug) {
            harness = PartitionHarness {
                $0.databaseCount = 4
                $0.planted = planted
            }
            harness.expectsDifferences = true
            dice = Dice(seed)
        }

        mutating func act() {
            let partition = UInt16(dice.below(4))
            let there = devices.filter { $0.partition.rawValue == partition && dice.chance(1, in: 2) }
            let topic = dice.one(of: PairHarness.topics)
            switch dice.below(10) {
            case 0..<2: if let device = harness.register(in: partition)?.0 { devices.append(device) }
            case 2..<6: _ = harness.change(.subscribe, topic, there)
            case 6..<8: _ = harness.change(.unsubscribe, topic, there)
            case 8: harness.publish("m", to: topic)
            default: harness.settle()
            }
        }

        /// Some journals lose their last records, and all partitions get new owners.
        mutating func loseEnds() throws {
            for number in 0..<4 where dice.chance(1, in: 2) {
                let kept = max(1, harness.journal[number].count - dice.below(20))
                harness.journal[number].removeSubrange(kept...)
            }
            generation += 1
            try harness.succeedAll(generation: generation)
            for _ in 0..<3 { harness.settle() }
            devices.removeAll {
                harness.partitions[Int($0.partition.rawValue)].lists($0.index.rawValue) == nil
            }
        }

        /// The differences between partitions; empty where all fit together.
        mutating func problems() -> [String] {
            var found: [String] = []
            for topic in PairHarness.topics {
                let home = harness.partitions[Int(harness.home(topic).rawValue)]
                for partition in harness.partitions {
                    let members = home.members(of: topic, in: partition.id)
                    let subscribed = partition.subscribers(of: topic)
                    if members != subscribed {
                        found.append(
                            "\(topic): \(members) of \(partition.id) where \(subscribed) are subscribed")
                    }
                }
                probes += 1
                harness.publish("probe \(probes)", to: topic)
                harness.settle()
                for device in devices {
                    let partition = harness.partitions[Int(device.partition.rawValue)]
                    let isSubscribed = partition.lists(device.index.rawValue)?.contains(topic) ?? false
                    let came = partition.waiting(device.index.rawValue).count { $0 == "probe \(probes)" }
                    if came != (isSubscribed ? 1 : 0) {
                        found.append("\(topic): came \(came) times to a device, subscribed: \(isSubscribed)")
                    }
                }
            }
            return found
        }
    }

    private func run(_ seed: UInt64, _ planted: PlantedBug = []) throws -> [String] {
        var harness = PairHarness(seed, planted)
        for _ in 0..<3 {
            for _ in 0..<40 { harness.act() }
            try harness.loseEnds()
            let problems = harness.problems()
            if !problems.isEmpty { return problems }
        }
        return []
    }

    @Test("fits together again", arguments: 1...60 as ClosedRange<UInt64>)
    func fits(_ seed: UInt64) throws {
        let problems = try run(seed)
        #expect(problems.isEmpty, "seed \(seed): \(problems)")
    }

    @Test("applies nothing of a generation that is over")
    func former() throws {
        let harness = PartitionHarness { $0.databaseCount = 4 }
        let topic = try #require(PairHarness.topics.first { harness.home($0).rawValue != 0 })
        let (device, _) = try #require(harness.register(in: 0))
        _ = harness.change(.subscribe, topic, [device])
        let home = harness.partitions[Int(harness.home(topic).rawValue)]
        let entry = { (number: UInt64) in
            OutboxEntry(
                number: Sequence(number), predecessor: harness.mark(of: 0, at: Int(home.id.rawValue)),
                items: [
                    .leave(
                        project: PartitionHarness.project, topic: TopicName(checked: Array(topic.utf8)),
                        indices: [0])
                ],
                fingerprint: 0)
        }
        try harness.succeedAll(generation: 1)
        let successor = harness.partitions[Int(home.id.rawValue)]
        for generation in [0, 1] as [UInt64] {
            let late = OutboxFrame(
                from: PartitionID(0), history: History(100), generation: generation,
                clock: harness.now.wall, entries: [entry(900)])
            harness.send(.offered(late), to: home.id)
            #expect(successor.members(of: topic, in: PartitionID(0)) == (generation == 0 ? [0] : []))
        }
    }

    @Test("believes no late word about what may have been lost since")
    func lateWord() throws {
        let harness = PartitionHarness { $0.databaseCount = 4 }
        harness.expectsDifferences = true
        let topic = try #require(PairHarness.topics.first { harness.home($0).rawValue != 0 })
        let (device, _) = try #require(harness.register(in: 0))
        try harness.succeedAll(generation: 1)
        // The topic partition has folded the change, and its journal does not have the change yet.
        harness.holdsAppends = true
        _ = harness.change(.subscribe, topic, [device])
        harness.releaseAppends(1)
        let (sender, home) = (harness.partitions[0], harness.home(topic))
        let last = try #require(sender.state.outboxes[home]?.unacknowledged.last?.number)
        for generation in [0, 1] as [UInt64] {
            let said = OutboxAcknowledgement(
                from: home, history: History(100), generation: generation, mark: last, fingerprint: 0)
            harness.send(.acknowledged(said), to: PartitionID(0))
            #expect((sender.acknowledged[home] == last) == (generation == 1))
        }
    }

    @Test(
        "is noticed not to, where a rule is broken",
        arguments: [[.keepNumbers, .denyNothing], PlantedBug.skipComparison])
    func planted(_ bug: PlantedBug) throws {
        #expect(try (1...60).contains { try run($0, bug) != [] })
    }
}

extension Partition {
    fileprivate func lists(_ index: UInt32) -> Set<String>? {
        guard let (page, slot) = state.devices.find(index) else { return nil }
        let list = page.topics[slot]
        return Set(
            (0..<list.count).map { String(decoding: state.names.nameBytes(list[$0].topic), as: UTF8.self) })
    }

    fileprivate func subscribers(of topic: String) -> [UInt32] {
        var found: [UInt32] = []
        state.devices.forEach { index, _, _ in
            if lists(index)?.contains(topic) ?? false { found.append(index) }
            return true
        }
        return found
    }

    fileprivate func members(of topic: String, in partition: PartitionID) -> [UInt32] {
        guard let number = state.names.number(of: Array(topic.utf8), in: PartitionHarness.project) else {
            return []
        }
        return state.topics.members(number, of: partition)
    }

    fileprivate func waiting(_ index: UInt32) -> [String] {
        state.log.waiting(for: index, after: .zero, limit: 1000).map {
            String(decoding: $0.body ?? [], as: UTF8.self)
        }
    }
}

@Suite("The comparison of partitions")
struct ComparisonTurnTests {
    @Test("goes on with the next ones while the first do not answer")
    func turns() throws {
        let harness = PartitionHarness(count: 6) {
            $0.databaseCount = 3
            $0.comparedAtOnce = 2
        }
        // All partitions of database 1.
        harness.away = [PartitionID(1), PartitionID(4)]
        try harness.succeedAll(generation: 1)
        for _ in 0..<6 { harness.settle() }
        let left = (0..<6).filter { harness.partitions[0].isBeingCompared(PartitionID($0)) }
        #expect(left == [1, 4])
    }
}
