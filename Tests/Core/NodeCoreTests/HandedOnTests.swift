import Model
import Quotas
import Testing

@testable import NodeCore

@Suite("What an owner left in a project's buckets")
struct HandedOnTests {
    private let harness = LoopHarness()
    private let left: [UInt64] = [5000, 50, 5]

    /// A project whose buckets live with the partition.
    private func project() throws -> ProjectNumber {
        let map = NodeMap(partitionCount: 4, loopCount: 1)
        let found = (1...100).lazy.map { ProjectNumber($0) }.first {
            map.home(of: $0) == LoopHarness.partition
        }
        return try #require(found)
    }

    /// Takes the partition of an owner that left tokens, and loses the machine before anybody asks for
    /// tokens.
    private func takeAndLose(_ project: ProjectNumber) {
        harness.core.updateCatalog(projects: [project], limits: [:], births: [:], now: harness.now)
        harness.turn(.order(.serve(LoopHarness.partition, Epoch(3))))
        harness.turn(.engine(.loaded(LoopHarness.stored(), Epoch(3), quotas: [project: left])))
        harness.turn(.lost(LoopHarness.partition, mayHaveAppended: false, reason: "a test"))
    }

    @Test("goes on to the next owner, also when the machine that took it was lost")
    func handedOn() throws {
        let project = try project()
        takeAndLose(project)
        harness.turn(.order(.release(LoopHarness.partition)))
        let effects = harness.turn(.engine(.closed(LoopHarness.partition)))
        let said = effects.compactMap { effect -> [UInt64]? in
            if case .call(.giveUp(LoopHarness.partition, _, let left)) = effect { left[project] } else { nil }
        }
        #expect(said == [left])
        #expect(harness.core.handedOver.isEmpty)
    }

    @Test(
        "is forgotten by an owner who loses the partition to another, or takes it again",
        arguments: [true, false])
    func forgotten(isDropped: Bool) throws {
        takeAndLose(try project())
        if isDropped {
            harness.turn(.order(.drop(LoopHarness.partition)))
        } else {
            harness.turn(.order(.serve(LoopHarness.partition, Epoch(5))))
        }
        #expect(harness.core.handedOver.isEmpty)
    }

    /// The simulator's meter of G6 forgives these tokens to a machine that stood still.
    @Test("counts as at hand before anybody asks for it, as a new project's whole burst does")
    func atHand() throws {
        let project = try project()
        takeAndLose(project)
        func sends() -> UInt64 {
            harness.core.tokensAtHand(.sends, of: project, for: .zero, now: harness.host.monotonic)
        }
        #expect(sends() == 0, "it is served no longer")
        harness.turn(.order(.serve(LoopHarness.partition, Epoch(5))))
        harness.turn(.engine(.loaded(LoopHarness.stored(), Epoch(5), quotas: [project: left])))
        #expect(sends() == 5000)
        harness.core.updateCatalog(
            projects: [project], limits: [:], births: [project: Epoch(5)], now: harness.now)
        #expect(sends() == QuotaLimits.standard.sends.burst)
    }

    @Test("reads that fail because the database is away do not count as damage")
    func awayIsNotDamage() {
        harness.turn(.order(.serve(LoopHarness.partition, Epoch(3))))
        func fails(isDamaged: Bool) -> Bool {
            let answer = EngineAnswer.loadFailed(
                LoopHarness.partition, Epoch(3), isDamaged: isDamaged, reason: "a test")
            return harness.turn(.engine(answer)).contains {
                if case .noted(.quarantined) = $0 { true } else { false }
            }
        }
        for _ in 0..<5 { #expect(!fails(isDamaged: false)) }
        for _ in 0..<3 { #expect(!fails(isDamaged: true)) }
        #expect(fails(isDamaged: true))
    }
}
