import Journal
import MemoryEngine
import Model
import Testing

@testable import NodeCore

/// A gateway dates its clients' messages by its clock, whether it serves a partition or not.
@Suite("A loop's clock on the wall") struct ClockTests {
    private let harness = LoopHarness()

    @Test("is doubted by a gateway without partitions, which says so and looks again until it is right")
    func gateway() {
        #expect(harness.turn().isEmpty)
        harness.pass(milliseconds: 1000)
        harness.years = 1
        let leapt = harness.turn(.order(.clockCompared(nil)))
        #expect(leapt.doubts == [true] && leapt.looksAgain, "\(leapt)")
        #expect(harness.core.otherTime(harness.now) == harness.now.wall)
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
        harness.serve()
        #expect(harness.turn(.order(.clockCompared(harness.now))).isEmpty)
        harness.days = 6
        let leapt = harness.turn(.timer(.partition(LoopHarness.partition, harness.now.monotonic)))
        #expect(leapt.doubts == [true])
        #expect(harness.core.doubting == [LoopHarness.partition])
        let vouched = harness.turn(.order(.clockCompared(harness.now)))
        #expect(vouched.doubts == [false] && harness.core.doubting.isEmpty)
        #expect(harness.core.believed(harness.now).wall == harness.now.wall)
    }

    @Test("is never believed for running evenly where the database's contradicts")
    func contradicted() {
        harness.isWallRunning = true
        harness.serve()
        harness.years = 1
        func look() {
            _ = harness.turn(.timer(.partition(LoopHarness.partition, harness.now.monotonic)))
        }
        look()
        for _ in 0..<3 {
            harness.pass(milliseconds: 43_200_000)
            _ = harness.turn(.order(.clockCompared(nil)))
            look()
        }
        #expect(harness.core.doubting == [LoopHarness.partition])
        #expect(!harness.core.wallClock.isTrusted)
        harness.pass(milliseconds: 86_400_000)
        look()
        #expect(harness.core.doubting.isEmpty && harness.core.wallClock.isTrusted)
    }

    @Test("is unconfirmed where the database's agrees with a far time, and nothing ends")
    func vouchingFar() {
        harness.serve()
        let before = harness.core.believed(harness.now).wall
        harness.years = 1
        _ = harness.turn(.timer(.partition(LoopHarness.partition, harness.now.monotonic)))
        let vouched = harness.turn(.order(.clockCompared(harness.now)))
        let ahead: Int64 = 365 * 86_400_000
        #expect(vouched.doubts == [false] && vouched.unconfirmed == [ahead])
        #expect(vouched.looksAgain && harness.core.believed(harness.now).wall == before)
        #expect(harness.core.doubting.isEmpty)
        harness.years = 0
        harness.pass(milliseconds: 5000)
        let right = harness.turn(.timer(.clock))
        #expect(right.unconfirmed == [nil] && right.doubts.isEmpty)
    }

    @Test("serves while the last run contradicts it, says so, and its witness goes on from the former one")
    func unconfirmed() {
        let harness = LoopHarness(isClustered: false) { options in
            options.clockWitness = WallTime(milliseconds: 1_800_000_000_000 + 362 * 86_400_000)
        }
        let behind: Int64 = -362 * 86_400_000
        let first = harness.turn()
        #expect(first.unconfirmed == [behind] && first.doubts.isEmpty && first.looksAgain)
        harness.turn(.order(.serve(LoopHarness.partition, Epoch(3))))
        harness.turn(.engine(.loaded(LoopHarness.stored(), Epoch(3), quotas: [:])))
        #expect(harness.core.partitions[LoopHarness.partition] != nil && harness.core.doubting.isEmpty)
        let former = WallTime(milliseconds: harness.now.wall.milliseconds - behind)
        #expect(harness.core.takeWitness(harness.now) == former)
        // Credentials go by the later time. The other one may be right.
        #expect(harness.core.timeOfCredentials(harness.now) == former)
        #expect(harness.core.otherTime(harness.now) == harness.now.wall)
        // A time server answers: the last run was three days before.
        harness.years = 1
        harness.pass(milliseconds: 3_600_000)
        let confirmed = harness.turn(.timer(.clock))
        #expect(confirmed.unconfirmed == [nil] && confirmed.doubts.isEmpty)
        #expect(harness.core.otherTime(harness.now) == nil)
        #expect(harness.core.takeWitness(harness.now) == harness.now.wall)
        #expect(harness.core.takeWitness(harness.now) == nil, "once an hour")
    }

    @Test("leaves its time to the next process, but for a reading that the last run contradicts")
    func witness() throws {
        let engine = MemoryEngine()
        func at(days: Int64) -> Instant {
            let wall = WallTime(milliseconds: 1_800_000_000_000 + days * 86_400_000)
            return Instant(monotonic: MonotonicTime(.seconds(1)), wall: wall)
        }
        #expect(try ClockWitness.claim(from: engine, now: at(days: 0)) == nil)
        #expect(try ClockWitness.claim(from: engine, now: at(days: 300)) == at(days: 0).wall)
        #expect(try ClockWitness.claim(from: engine, now: at(days: 5)) == at(days: 0).wall)
        #expect(try ClockWitness.claim(from: engine, now: at(days: 5)) == at(days: 5).wall)
        for row in [[], [1], [2, 0, 0, 0, 0, 0, 0, 0, 0], [UInt8](repeating: 1, count: 10)] as [[UInt8]] {
            try engine.put(.setting, key: ClockWitness.key, value: row)
            #expect(throws: (any Error).self) { try ClockWitness.claim(from: engine, now: at(days: 0)) }
        }
    }

    @Test("is not doubted for a partition that is gone")
    func gone() {
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
    fileprivate var unconfirmed: [Int64?] {
        compactMap { effect -> Int64?? in
            if case .noted(.clockUnconfirmed(let ahead)) = effect { .some(ahead) } else { nil }
        }
    }
    fileprivate var looksAgain: Bool {
        contains { if case .wake(.clock, _) = $0 { true } else { false } }
    }
}
