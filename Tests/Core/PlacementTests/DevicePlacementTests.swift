import Model
import Testing

@testable import Placement

@Suite("The placement of devices") struct DevicePlacementTests {
    /// Partitions that hold devices of one project and keep to the limit of an offer.
    struct Partitions {
        var held: [UInt32]
        var capacity = UInt32.max
        mutating func register(_ placement: inout DevicePlacement) -> PartitionID? {
            for _ in 0...held.count * 2 {
                guard let offer = placement.offer else { return nil }
                let index = Int(offer.partition.rawValue)
                if held[index] >= capacity {
                    placement.closed(offer.partition)
                } else if held[index] >= offer.limit {
                    placement.full(offer, holding: held[index])
                } else {
                    held[index] += 1
                    return offer.partition
                }
            }
            return nil
        }
    }

    @Test("a project fills its partitions in its order, 4,096 devices each, then all of them again")
    func laps() {
        let project = ProjectNumber(4)
        let order = Placement.order(of: project, count: 3)
        var placement = DevicePlacement(project: project, count: 3)
        var partitions = Partitions(held: [0, 0, 0])
        let visited = (0..<4096 * 6).map { _ in partitions.register(&placement) }
        for lap in 0..<6 {
            #expect(visited[lap * 4096..<(lap + 1) * 4096].allSatisfy { $0 == order[lap % 3] })
        }
        #expect(partitions.held == [8192, 8192, 8192])
    }

    @Test("a machine that knows nothing finds a large project's lap by a few refusals")
    func restart() {
        var placement = DevicePlacement(project: ProjectNumber(9), count: 32)
        let home = Placement.home(of: ProjectNumber(9), count: 32)
        var partitions = Partitions(held: Array(repeating: 76 * 4096, count: 32))
        var refusals = 0
        while let offer = placement.offer, partitions.held[Int(offer.partition.rawValue)] >= offer.limit {
            placement.full(offer, holding: partitions.held[Int(offer.partition.rawValue)])
            refusals += 1
        }
        #expect(refusals <= 2)
        #expect(partitions.register(&placement) == home)
        #expect(placement.offer?.limit == UInt32(77 * 4096))
    }

    @Test("late answers to an old offer do not skip a partition")
    func lateAnswers() {
        var placement = DevicePlacement(project: ProjectNumber(1), count: 8)
        let order = Placement.order(of: ProjectNumber(1), count: 8)
        let offer = placement.offer
        for _ in 0..<10 { if let offer { placement.full(offer, holding: 4096) } }
        #expect(placement.offer?.partition == order[1])
    }

    @Test("a partition without indices is left out; with none left there is no offer")
    func closed() {
        var placement = DevicePlacement(project: ProjectNumber(2), count: 3)
        var partitions = Partitions(held: [0, 0, 0], capacity: 5000)
        var registered = 0
        while partitions.register(&placement) != nil { registered += 1 }
        #expect(registered == 15_000)
        #expect(placement.offer == nil)
    }

    @Test("whatever a partition claims to hold, the limit stays one that a partition can have")
    func wildAnswers() {
        var placement = DevicePlacement(project: ProjectNumber(2), count: 2)
        for claim in [UInt32.max, 0, 4096, .max, DeviceIndex.limit, 1] {
            for _ in 0..<5 {
                guard let offer = placement.offer else { break }
                #expect(offer.limit <= DeviceIndex.limit && offer.limit >= 4096)
                placement.full(offer, holding: claim)
            }
        }
    }

    @Test(
        "all partitions together hold as many as the project may have, and not one more",
        arguments: [0, 1, 4096, 4097, 10_000, 3 * 4096, 3 * 4096 + 1, 40_000])
    func total(most: Int) {
        var placement = DevicePlacement(project: ProjectNumber(4), count: 3, most: UInt64(most))
        var partitions = Partitions(held: [0, 0, 0])
        var registered = 0
        while partitions.register(&placement) != nil { registered += 1 }
        #expect(registered == most)
        #expect(placement.isFull)
        #expect(placement.offer == nil)
        // Two placements that fill up at once agree, because the partitions count the devices.
        var other = DevicePlacement(project: ProjectNumber(4), count: 3, most: UInt64(most))
        #expect(partitions.register(&other) == nil)
        #expect(partitions.held.reduce(0, +) == UInt32(most))
    }

    @Test("where devices went, as many come in again when it looks again", arguments: [0, 1, 2])
    func vacancies(index: Int) {
        let most: UInt64 = 3 * 4096 * 10 + 5000
        var placement = DevicePlacement(project: ProjectNumber(4), count: 3, most: most)
        var partitions = Partitions(held: [0, 0, 0])
        while partitions.register(&placement) != nil {}
        partitions.held[index] -= 10
        #expect(partitions.register(&placement) == nil)
        placement.lookAgain()
        var registered = 0
        while partitions.register(&placement) != nil { registered += 1 }
        #expect(registered == 10)
    }
}
