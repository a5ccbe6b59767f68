import Model
import Testing

@testable import Partitions

/// Where the two ends of a pair differ, the sender tells the pair again (rule: fingerprints-repair).
@Suite("Repair of pairs")
struct RepairTests {
    static let topics = (0..<12).map { "topic-\($0)" }

    /// A house whose partition 0 has devices in many topics.
    private func house(_ change: (inout PartitionOptions) -> Void = { _ in }) throws -> (
        House, [Registration]
    ) {
        let house = House(change)
        var devices: [Registration] = []
        for number in 0..<20 {
            let (device, _) = try #require(house.register(in: 0))
            devices.append(device)
            let mine = RepairTests.topics.enumerated().filter { ($0.offset + number) % 3 != 0 }
            for (_, topic) in mine { _ = house.change(.subscribe, topic, [device]) }
        }
        house.settle()
        return (house, devices)
    }

    /// The members that topic partitions have of partition 0's devices, by topic.
    private func members(_ house: House) -> [String: [UInt32]] {
        var members: [String: [UInt32]] = [:]
        for partition in house.partitions {
            for number in partition.state.topics.numbers {
                let found = partition.state.topics.members(number, of: PartitionID(0))
                if !found.isEmpty { members["\(house.names.name(number))"] = found }
            }
        }
        return members
    }

    /// Changes the pair of `topic`, so that its ends compare fingerprints.
    private func touch(_ house: House, _ device: Registration, _ topic: String) {
        _ = house.change(.subscribe, topic, [device])
        house.settle()
        _ = house.change(.unsubscribe, topic, [device])
        house.settle()
    }

    /// A topic of partition `home` to which no device is subscribed.
    private func topicOf(_ home: PartitionID, _ house: House) throws -> String {
        try #require((0..<1000).lazy.map { "other-\($0)" }.first { house.home($0) == home })
    }

    @Test(
        "a member that was lost comes back, a stranger goes, in one record or in many",
        arguments: [50_000, 4])
    func lostAndStrange(sliceMembers: Int) throws {
        let (house, devices) = try house { $0.repairSliceMembers = sliceMembers }
        let right = members(house)
        let topic = RepairTests.topics[3]
        let home = house.home(topic)
        let end = house.partitions[Int(home.rawValue)]
        let name = try #require(TopicName(topic))
        // One of the members is lost, and devices appear in a topic that nobody subscribed to.
        let lost = try #require(right[topic]?.last)
        let gone = end.state.topics.leave(house.names, House.project, name, PartitionID(0), [lost])
        let strange = try #require(
            (0..<1000).lazy.map { "strange-\($0)" }.first { house.home($0) == home }.flatMap { TopicName($0) }
        )
        let come = end.state.topics.join(house.names, House.project, strange, PartitionID(0), [1, 2, 3])
        end.state.marks[PartitionID(0)]?.fingerprint ^= gone ^ come
        #expect(members(house) != right)
        house.expectsDifferences = true
        touch(house, devices[1], try topicOf(home, house))
        #expect(house.differences == 1)
        #expect(members(house) == right)
        // The ends agree from now on.
        touch(house, devices[2], try topicOf(home, house))
        #expect(house.differences == 1)
        for number in 0..<house.count {
            #expect(
                try house.replayed(number).image() == house.partitions[number].image()
                    || number == home.rawValue)
        }
    }

    @Test("a wrong fingerprint on either side is counted anew", arguments: [true, false])
    func wrongFingerprint(atDevices: Bool) throws {
        let (house, devices) = try house()
        let right = members(house)
        let home = house.home(RepairTests.topics[5])
        if atDevices {
            house.partitions[0].state.outboxes[home]?.fingerprint ^= 0xBAD
        } else {
            house.partitions[Int(home.rawValue)].state.marks[PartitionID(0)]?.fingerprint ^= 0xBAD
        }
        house.expectsDifferences = true
        touch(house, devices[1], try topicOf(home, house))
        #expect(house.differences == 1)
        touch(house, devices[1], try topicOf(home, house))
        #expect(house.differences == 1)
        #expect(members(house) == right)
    }

    @Test("a pair that differs again at once is told of, and not told again before its time")
    func interval() throws {
        let (house, devices) = try house { $0.repairInterval = .seconds(3600) }
        let home = house.home(RepairTests.topics[5])
        let topic = try topicOf(home, house)
        house.expectsDifferences = true
        for round in 1...3 {
            house.partitions[Int(home.rawValue)].state.marks[PartitionID(0)]?.fingerprint ^=
                0xBAD << UInt64(round)
            touch(house, devices[1], topic)
            #expect(round == 1 ? house.differences == 1 : house.differences > 1)
        }
        let before = house.differences
        house.now.monotonic = house.now.monotonic.advanced(by: .seconds(3600))
        touch(house, devices[1], topic)
        let after = house.differences
        touch(house, devices[1], topic)
        #expect(after > before && house.differences == after)
    }

    @Test("without the rule the pair stays as it is: the planted bug shows")
    func planted() throws {
        let (house, devices) = try house { $0.planted = .noRepair }
        let home = house.home(RepairTests.topics[5])
        house.partitions[Int(home.rawValue)].state.marks[PartitionID(0)]?.fingerprint ^= 0xBAD
        house.expectsDifferences = true
        for _ in 0..<3 { touch(house, devices[1], try topicOf(home, house)) }
        #expect(house.differences > 3)
    }
}
