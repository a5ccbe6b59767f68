import Partitions
import Testing

@testable import Simulator

@Suite("The simulation of one node")
struct SimulationTests {
    @Test("keeps every promise, seed by seed", arguments: UInt64(1)...60)
    func promises(seed: UInt64) {
        let (history, violations) = Simulation(.init(seed: seed)).run()
        #expect(violations.isEmpty, "seed \(seed): \(violations.prefix(5))")
        #expect(
            history.sends.count > 20 && history.deliveries.count > 20, "seed \(seed) does next to nothing")
    }

    /// A planted bug breaks each rule of docs/protocol.md that a single node can break; some seed's checkers
    /// must see it.
    @Test(
        "sees each planted bug",
        arguments: [
            PlantedBug.answerBeforeDurable, .offerBeforeDurable, .acknowledgeVolatile, .skipPredecessor,
            .forgetMarks,
            .pushBeforeDurable, .acknowledgeUnrecorded, .forgetOutboxes, .unprovenRepeat, .skipCatchUp,
            .forgetWindow, .snapshotVolatile, .unknownAsRefused, .deliverLate, .forgetBodies, .trimToNewest,
            .answerUndecided,
            .leakFanouts,
        ])
    func planted(bug: PlantedBug) {
        for seed in UInt64(1)...400 {
            var options = Simulation.Options(seed: seed)
            options.partition.planted = bug
            // Only violations that clients see count, not those of the machine's own laws.
            let violations = Simulation(options).run().violations
            if violations.contains(where: { $0.guarantee != "invariant" }) { return }
        }
        Issue.record("no seed of 400 shows planted bug \(bug.rawValue)")
    }

    /// Some planted bugs break a law of the machine itself. The law says sooner and more exactly what is
    /// wrong.
    @Test(
        "sees planted bugs by the laws that they break",
        arguments: [
            (PlantedBug.leakFanouts, "the unfinished messages"),
            (.offerBeforeDurable, "not durable was offered"),
            (.snapshotVolatile, "a snapshot is written of what is not durable"),
        ])
    func plantedLaws(bug: PlantedBug, law: String) {
        for seed in UInt64(1)...40 {
            var options = Simulation.Options(seed: seed)
            options.partition.planted = bug
            let broken = Simulation(options).run().violations.filter { $0.guarantee == "invariant" }
            if broken.contains(where: { $0.description.contains(law) }) { return }
        }
        Issue.record("no seed of 40 shows that \(law)")
    }

    /// Few fan-outs may be unfinished, and messages between partitions are often lost. A partition must
    /// refuse each send past the bound before the send is durable.
    @Test("holds the bound of unfinished fan-outs", arguments: UInt64(1)...20)
    func fanouts(seed: UInt64) {
        let violations = Simulation(crowded(seed)).run().violations
        #expect(violations.isEmpty, "seed \(seed): \(violations.prefix(5))")
    }

    @Test("sees that fan-outs are not bounded")
    func plantedFanouts() {
        for seed in UInt64(1)...20 {
            var options = crowded(seed)
            options.partition.planted = .unboundedFanouts
            if Simulation(options).run().violations.contains(where: { $0.guarantee == "bounded-fanouts" }) {
                return
            }
        }
        Issue.record("no seed of 20 shows it")
    }

    private func crowded(_ seed: UInt64) -> Simulation.Options {
        var options = Simulation.Options(seed: seed)
        options.fanoutsMax = 2
        options.lossPercent = 20
        return options
    }

    @Test("keeps every promise where the disk is full again and again", arguments: UInt64(1)...20)
    func refusals(seed: UInt64) {
        var options = Simulation.Options(seed: seed)
        options.refusedPercent = 30
        let violations = Simulation(options).run().violations
        #expect(violations.isEmpty, "seed \(seed): \(violations.prefix(5))")
    }

    /// Records hold a message or two, and the engine takes no longer records.
    @Test("makes no record that its engine does not take", arguments: UInt64(1)...30)
    func records(seed: UInt64) {
        var options = Simulation.Options(seed: seed)
        options.bodyBytesMax = 400
        options.partition.recordBytesMax = 300
        options.partition.entryBytesMax = 300
        options.partition.offerBytesMax = 600
        options.partition.recordsInFlightMax = 3
        options.recordBytesLimit = 1000
        let (history, violations) = Simulation(options).run()
        #expect(violations.isEmpty, "seed \(seed): \(violations.prefix(5))")
        #expect(history.deliveries.count > 20, "seed \(seed) does next to nothing")
    }

    @Test("has every kind of fault in it")
    func faults() {
        var crashes = 0
        var losses = 0
        var unknown = 0
        for seed in UInt64(1)...12 {
            let (history, _) = Simulation(.init(seed: seed)).run()
            crashes += history.faults.count { $0.hasPrefix("crash") }
            losses += history.faults.count { $0.hasPrefix("partition") }
            unknown += history.sends.count { $0.outcome == .unknown }
        }
        #expect(crashes > 12 && losses > 12 && unknown > 0, "\(crashes), \(losses), \(unknown)")
    }

    @Test("runs the same twice")
    func determinism() {
        let first = Simulation(.init(seed: 7))
        let second = Simulation(.init(seed: 7))
        _ = first.run()
        _ = second.run()
        #expect(first.digest == second.digest)
    }
}
