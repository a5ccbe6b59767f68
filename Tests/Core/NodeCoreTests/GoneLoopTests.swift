import Model
import Testing

@testable import NodeCore
@testable import Partitions

/// How many devices of a project push services may end at one process (rule: one-word-ends-nothing).
@Suite("The loops of a process")
struct GoneLoopTests {
    private func takes(_ harness: LoopHarness) -> Bool {
        let ask = GoneAsk(
            project: LoopHarness.project, partition: LoopHarness.partition, day: harness.now.wall.day,
            found: 0, devices: 20, few: 3, share: 10)
        if case .mark = harness.core.take(ask) { return true } else { return false }
    }

    @Test("count together the devices of a project that push services end in a day")
    func together() {
        let loops = (0..<3).map { number in
            LoopHarness(isClustered: false, loopCount: 3) { $0.number = number }
        }
        for loop in loops { loop.host.shared = loops[0].host.shared }
        #expect((0..<9).count { takes(loops[$0 % 3]) } == 3)
    }

    @Test("permit a share of the few where several nodes serve the project, and one at least")
    func nodes() {
        for (nodes, expected) in [(0, 1), (1, 3), (2, 1), (3, 1), (9, 1)] {
            let harness = LoopHarness()
            let living = Set((0..<nodes).map { SessionID(UInt64($0) + 5) })
            harness.turn(.order(.members(living: living, gone: [])))
            #expect((0..<9).count { _ in takes(harness) } == expected, "\(nodes) nodes")
        }
    }

    @Test("tell their partitions who counts, and count what partitions have found")
    func partitions() {
        let harness = LoopHarness()
        harness.serve()
        #expect(harness.core.partitions[LoopHarness.partition]?.brake === harness.core)
    }
}
