import Journal
import Model
import Ownership
import Partitions
import Testing

@testable import NodeCore

/// A gateway dates its clients' messages by its clock, whether it serves a partition or not.
@Suite("A loop's clock on the wall") struct ClockTests {
    @Test("is doubted by a gateway without partitions, which says so and looks again until it is right")
    func gateway() {
        let harness = LoopHarness()
        #expect(harness.turn().isEmpty)
        harness.pass(milliseconds: 1000)
        harness.years = 1
        let leapt = harness.turn(.order(.clockCompared(nil)))
        #expect(leapt.doubts == [true] && leapt.looksAgain, "\(leapt)")
        #expect(harness.turn().isEmpty, "it is said once")
        harness.pass(milliseconds: 5000)
        let still = harness.turn(.timer(.clock))
        #expect(still.doubts.isEmpty && still.looksAgain)
        harness.years = 0
        harness.pass(milliseconds: 5000)
        let right = harness.turn(.timer(.clock))
        #expect(right.doubts == [false])
        #expect(harness.turn(.timer(.clock)).isEmpty, "nobody looks again")
    }

    @Test("is believed by all where the database's agrees, and who does not doubt hears nothing of that")
    func vouching() {
        let harness = LoopHarness()
        harness.serve()
        #expect(harness.turn(.order(.clockCompared(harness.now))).isEmpty)
        harness.years = 1
        let leapt = harness.turn(.timer(.partition(LoopHarness.partition, harness.now.monotonic)))
        #expect(leapt.doubts == [true])
        #expect(harness.core.doubting == [LoopHarness.partition])
        let vouched = harness.turn(.order(.clockCompared(harness.now)))
        #expect(vouched.doubts == [false] && harness.core.doubting.isEmpty)
        #expect(harness.core.believed(harness.now).wall == harness.now.wall)
    }

    @Test("is not doubted for a partition that is gone")
    func gone() {
        let harness = LoopHarness()
        harness.serve()
        harness.years = 1
        harness.turn(.timer(.partition(LoopHarness.partition, harness.now.monotonic)))
        // The loop's own clock is right again. The partition has not looked yet, and now belongs to another
        // node.
        harness.years = 0
        #expect(harness.turn().doubts.isEmpty)
        #expect(harness.turn(.order(.drop(LoopHarness.partition))).doubts == [false])
    }
}

extension [LoopEffect] {
    fileprivate var doubts: [Bool] {
        compactMap { effect in if case .noted(.clockDoubted(let doubted)) = effect { doubted } else { nil } }
    }
    fileprivate var looksAgain: Bool {
        contains { if case .wake(.clock, _) = $0 { true } else { false } }
    }
}
