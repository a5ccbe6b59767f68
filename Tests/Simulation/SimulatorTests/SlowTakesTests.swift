import Model
import Testing

@testable import Simulator

/// A database whose commits take long: a disk in trouble, or a standby far away.
@Suite("An heir whose takes take seconds")
struct SlowTakesTests {
    /// One of three shards dies; the others have several takes each to make, one after the other.
    private func run(_ planted: PlantedInCluster = []) throws -> (ClusterSimulation, living: Bool) {
        var options = ClusterSimulation.Options(seed: 3)
        options.hasFaults = false
        options.partitionCount = 64
        options.partition.partitionCount = 64
        options.plantedInCluster = planted
        let world = ClusterSimulation(options)
        world.boot()
        for database in world.databases { database.takesLast = .milliseconds(1500) }
        let dead = try #require(world.slots[1].process)
        let others = world.slots.indices.filter { $0 != 1 }.compactMap { world.slots[$0].process?.session }
        world.end(dead, fences: false)
        let limit = world.now + .seconds(150)
        while world.now < limit, !world.isServed, world.violations.isEmpty {
            world.run(until: world.now + .seconds(1))
        }
        return (world, try others.allSatisfy { try world.home.engine.isAlive($0) })
    }

    @Test("is not fenced")
    func slowTakes() throws {
        let (world, living) = try run()
        #expect(world.violations.isEmpty, "\(world.violations.prefix(3))")
        #expect(living && world.isServed, "\(world.unserved)")
    }

    @Test("is fenced where its lease waits for them")
    func planted() throws {
        let (world, living) = try run(.leaseBehindTakes)
        #expect(!living && world.violations.contains { $0.guarantee == "G7" })
    }
}
