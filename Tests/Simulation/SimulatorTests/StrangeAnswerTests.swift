import Model
import Partitions
import Testing

@testable import Simulator

/// Acknowledgements that come late, twice, or from a process that does not own the acknowledging partition.
@Suite("Strange acknowledgements in a cluster")
struct StrangeAnswerTests {
    private func options(_ seed: UInt64) -> ClusterSimulation.Options {
        var options = ClusterSimulation.Options(seed: seed)
        options.poisons = false
        (options.seconds, options.pauseMax, options.strangeAnswersPerMille) = (10, .milliseconds(150), 500)
        options.faults = [.crash, .resetAll, .reset]
        options.faultGapMax = .milliseconds(800)
        return options
    }

    @Test("are refused where they are foreign, and break nothing", arguments: UInt64(1)...4)
    func refused(seed: UInt64) {
        let simulation = ClusterSimulation(options(seed))
        let violations = simulation.run().violations
        #expect(violations.isEmpty, "seed \(seed): \(violations.prefix(5))")
        #expect(simulation.counts["words refused", default: 0] > 20)
    }

    /// Expects that some seed's run breaks one of the guarantees.
    private func expect(
        _ guarantees: Set<String>, seeds: ClosedRange<UInt64>,
        _ change: (inout ClusterSimulation.Options) -> Void
    ) {
        for seed in seeds {
            var options = options(seed)
            options.stopsAtViolation = true
            change(&options)
            let violations = ClusterSimulation(options).run().violations
            if violations.contains(where: { guarantees.contains($0.guarantee) }) { return }
        }
        Issue.record("no seed of \(seeds) breaks one of \(guarantees)")
    }

    /// The outbox lets go of what its receiver does not have.
    @Test("are seen where a partition believes them")
    func believed() {
        expect(["G1", "G2", "bodies"], seeds: 1...20) { $0.planted = .believeStrangers }
    }

    @Test("are seen to stop outboxes where marks that do not fit are believed as well")
    func standing() {
        expect(["outboxes"], seeds: 1...60) {
            $0.planted = .believeStrangers
            $0.partition.planted = .denyNothing
            $0.stopsAtViolation = false
        }
    }
}
