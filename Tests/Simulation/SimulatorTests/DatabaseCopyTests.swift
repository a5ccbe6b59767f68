import Model
import Testing

@testable import Simulator

/// Nodes on a restored copy of the databases, on the original's network (rule: copies-are-strangers).
@Suite("A copy of a cluster's databases")
struct DatabaseCopyTests {
    private func options(_ seed: UInt64) -> ClusterSimulation.Options {
        var options = ClusterSimulation.Options(seed: seed)
        options.poisons = false
        (options.seconds, options.pauseMax, options.patience) = (14, .milliseconds(200), .seconds(45))
        options.faults = [.crash, .supersession]
        (options.copiedAfter, options.copiesFiles) = (.seconds(2), seed % 2 == 0)
        return options
    }

    @Test("reaches the original's nodes, and harms nothing", arguments: UInt64(1)...6)
    func harmless(seed: UInt64) {
        let simulation = ClusterSimulation(options(seed))
        let violations = simulation.run().violations
        #expect(violations.isEmpty, "seed \(seed): \(violations.prefix(5))")
        #expect(simulation.counts["datagrams between lives refused", default: 0] > 20)
        #expect(simulation.counts["lives of copies", default: 0] > 0)
    }

    /// The seeds that break a guarantee for the original's clients.
    private func harmed(
        _ planted: PlantedInCluster, _ change: (inout ClusterSimulation.Options) -> Void = { _ in }
    ) -> [UInt64] {
        (1...8).filter { seed in
            var options = options(seed)
            (options.plantedInCluster, options.stopsAtViolation) = (planted, true)
            change(&options)
            return ClusterSimulation(options).run().violations.contains {
                ["G1", "G2", "G7", "bodies"].contains($0.guarantee)
                    && !$0.description.hasPrefix("in the copy")
            }
        }
    }

    @Test("is seen to harm the original where the keys of nodes ignore the life")
    func sharedKeys() { #expect(harmed(.copiesShareKeys).count >= 4) }

    @Test("is seen to harm the original where a node keeps the life that it finds")
    func keptLives() { #expect(harmed(.copiesKeepLives) { $0.copiesFiles = true }.count >= 4) }
}
