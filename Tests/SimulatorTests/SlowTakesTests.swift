import Model
import NodeCore
import Testing

@testable import Simulator

/// A database whose commits take long: a disk in trouble, or a standby far away.
@Suite("An heir whose takes take seconds")
struct SlowTakesTests {
    /// One of three shards dies; the others have a dozen takes each to make, one after the other.
    @Test("is not fenced", arguments: [3, 5] as [UInt64])
    func slowTakes(seed: UInt64) throws {
        var options = ClusterSimulation.Options(seed: seed)
        options.hasFaults = false
        options.partitionCount = 64
        options.partition.partitionCount = 64
        let world = ClusterSimulation(options)
        world.boot()
        for database in world.databases { database.takesLast = .milliseconds(1500) }
        let dead = try #require(world.slots[1].process)
        let others = world.slots.indices.filter { $0 != 1 }.compactMap { world.slots[$0].process?.session }
        world.end(dead, fences: false)
        let limit = world.now + .seconds(150)
        while world.now < limit, !world.isServed { world.run(until: world.now + .seconds(1)) }
        #expect(world.violations.isEmpty, "\(world.violations.prefix(3))")
        #expect(world.counts["fences", default: 0] >= 1)
        for session in others { #expect(try world.home.engine.isAlive(session)) }
        #expect(world.isServed, "\(world.unserved)")
    }
}
