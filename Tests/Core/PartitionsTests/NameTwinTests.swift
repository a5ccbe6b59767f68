import Model
import Testing

@testable import Partitions

/// The packed tables of names and of a device's topics, compared with plain dictionaries step by step.
@Suite("Names and topics")
struct NameTwinTests {
    private let names = TopicNames()

    private struct Name: Hashable {
        var project: UInt32
        var bytes: [UInt8]
    }

    @Test("names that a client has chosen for the format's hash lie apart in the table")
    func chosenNames() {
        let project = ProjectNumber(1)
        var found = 0
        var number = 0
        while found < 300 {
            let name = Array("t\(number)".utf8)
            number += 1
            guard TopicNames.hash(name, project) & 511 < 2 else { continue }
            found += 1
            _ = names.retain(name, in: project)
        }
        // Slots in a row that are taken, also across the end; no look-up walks further.
        var (longest, run) = (0, 0)
        for cell in Array(names.table) + Array(names.table) {
            run = cell == 0 ? 0 : run + 1
            longest = max(longest, run)
        }
        // With the format's hash the walk would be some 300 slots long.
        #expect(longest < 120, "\(longest)")
    }

    @Test("topic names are known by number for as long as somebody uses them", arguments: UInt64(1)...8)
    func topicNames(seed: UInt64) {
        var dice = Dice(seed)
        var twin: [Name: (number: TopicNumber, uses: Int)] = [:]
        // Long names, so that the table packs the bytes of forgotten names away within the run.
        let all = (0..<300).map { (index: Int) -> Name in
            let tail = [UInt8](repeating: UInt8(ascii: "x"), count: index % 7 == 0 ? 0 : 880)
            return Name(project: UInt32(1 + index % 3), bytes: Array("topic-\(index / 3)".utf8) + tail)
        }
        for step in 0..<1500 {
            // The table fills, empties and fills again.
            let fills = (step / 250) % 2 == 0
            let name = dice.one(of: all)
            let project = ProjectNumber(name.project)
            if dice.chance(fills ? 7 : 1, in: 8) {
                let number = names.retain(name.bytes, in: project)
                if let known = twin[name] {
                    #expect(number == known.number, "seed \(seed), step \(step)")
                } else {
                    let taken = twin.values.contains { $0.number == number }
                    #expect(!taken, "seed \(seed), step \(step): a number for two names")
                }
                twin[name] = (number, (twin[name]?.uses ?? 0) + 1)
            } else if let known = twin[name] {
                for _ in 0..<(dice.chance(3, in: 4) ? known.uses : 1) {
                    names.release(known.number)
                    let left = (twin[name]?.uses ?? 1) - 1
                    twin[name] = left > 0 ? (known.number, left) : nil
                }
            }
            if let known = twin[name], dice.chance(1, in: 8) {
                names.retain(known.number)
                twin[name]?.uses += 1
            }
            #expect(names.count == twin.count, "seed \(seed), step \(step)")
            let probe = dice.one(of: all)
            let found = names.number(of: probe.bytes, in: ProjectNumber(probe.project))
            #expect(found == twin[probe]?.number, "seed \(seed), step \(step)")
            if step % 100 == 99 { compareAll(names, twin, "seed \(seed), step \(step)") }
        }
    }

    private func compareAll(
        _ names: TopicNames, _ twin: [Name: (number: TopicNumber, uses: Int)], _ comment: Comment
    ) {
        for (name, known) in twin {
            #expect(Array(names.nameBytes(known.number)) == name.bytes, comment)
            #expect(names.project(of: known.number).rawValue == name.project, comment)
        }
    }

    @Test("the bytes of forgotten names do not pile up")
    func forgottenNames() {
        for round in 0..<2000 {
            let bytes = Array("round \(round) ".utf8) + Array(repeating: 0x78, count: 800)
            names.release(names.retain(bytes, in: ProjectNumber(1)))
        }
        #expect(names.count == 0)
        #expect(names.bytesHeld < 400_000)
    }

    @Test("a device's topics are what a dictionary would hold", arguments: UInt64(1)...12)
    func deviceTopics(seed: UInt64) {
        var dice = Dice(seed)
        var topics = DeviceTopics()
        defer { topics.destroy() }
        var twin: [TopicNumber: Day] = [:]
        let bound = dice.one(of: [3, 8, 60, 5000])
        for step in 0..<700 {
            let shrinks = (step / 150) % 2 == 1
            let topic = TopicNumber(rawValue: dice.chance(1, in: 9) ? .max : UInt32(dice.below(bound)))
            if let index = topics.index(of: topic) {
                #expect(topics[index].since == twin[topic], "seed \(seed), step \(step)")
                if shrinks || dice.chance(1, in: 3) {
                    topics.remove(at: index)
                    twin[topic] = nil
                }
            } else {
                #expect(twin[topic] == nil, "seed \(seed), step \(step)")
                if !shrinks || dice.chance(1, in: 5) {
                    let day = Day(UInt16(dice.below(65_536)))
                    topics.append(topic, since: day)
                    twin[topic] = day
                }
            }
            if shrinks, topics.count > 0 {
                let index = dice.below(topics.count)
                twin[topics[index].topic] = nil
                topics.remove(at: index)
            }
            #expect(topics.count == twin.count, "seed \(seed), step \(step)")
            var held: [TopicNumber: Day] = [:]
            for index in 0..<topics.count { held[topics[index].topic] = topics[index].since }
            #expect(held == twin, "seed \(seed), step \(step)")
        }
    }

    @Test("a device can have as many topics as the limit allows")
    func manyTopics() {
        var topics = DeviceTopics()
        defer { topics.destroy() }
        let most = DeliveryLimits().topicsPerDeviceMax
        for number in 0..<most { topics.append(TopicNumber(rawValue: UInt32(number)), since: Day(1)) }
        #expect(topics.count == most)
        for number in 0..<most {
            #expect(topics.index(of: TopicNumber(rawValue: UInt32(number))) == number)
        }
        while topics.count > 0 { topics.remove(at: 0) }
        #expect(topics.index(of: TopicNumber(rawValue: 0)) == nil)
    }
}
