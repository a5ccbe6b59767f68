import Model
import Testing

@testable import Partitions

/// The partition's own sets, compared with Swift's step by step.
@Suite("Sets of devices")
struct SetTwinTests {
    /// Sizes around every change of form: none, one, few, many.
    private static let sizes = [0, 1, 1, 2, 3, 20, 63, 64, 65, 66, 130, 900]

    @Test("a device set holds what a plain set would", arguments: UInt64(1)...12)
    func deviceSet(seed: UInt64) {
        var dice = Dice(seed)
        var sets = [DeviceSet(), DeviceSet(7), DeviceSet()]
        var twins: [Set<UInt32>] = [[], [7], []]
        for step in 0..<400 {
            let (from, other, into) = (dice.below(3), dice.below(3), dice.below(3))
            let kept = (sets[from], twins[from])
            let (set, twin) = DeviceSetStep.random(sets[from], sets[other], twins[from], twins[other], &dice)
            #expect(kept.0.sorted == kept.1.sorted(), "seed \(seed), step \(step): a copy changed")
            sets[into] = set
            twins[into] = twin
            let expected = twin.sorted()
            #expect(set.sorted == expected, "seed \(seed), step \(step)")
            #expect(set.count == twin.count && set.isEmpty == twin.isEmpty, "seed \(seed), step \(step)")
            for probe in dice.indices(5, below: 1 << 17) + expected.prefix(2) {
                #expect(set.contains(probe) == twin.contains(probe), "seed \(seed), step \(step), \(probe)")
            }
            #expect(set == DeviceSet(sorted: expected), "seed \(seed), step \(step): equality")
        }
    }

    private enum DeviceSetStep {
        static func random(
            _ one: DeviceSet, _ other: DeviceSet, _ twin: Set<UInt32>, _ otherTwin: Set<UInt32>,
            _ dice: inout Dice
        ) -> (DeviceSet, Set<UInt32>) {
            var (one, twin) = (one, twin)
            switch dice.below(8) {
            case 0:
                let bound = dice.one(of: [50, 500, 70_000, 1 << 17])
                let indices = dice.indices(dice.one(of: SetTwinTests.sizes), below: bound)
                return (DeviceSet(sorted: indices), Set(indices))
            case 1: return (one.union(other), twin.union(otherTwin))
            case 2: return (one.intersection(other), twin.intersection(otherTwin))
            case 3: return (one.subtracting(other), twin.subtracting(otherTwin))
            case 4:
                let bit = UInt32(dice.below(4))
                return (one.filtered { $0 & 3 != bit }, twin.filter { $0 & 3 != bit })
            case 5:
                var added: [UInt32] = []
                let indices = dice.indices(dice.one(of: SetTwinTests.sizes), below: 500)
                one.insert(indices) { added.append($0) }
                #expect(added == indices.filter { !twin.contains($0) })
                return (one, twin.union(indices))
            default:
                let members = twin.sorted()
                for _ in 0..<dice.one(of: [1, 1, 3, 70]) {
                    let index =
                        members.isEmpty || dice.chance(1, in: 4)
                        ? UInt32(dice.below(500)) : dice.one(of: members)
                    #expect(one.remove(index) == (twin.remove(index) != nil))
                }
                return (one, twin)
            }
        }
    }

    @Test("a member set holds what plain sets would, through all of its forms", arguments: UInt64(1)...12)
    func memberSet(seed: UInt64) {
        var dice = Dice(seed)
        var set = MemberSet()
        defer { set.destroy() }
        var twin: [UInt16: Set<UInt32>] = [:]
        // Few partitions make dense parts, which split; many keep the set flat.
        let partitions: [UInt16] =
            seed % 3 == 0 ? Array(0..<40).map { $0 * 100 } : seed % 3 == 1 ? [0, 4095] : [5, 6, 7]
        var grows = true
        for step in 0..<300 {
            let total = twin.values.reduce(0) { $0 + $1.count }
            if total == 0 { grows = true }
            if total > 2500 || dice.chance(1, in: 40) { grows = false }
            let number = dice.one(of: partitions)
            let partition = PartitionID(number)
            let had = twin[number] ?? []
            if dice.chance(grows ? 4 : 1, in: 5) {
                let wanted = dice.one(of: [1, 1, 2, 3, 10, 60, 300])
                let indices = dice.indices(wanted, below: dice.one(of: [1000, 1 << 28]))
                var added: [UInt32] = []
                set.insert(partition, indices) { added.append($0) }
                #expect(added == indices.filter { !had.contains($0) }, "seed \(seed), step \(step)")
                twin[number] = had.union(indices)
            } else {
                let some = had.sorted().filter { _ in dice.chance(3, in: 5) }
                let indices = Set(some + dice.indices(3, below: 1000)).sorted()
                var removed: [UInt32] = []
                set.remove(partition, indices) { removed.append($0) }
                #expect(removed == indices.filter { had.contains($0) }, "seed \(seed), step \(step)")
                twin[number] = had.subtracting(indices)
            }
            if twin[number]?.isEmpty ?? false { twin[number] = nil }
            compare(set, twin, &dice, "seed \(seed), step \(step)")
            if dice.chance(1, in: 15) { rebuild(&set, twin) }
        }
    }

    private func compare(
        _ set: MemberSet, _ twin: [UInt16: Set<UInt32>], _ dice: inout Dice, _ comment: Comment
    ) {
        #expect(set.count == twin.values.reduce(0) { $0 + $1.count }, comment)
        #expect(set.isEmpty == twin.isEmpty, comment)
        var parts: [UInt16] = []
        set.forEachPart { partition, devices in
            parts.append(partition.rawValue)
            #expect(devices.sorted == (twin[partition.rawValue] ?? []).sorted(), comment)
        }
        #expect(parts == twin.keys.sorted(), comment)
        for number in [0, 5, 6, 100, 4095] as [UInt16] {
            let members = twin[number] ?? []
            #expect(set.part(PartitionID(number)).sorted == members.sorted(), comment)
            for probe in dice.indices(3, below: 1000) + members.prefix(2) {
                #expect(set.contains(PartitionID(number), probe) == members.contains(probe), comment)
            }
        }
    }

    /// Makes the set again as a snapshot does.
    private func rebuild(_ set: inout MemberSet, _ twin: [UInt16: Set<UInt32>]) {
        set.destroy()
        let parts = twin.sorted { $0.key < $1.key }.map {
            (partition: PartitionID($0.key), devices: DeviceSet(sorted: $0.value.sorted()))
        }
        set = MemberSet(parts: parts)
    }

    @Test("a part that was given out stays as it was when the set changes")
    func sharing() {
        var set = MemberSet()
        defer { set.destroy() }
        let first = (0..<1000).map { UInt32($0) * 3 }
        set.insert(PartitionID(1), first) { _ in }
        let before = set.part(PartitionID(1))
        set.insert(PartitionID(1), [1, 2]) { _ in }
        set.remove(PartitionID(1), [0, 3, 6]) { _ in }
        #expect(before.sorted == first)
        #expect(set.part(PartitionID(1)).sorted == [1, 2] + first.dropFirst(3))
    }
}
