import Model
import Testing

@testable import Partitions

/// The maps that find without hashing, compared with dictionaries.
@Suite("Maps that find without hashing") struct MapTwinTests {
    @Test(
        "of recent keys hold what a dictionary holds", arguments: 1...20 as ClosedRange<UInt64>
    )
    func recentMap(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var map = RecentMap<UInt32, Int>()
        var twin: [UInt32: Int] = [:]
        for step in 0..<2_000 {
            let key = UInt32(random.next() % 12)
            switch random.next() % 5 {
            case 0:
                map[key] = nil
                twin[key] = nil
            case 1:
                map[key] = step
                twin[key] = step
            case 2:
                map[key, default: 7] += 1
                twin[key, default: 7] += 1
            case 3:
                map.update(key) { value in
                    value -= 1
                    return value > 3
                }
                if let value = twin[key] { twin[key] = value - 1 > 3 ? value - 1 : nil }
            default: #expect(map[key] == twin[key], "seed \(seed), step \(step)")
            }
            #expect(map.count == twin.count && map.isEmpty == twin.isEmpty, "seed \(seed), step \(step)")
        }
        #expect(map.sorted(by: <).map(\.key) == twin.keys.sorted(), "seed \(seed)")
        #expect(map.sorted(by: <).map(\.value) == twin.sorted { $0.key < $1.key }.map(\.value))
    }

    @Test(
        "of partitions hold what a dictionary holds",
        arguments: 1...20 as ClosedRange<UInt64>)
    func partitionMap(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var map = PartitionMap<[UInt64]>()
        var twin: [PartitionID: [UInt64]] = [:]
        for step in 0..<2_000 {
            let partition = PartitionID(UInt16(random.next() % 300))
            switch random.next() % 4 {
            case 0:
                map[partition] = nil
                twin[partition] = nil
            case 1:
                map[partition] = [seed]
                twin[partition] = [seed]
            case 2:
                map[partition, default: []].append(UInt64(step))
                twin[partition, default: []].append(UInt64(step))
            default: #expect(map[partition] == twin[partition], "seed \(seed), step \(step)")
            }
            #expect(map.count == twin.count, "seed \(seed), step \(step)")
        }
        var walked: [PartitionID] = []
        map.forEach { partition, value in
            walked.append(partition)
            #expect(value == twin[partition])
        }
        #expect(walked == twin.keys.sorted() && map.keys == walked, "seed \(seed)")
        #expect(
            map.mapValues(\.count)[walked.first ?? PartitionID(0)] == walked.first.flatMap { twin[$0]?.count }
        )
    }

    /// A message that goes to several partitions is finished when the last partition has taken it over.
    @Test(
        "count a fan-out until the last partition has taken it over", arguments: 1...20 as ClosedRange<UInt64>
    )
    func fanOutCount(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var fanouts = Fanouts()
        var twin: [MessageID: (project: ProjectNumber, parts: Int)] = [:]
        for step in 0..<1_000 {
            let project = ProjectNumber(UInt32(random.next() % 3))
            if random.next() % 2 == 0 {
                let message = MessageID(time: UInt64(step), random: random.next())
                let parts = Int(random.next() % 4)
                if random.next() % 4 == 0 {
                    // A condition counts before its parts are known.
                    fanouts.begin(project, message, parts: 1)
                    // Some partitions decide later than others.
                    let early = Int(random.next() % UInt64(parts + 1))
                    fanouts.resolve(project, message, parts: early, isLast: false)
                    fanouts.resolve(project, message, parts: parts - early, isLast: true)
                } else {
                    fanouts.begin(project, message, parts: parts)
                }
                if parts > 0 { twin[message] = (project, parts) }
            } else if let (message, held) = twin.min(by: { $0.key.time < $1.key.time }) {
                fanouts.taken(held.project, message)
                twin[message] = held.parts > 1 ? (held.project, held.parts - 1) : nil
            }
            for number in 0..<3 as Range<UInt32> {
                let held = twin.values.filter { $0.project == ProjectNumber(number) }.count
                #expect(fanouts.count(of: ProjectNumber(number)) == held, "seed \(seed), step \(step)")
            }
        }
    }
}
