import Model
import NodeCore
import Partitions
import Quotas
import Testing

@testable import Simulator

@Suite("The simulation of a node of its own")
struct LoneNodeTests {
    static func options(_ seed: UInt64) -> ClusterSimulation.Options {
        var options = ClusterSimulation.Options(seed: seed)
        options.beAlone()
        return options
    }

    @Test("keeps every promise, seed by seed", arguments: UInt64(1)...20)
    func promises(seed: UInt64) {
        let (history, violations) = ClusterSimulation(Self.options(seed)).run()
        #expect(violations.isEmpty, "seed \(seed): \(violations.prefix(5))")
        #expect(
            history.sends.count > 20 && history.deliveries.count > 20 && history.faults.count > 3,
            "seed \(seed) does next to nothing")
    }

    @Test("keeps every promise in swarms", arguments: UInt64(1)...16)
    func swarm(seed: UInt64) {
        let draw = SwarmDraw(seed: seed).alone
        let violations = ClusterSimulation(draw.options).run().violations
        #expect(violations.isEmpty, "seed \(seed) draws \(draw): \(violations.prefix(5))")
    }

    /// A planted bug breaks each rule of docs/protocol.md that a single node can break; some seed's checkers
    /// must see it.
    @Test(
        "sees each planted bug",
        arguments: [
            PlantedBug.answerBeforeDurable, .offerBeforeDurable, .acknowledgeVolatile, .skipPredecessor,
            .forgetMarks, .pushBeforeDurable, .acknowledgeUnrecorded, .forgetOutboxes, .unprovenRepeat,
            .skipCatchUp, .unknownAsRefused, .forgetBodies, .trimToNewest, .answerUndecided, .leakFanouts,
        ])
    func planted(bug: PlantedBug) {
        // Only violations that clients see count, not those of the machine's own invariants.
        expect("planted bug \(bug.rawValue)", { $0.guarantee != "invariant" }) {
            $0.partition.planted = bug
            $0.stopsAtViolation = true
        }
    }

    private func expect(
        _ bug: String, _ isSeen: (Violation) -> Bool, _ change: (inout ClusterSimulation.Options) -> Void
    ) {
        for seed in UInt64(1)...400 {
            var options = Self.options(seed)
            change(&options)
            if ClusterSimulation(options).run().violations.contains(where: isSeen) { return }
        }
        Issue.record("no seed of 400 shows \(bug)")
    }

    /// Some planted bugs break an invariant of the machine itself. The invariant says sooner and more exactly
    /// what is wrong; the engine refuses a snapshot of what is not durable.
    @Test(
        "sees planted bugs by the invariants that they break",
        arguments: [
            (PlantedBug.leakFanouts, "the unfinished messages"),
            (.offerBeforeDurable, "not durable was offered"),
            (.snapshotVolatile, "a snapshot is written of what is not durable"),
        ])
    func plantedInvariants(bug: PlantedBug, invariant: String) {
        expect(invariant, { $0.guarantee == "invariant" && $0.description.contains(invariant) }) {
            $0.partition.planted = bug
        }
    }

    /// Devices are away for longer than short messages live, and nothing else keeps a message.
    @Test("sees a message that comes after its time to live")
    func plantedLate() {
        expect("a late message", { $0.description.contains("too late") }) {
            $0.partition.planted = .deliverLate
            $0.hasFaults = false
        }
    }

    /// Few fan-outs may be unfinished, and messages between partitions are often left out.
    private func crowd(_ options: inout ClusterSimulation.Options) {
        options.limits.fanouts = 2
        (options.leftOutPerMille, options.loopCount) = (200, 3)
    }

    @Test("holds the bound of unfinished fan-outs", arguments: UInt64(1)...10)
    func fanouts(seed: UInt64) {
        var options = Self.options(seed)
        crowd(&options)
        let violations = ClusterSimulation(options).run().violations
        #expect(violations.isEmpty, "seed \(seed): \(violations.prefix(5))")
    }

    @Test("sees that fan-outs are not bounded")
    func plantedFanouts() {
        expect("unbounded fan-outs", { $0.guarantee == "bounded-fanouts" }) {
            crowd(&$0)
            $0.partition.planted = .unboundedFanouts
        }
    }

    @Test("keeps every promise where the disk is full again and again", arguments: UInt64(1)...10)
    func refusals(seed: UInt64) {
        var options = Self.options(seed)
        options.refusedPerMille = 300
        let violations = ClusterSimulation(options).run().violations
        #expect(violations.isEmpty, "seed \(seed): \(violations.prefix(5))")
    }

    /// Records hold a message or two.
    @Test("keeps the bounds of records", arguments: UInt64(1)...10)
    func records(seed: UInt64) {
        var options = Self.options(seed)
        options.drawBounds()
        options.bodyBytesMax = 400
        (options.partition.recordBytesMax, options.partition.entryBytesMax) = (300, 300)
        options.partition.recordsInFlightMax = 3
        let (history, violations) = ClusterSimulation(options).run()
        #expect(violations.isEmpty, "seed \(seed): \(violations.prefix(5))")
        #expect(history.deliveries.count > 20, "seed \(seed) does next to nothing")
    }

    @Test("keeps quotas over starts in order and after crashes", arguments: UInt64(1)...10)
    func quotas(seed: UInt64) {
        var options = Self.options(seed)
        options.limits = .tight
        options.faults = [.crash, .leave, .clockLeaps]
        let simulation = ClusterSimulation(options)
        let violations = simulation.run().violations
        #expect(violations.isEmpty, "seed \(seed): \(violations.prefix(5))")
        #expect(simulation.counts["429", default: 0] > 0, "seed \(seed): nobody meets the quota")
    }

    /// Machines start with clocks that are wrong by hours to years.
    private func startWrong(_ options: inout ClusterSimulation.Options) {
        options.wrongStartsPerMille = 600
        options.faults = [.crash, .leave, .clockLeaps]
        options.faultGapMax = .seconds(2)
    }

    @Test("ends nothing by a first clock that the last run contradicts", arguments: UInt64(1)...20)
    func wrongStarts(seed: UInt64) {
        var options = Self.options(seed)
        startWrong(&options)
        let simulation = ClusterSimulation(options)
        let violations = simulation.run().violations
        #expect(violations.isEmpty, "seed \(seed): \(violations.prefix(5))")
        #expect(simulation.counts["wrong first clocks", default: 0] > 0)
    }

    @Test("sees that a first clock is believed, by what ends and by what is lost")
    func plantedFirstClock() {
        for guarantee in ["clocks", "G2"] {
            expect("believed first clocks by \(guarantee)", { $0.guarantee == guarantee }) {
                startWrong(&$0)
                $0.planted = .believeFirstClock
            }
        }
    }

    /// Push services end many devices of few projects, and a day's bound is soon reached.
    private func brake(_ options: inout ClusterSimulation.Options) {
        (options.pushedPerMille, options.pushGonePerMille) = (1000, 300)
        (options.deviceCount, options.partition.goneFew) = (20, 1)
        options.confirmSoon()
        options.pauseMax = .milliseconds(400)
    }

    @Test("holds the day's bound of gone addresses for a project", arguments: UInt64(1)...10)
    func gone(seed: UInt64) {
        var options = Self.options(seed)
        brake(&options)
        let simulation = ClusterSimulation(options)
        let violations = simulation.run().violations
        #expect(violations.isEmpty, "seed \(seed): \(violations.prefix(5))")
    }

    @Test("sees that each partition has a bound of gone addresses of its own")
    func plantedBrake() {
        expect("partitions with a brake each", { $0.guarantee == "brake" }) {
            brake(&$0)
            $0.partition.planted = .brakeAlone
        }
    }

    @Test("has every kind of fault in it")
    func faults() {
        var counts: [String: Int] = [:]
        for seed in UInt64(1)...20 {
            let simulation = ClusterSimulation(Self.options(seed))
            _ = simulation.run()
            counts.merge(simulation.counts, uniquingKeysWith: +)
        }
        for what in ["crashes before an effect", "disks that failed", "starts that ended"] {
            #expect(counts[what, default: 0] > 2, "\(what): \(counts)")
        }
    }

    @Test("runs the same twice")
    func determinism() {
        let runs = (0..<2).map { _ in ClusterSimulation(Self.options(7)) }
        for run in runs { _ = run.run() }
        #expect(runs[0].digest == runs[1].digest && runs[0].eventCount == runs[1].eventCount)
    }
}
