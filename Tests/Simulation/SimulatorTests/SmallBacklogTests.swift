import Model
import Testing

@testable import Simulator

/// Clusters whose bounds are so small that they are reached all the time.
@Suite("A simulated cluster with small backlogs") struct SmallBacklogTests {
    /// `InboxTests` and `PressureTests` show each behaviour alone, and `BacklogTests` on real sockets.
    @Test("keeps every promise, and reaches nearly all of what happens at a bound")
    func promises() {
        var reached: [String: Int] = [:]
        for seed in UInt64(5)...10 {
            var options = ClusterSimulation.Options(seed: seed)
            (options.nodeCount, options.seconds, options.pauseMax) = (3, 10, .milliseconds(100))
            options.loopCount = 3
            (options.burstPerMille, options.burstMax) = (30, 300)
            options.inbox = Backlog.Bound(entries: 24, bytes: 20_000)
            options.peerBacklog = Backlog.Bound(entries: 24, bytes: 20_000)
            options.patience = .seconds(45)
            let world = ClusterSimulation(options)
            let violations = world.run().violations
            #expect(violations.isEmpty, "seed \(seed): \(violations.prefix(5))")
            reached.merge(world.counts) { $0 + $1 }
        }
        let bounds = ["requests refused behind", "messages left out", "frames left out", "peers cut off"]
        let counts = bounds.map { reached[$0, default: 0] }
        #expect(counts.count { $0 > 0 } >= 3, "\(counts)")
    }
}
