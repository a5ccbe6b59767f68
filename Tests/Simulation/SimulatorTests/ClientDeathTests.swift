import Model
import Partitions
import Testing

@testable import Simulator

/// Apps and backends end at any moment. The cluster carries their requests out, and nobody gets the answers.
@Suite("Simulated clients that end between a request and its answer")
struct ClientDeathTests {
    private func options(_ seed: UInt64) -> ClusterSimulation.Options {
        var options = ClusterSimulation.Options(seed: seed)
        options.poisons = false
        (options.deathsPerMille, options.unregisterPerMille, options.pushedPerMille) = (150, 40, 500)
        (options.seconds, options.pauseMax) = (20, .milliseconds(250))
        return options
    }

    @Test("lose answers to each kind of request, and no promise is broken")
    func promises() {
        var met: [String: Int] = [:]
        for seed in UInt64(1)...12 {
            let world = ClusterSimulation(options(seed))
            let violations = world.run().violations
            #expect(violations.isEmpty, "seed \(seed): \(violations.prefix(5))")
            met.merge(world.counts) { $0 + $1 }
        }
        for what in ["register", "change", "unregister", "address", "send", "acknowledge", "stream"] {
            #expect(met["clients ended, \(what)", default: 0] > 0, "\(what)")
            // A stream's answer is what comes on the stream.
            guard what != "stream" else { continue }
            #expect(met["answers lost, \(what)", default: 0] > 0, "\(what)")
        }
        #expect(met["sends forgotten", default: 0] > 0)
    }

    @Test("are drawn by some swarms", arguments: UInt64(1)...8)
    func swarms(seed: UInt64) {
        var draw = SwarmDraw(seed: seed)
        let isSet = draw.set("client-deaths 200")
        #expect(isSet)
        let world = ClusterSimulation(draw.options)
        let violations = world.run().violations
        #expect(violations.isEmpty, "seed \(seed) draws \(draw): \(violations.prefix(5))")
        #expect(world.counts.contains { $0.key.hasPrefix("clients ended") && $0.value > 0 })
    }

    @Test("end at the same moments in two runs")
    func determinism() {
        let worlds = (1...2).map { _ in ClusterSimulation(options(7)) }
        for world in worlds { _ = world.run() }
        #expect(worlds[0].digest == worlds[1].digest && worlds[0].counts == worlds[1].counts)
    }

    /// While nothing fails, clients repeat only what they were about to do when they ended.
    @Test("show an answer to a repeated change that does not wait for the topic's partition")
    func unprovenAlready() {
        func broken(_ seed: UInt64, deaths: UInt64) -> Set<String> {
            var options = options(seed)
            options.hasFaults = false
            options.partition.planted = .unprovenAlready
            (options.deathsPerMille, options.pushedPerMille) = (deaths, 0)
            (options.writeMin, options.stopsAtViolation) = (.milliseconds(50), true)
            return Set(ClusterSimulation(options).run().violations.map(\.guarantee))
        }
        #expect((UInt64(1)...10).allSatisfy { broken($0, deaths: 0).isEmpty })
        #expect((UInt64(1)...40).contains { !broken($0, deaths: 300).isDisjoint(with: ["G1", "G2"]) })
    }
}
