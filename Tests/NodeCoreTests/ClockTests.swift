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
        let desk = LoopDesk()
        #expect(desk.turn().isEmpty)
        desk.pass(milliseconds: 1000)
        desk.years = 1
        let leapt = desk.turn(.order(.clockCompared(nil)))
        #expect(leapt.doubts == [true] && leapt.looksAgain, "\(leapt)")
        #expect(desk.turn().isEmpty, "it is said once")
        desk.pass(milliseconds: 5000)
        let still = desk.turn(.timer(.clock))
        #expect(still.doubts.isEmpty && still.looksAgain)
        desk.years = 0
        desk.pass(milliseconds: 5000)
        let right = desk.turn(.timer(.clock))
        #expect(right.doubts == [false])
        #expect(desk.turn(.timer(.clock)).isEmpty, "nobody looks again")
    }

    @Test("is believed by all where the database's agrees, and who does not doubt hears nothing of that")
    func vouching() {
        let desk = LoopDesk()
        desk.serve()
        #expect(desk.turn(.order(.clockCompared(desk.now))).isEmpty)
        desk.years = 1
        let leapt = desk.turn(.timer(.partition(LoopDesk.partition, desk.now.monotonic)))
        #expect(leapt.doubts == [true])
        #expect(desk.core.doubting == [LoopDesk.partition])
        let vouched = desk.turn(.order(.clockCompared(desk.now)))
        #expect(vouched.doubts == [false] && desk.core.doubting.isEmpty)
        #expect(desk.core.believed(desk.now).wall == desk.now.wall)
    }

    @Test("is not doubted for a partition that is gone")
    func gone() {
        let desk = LoopDesk()
        desk.serve()
        desk.years = 1
        desk.turn(.timer(.partition(LoopDesk.partition, desk.now.monotonic)))
        // The loop's own clock is right again. The partition has not looked yet, and now belongs to another
        // node.
        desk.years = 0
        #expect(desk.turn().doubts.isEmpty)
        #expect(desk.turn(.order(.drop(LoopDesk.partition))).doubts == [false])
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
