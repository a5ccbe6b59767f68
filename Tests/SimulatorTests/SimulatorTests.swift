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

    @Test("runs the same twice")
    func determinism() {
        let first = Simulation(.init(seed: 7))
        let second = Simulation(.init(seed: 7))
        _ = first.run()
        _ = second.run()
        #expect(first.digest == second.digest)
    }
}
