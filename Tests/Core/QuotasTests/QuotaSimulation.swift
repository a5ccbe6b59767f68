import Model
import Testing

@testable import Quotas

/// G6 (docs/guarantees.md): seeded runs of whole worlds, judged by a checker that sees admissions only.
@Suite("Quotas in simulated worlds") struct QuotaSimulation {
    static func options(_ seed: UInt64) -> QuotaWorld.Options {
        var random = SeededGenerator(seed: seed)
        var options = QuotaWorld.Options()
        options.spenders = Int.random(in: 1...5, using: &random)
        let rate = UInt64.random(in: 10...1_000, using: &random)
        options.rate = QuotaRate(
            count: rate, perSeconds: [1, 1, 7].randomElement(using: &random) ?? 1,
            burst: UInt64.random(in: 1...3 * rate, using: &random))
        options.lost = [0, 0, 50, 300].randomElement(using: &random) ?? 0
        options.doubled = [0, 100].randomElement(using: &random) ?? 0
        options.delayMax =
            [50, 1000, 40_000, 300_000].randomElement(using: &random).map(TimeSpan.microseconds) ?? .zero
        options.offered = max(rate * ([1, 4, 10].randomElement(using: &random) ?? 4) / 4, 1)
        options.spenderRestarts = [0, 5].randomElement(using: &random) ?? 0
        options.ownerCrashes = [0, 3].randomElement(using: &random) ?? 0
        options.handovers = [0, 5].randomElement(using: &random) ?? 0
        options.cuts = [0, 5].randomElement(using: &random) ?? 0
        options.tokensMax = [1, 1, 50].randomElement(using: &random) ?? 1
        options.delayMin = [.zero, options.delayMax / 2].randomElement(using: &random) ?? .zero
        return options
    }

    @Test(
        "whatever happens to messages, spenders and owners, no window admits more than burst + rate × window")
    func promise() {
        for seed in 1...60 as ClosedRange<UInt64> {
            let options = QuotaSimulation.options(seed)
            var world = QuotaWorld(options, seed: seed)
            world.run(for: .seconds(5))
            let excess = QuotaChecker(rate: options.rate).excess(world.history)
            #expect(excess == 0, "seed \(seed): \(excess) tokens too many; \(options)")
        }
    }

    @Test("with shares in use, too: large projects, links that are cut for seconds, owners that crash")
    func promiseWithShares() {
        for seed in 1...20 as ClosedRange<UInt64> {
            var options = QuotaWorld.Options()
            (options.rate, options.offered, options.cuts) = (QuotaRate(count: 2_000, burst: 8_000), 1_500, 10)
            options.ownerCrashes = seed % 2 == 0 ? 3 : 0
            options.handovers = seed % 3 == 0 ? 3 : 0
            options.lost = seed % 5 == 0 ? 100 : 0
            options.delayMax = seed % 4 == 0 ? .milliseconds(30) : .milliseconds(1)
            var world = QuotaWorld(options, seed: seed)
            world.run(for: .seconds(8))
            let excess = QuotaChecker(rate: options.rate).excess(world.history)
            #expect(excess == 0 && world.fallbackAdmitted > 0, "seed \(seed): \(excess) tokens too many")
        }
    }

    @Test("two runs of one seed are the same run")
    func deterministic() {
        var histories: [[MonotonicTime]] = []
        for _ in 0..<2 {
            var world = QuotaWorld(QuotaSimulation.options(42), seed: 42)
            world.run(for: .seconds(3))
            histories.append(world.history.map(\.at))
        }
        #expect(histories[0] == histories[1])
    }

    @Test("with an owner at hand and more demand than the rate, nearly all of what is promised is admitted")
    func useful() {
        for spenders in 1...4 {
            var options = QuotaWorld.Options()
            options.spenders = spenders
            options.rate = QuotaRate(count: 4_000, burst: 12_000)
            options.offered = 40_000 / UInt64(spenders)
            var world = QuotaWorld(options, seed: UInt64(spenders))
            world.run(for: .seconds(5))
            let total = QuotaChecker(rate: options.rate).total(world.history)
            let promised: UInt64 = 12_000 + 5 * 4_000
            #expect(
                total <= promised && total > promised * 97 / 100,
                "\(world.refused) \(spenders): \(total) of \(promised)")
        }
    }

    @Test("with less demand than the rate, nothing is refused")
    func unrefused() {
        for seed in 1...20 as ClosedRange<UInt64> {
            var options = QuotaWorld.Options()
            options.rate = QuotaRate(count: 4_000, burst: 40_000)
            options.offered = [3, 60, 700][Int(seed % 3)]
            options.handovers = 2
            options.lost = 20
            var world = QuotaWorld(options, seed: seed)
            world.run(for: .seconds(5))
            #expect(world.refused == 0, "seed \(seed) \(world.history.count)")
        }
    }

    @Test(
        "with an owner that is far, or slow to answer, most of what is wanted is admitted",
        arguments: [30, 60, 120, 180, 400] as [UInt64], [50, 300] as [UInt64])
    func far(milliseconds: UInt64, offered: UInt64) {
        var options = QuotaWorld.Options()
        options.spenders = 2
        options.rate = QuotaRate(count: 10_000, burst: 40_000)
        options.offered = offered
        (options.delayMin, options.delayMax) = (.milliseconds(milliseconds), .milliseconds(milliseconds + 1))
        var world = QuotaWorld(options, seed: 1)
        world.run(for: .seconds(10))
        let total = QuotaChecker(rate: options.rate).total(world.history)
        #expect(world.refused == 0)
        #expect(total >= 2 * 10 * offered * 8 / 10, "\(total) of \(2 * 10 * offered)")
    }

    private func farWorld(_ milliseconds: UInt64, _ rate: QuotaRate) -> QuotaWorld {
        var options = QuotaWorld.Options()
        (options.spenders, options.rate, options.offered) = (1, rate, 1)
        (options.delayMin, options.delayMax) = (.milliseconds(milliseconds), .milliseconds(milliseconds + 1))
        return QuotaWorld(options, seed: 1)
    }

    @Test(
        "a far gateway's first operation of a thousand tokens is admitted whole, from a bucket of three thousand",
        arguments: [1, 60, 100, 200, 400] as [UInt64])
    func farFirst(milliseconds: UInt64) {
        var world = farWorld(milliseconds, QuotaRate(count: 3_000, burst: 3_000))
        world.offer(1_000, 0)
        world.run(for: .milliseconds(5 * milliseconds))
        #expect(world.refused == 0)
        #expect(world.history.contains { $0.count == 1_000 }, "\(world.history)")
    }

    @Test(
        "a far gateway with one operation at a time, and a share, waits an answer for each at most",
        arguments: [25, 40, 60, 120] as [UInt64])
    func farAndAlone(milliseconds: UInt64) {
        var world = farWorld(milliseconds, QuotaRate(count: 10_000, burst: 40_000))
        for _ in 0..<40 {
            world.offer(100, 0)
            world.run(for: .milliseconds(2 * milliseconds + 30))
        }
        let whole = world.history.count { $0.count == 100 }
        #expect(world.refused == 0 && whole >= 38, "\(whole)")
    }

    @Test(
        "a far gateway at seven tenths of its rate is refused next to nothing",
        arguments: [1, 30, 60, 120, 180] as [UInt64])
    func farAndBusy(milliseconds: UInt64) {
        var options = QuotaWorld.Options()
        (options.spenders, options.rate, options.offered) = (2, QuotaRate(count: 700, burst: 2_000), 245)
        (options.delayMin, options.delayMax) = (.milliseconds(milliseconds), .milliseconds(milliseconds + 1))
        var world = QuotaWorld(options, seed: 1)
        world.run(for: .seconds(20))
        let total = QuotaChecker(rate: options.rate).total(world.history)
        #expect(world.refused <= 10 && total > 9_000, "\(world.refused) refused, \(total) admitted")
    }

    @Test("cut off from the owner, spenders admit for a second by their shares, then nothing")
    func fallback() {
        var options = QuotaWorld.Options()
        options.spenders = 2
        options.rate = QuotaRate(count: 4_000, burst: 40_000)
        options.offered = 1_500
        var world = QuotaWorld(options, seed: 5)
        world.run(for: .seconds(2))
        world.grantor = nil
        let before = QuotaChecker(rate: options.rate).total(world.history)
        world.run(for: .seconds(1))
        let during = QuotaChecker(rate: options.rate).total(world.history) - before
        #expect(during > 2_000 && world.fallbackAdmitted > 1_500, "\(during)")
        world.run(for: .milliseconds(200))
        let after = QuotaChecker(rate: options.rate).total(world.history)
        world.run(for: .seconds(2))
        #expect(QuotaChecker(rate: options.rate).total(world.history) == after)
    }

    enum Plant: String, CaseIterable {
        case ownerBeginsFull, ownerBeginsAtOnce, forgetsLeases, forgetsShares, forgetsWhatRanOut
        case appliesTwice
    }

    @Test("each planted bug is seen by the checker", arguments: Plant.allCases)
    func planted(_ plant: Plant) {
        var worst: UInt64 = 0
        for seed in 1...100 as ClosedRange<UInt64> where worst == 0 {
            var options = QuotaSimulation.options(seed)
            switch plant {
            case .ownerBeginsFull: options.ownerBeginsFull = true
            case .ownerBeginsAtOnce: options.ownerBeginsAtOnce = true
            case .forgetsLeases: options.accountingBug = .forgetsLeases
            case .forgetsShares:
                // Shares are for large projects: more than 100 tokens a second to each spender.
                options = QuotaWorld.Options()
                (options.rate, options.offered, options.cuts) = (
                    QuotaRate(count: 2_000, burst: 8_000), 1_500, 10
                )
                options.accountingBug = .forgetsShares
            case .forgetsWhatRanOut: options.accountingBug = .forgetsWhatRanOut
            case .appliesTwice: options.spenderBug = .appliesTwice
            }
            var world = QuotaWorld(options, seed: seed)
            world.run(for: .seconds(5))
            worst = QuotaChecker(rate: options.rate).excess(world.history)
        }
        #expect(worst > 0, "\(plant) was never seen")
    }
}
