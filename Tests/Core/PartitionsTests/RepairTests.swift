import Model
import Testing

@testable import Partitions

/// Where the two ends of a pair differ, the sender tells the pair again (rule: fingerprints-repair).
@Suite("Repair of pairs")
struct RepairTests {
    static let topics = (0..<12).map { "topic-\($0)" }

    /// A harness whose partition 0 has devices in many topics.
    private func harness(_ change: (inout PartitionOptions) -> Void = { _ in }) throws -> (
        PartitionHarness, [Registration]
    ) {
        let harness = PartitionHarness(change)
        var devices: [Registration] = []
        for number in 0..<20 {
            let (device, _) = try #require(harness.register(in: 0))
            devices.append(device)
            let mine = RepairTests.topics.enumerated().filter { ($0.offset + number) % 3 != 0 }
            for (_, topic) in mine { _ = harness.change(.subscribe, topic, [device]) }
        }
        harness.settle()
        return (harness, devices)
    }

    /// The members that topic partitions have of partition 0's devices, by topic.
    private func members(_ harness: PartitionHarness) -> [String: [UInt32]] {
        var members: [String: [UInt32]] = [:]
        for partition in harness.partitions {
            for number in partition.state.topics.numbers {
                let found = partition.state.topics.members(number, of: PartitionID(0))
                if !found.isEmpty { members["\(harness.names.name(number))"] = found }
            }
        }
        return members
    }

    /// Changes the pair of `topic`, so that its ends compare fingerprints.
    private func touch(_ harness: PartitionHarness, _ device: Registration, _ topic: String) {
        _ = harness.change(.subscribe, topic, [device])
        harness.settle()
        _ = harness.change(.unsubscribe, topic, [device])
        harness.settle()
    }

    /// A topic of partition `home` to which no device is subscribed.
    private func topicOf(_ home: PartitionID, _ harness: PartitionHarness) throws -> String {
        try #require((0..<1000).lazy.map { "other-\($0)" }.first { harness.home($0) == home })
    }

    @Test(
        "a member that was lost comes back, a stranger goes, in one record or in many",
        arguments: [50_000, 4])
    func lostAndStrange(sliceMembers: Int) throws {
        let (harness, devices) = try harness { $0.repairSliceMembers = sliceMembers }
        let right = members(harness)
        let topic = RepairTests.topics[3]
        let home = harness.home(topic)
        let end = harness.partitions[Int(home.rawValue)]
        let name = try #require(TopicName(topic))
        // One of the members is lost, and devices appear in a topic that nobody subscribed to.
        let lost = try #require(right[topic]?.last)
        let gone = end.state.topics.leave(
            [lost], of: PartitionID(0), from: name, in: PartitionHarness.project, harness.names)
        let strange = try #require(
            (0..<1000).lazy.map { "strange-\($0)" }.first { harness.home($0) == home }.flatMap {
                TopicName($0)
            }
        )
        let come = end.state.topics.join(
            [1, 2, 3], of: PartitionID(0), to: strange, in: PartitionHarness.project, harness.names)
        end.state.marks[PartitionID(0)]?.fingerprint ^= gone ^ come
        #expect(members(harness) != right)
        harness.expectsDifferences = true
        touch(harness, devices[1], try topicOf(home, harness))
        #expect(harness.differences == 1)
        #expect(members(harness) == right)
        // The ends agree from now on.
        touch(harness, devices[2], try topicOf(home, harness))
        #expect(harness.differences == 1)
        for number in 0..<harness.count {
            #expect(
                try harness.replayed(number).image() == harness.partitions[number].image()
                    || number == home.rawValue)
        }
    }

    @Test("a wrong fingerprint on either side is counted again", arguments: [true, false])
    func wrongFingerprint(atDevices: Bool) throws {
        let (harness, devices) = try harness()
        let right = members(harness)
        let home = harness.home(RepairTests.topics[5])
        if atDevices {
            harness.partitions[0].state.outboxes[home]?.fingerprint ^= 0xBAD
        } else {
            harness.partitions[Int(home.rawValue)].state.marks[PartitionID(0)]?.fingerprint ^= 0xBAD
        }
        harness.expectsDifferences = true
        touch(harness, devices[1], try topicOf(home, harness))
        #expect(harness.differences == 1)
        touch(harness, devices[1], try topicOf(home, harness))
        #expect(harness.differences == 1)
        #expect(members(harness) == right)
    }

    @Test("a pair that differs again at once is told of, and not told again before its time")
    func interval() throws {
        let (harness, devices) = try harness { $0.repairInterval = .seconds(3600) }
        let home = harness.home(RepairTests.topics[5])
        let topic = try topicOf(home, harness)
        harness.expectsDifferences = true
        for round in 1...3 {
            harness.partitions[Int(home.rawValue)].state.marks[PartitionID(0)]?.fingerprint ^=
                0xBAD << UInt64(round)
            touch(harness, devices[1], topic)
            #expect(round == 1 ? harness.differences == 1 : harness.differences > 1)
        }
        let before = harness.differences
        harness.now.monotonic = harness.now.monotonic.advanced(by: .seconds(3600))
        touch(harness, devices[1], topic)
        let after = harness.differences
        touch(harness, devices[1], topic)
        #expect(after > before && harness.differences == after)
    }

    @Test("without the rule the pair stays as it is: the planted bug shows")
    func planted() throws {
        let (harness, devices) = try harness { $0.planted = .noRepair }
        let home = harness.home(RepairTests.topics[5])
        harness.partitions[Int(home.rawValue)].state.marks[PartitionID(0)]?.fingerprint ^= 0xBAD
        harness.expectsDifferences = true
        for _ in 0..<3 { touch(harness, devices[1], try topicOf(home, harness)) }
        #expect(harness.differences > 3)
    }
}
