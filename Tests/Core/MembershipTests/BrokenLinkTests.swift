import Model
import Simulator
import Testing

@testable import Membership

/// A connection that breaks is a reason to suspect a node, but not again and again.
@Suite("Links that break") struct BrokenLinkTests {
    /// Breaks the connection between nodes 0 and 1 every 1.5 s, while gossip passes.
    private func flap(_ world: GossipWorld, for seconds: UInt64) {
        for _ in 0..<seconds * 2 / 3 {
            world.breakLink(0, 1)
            world.run(for: .milliseconds(1500))
        }
    }

    private func pair(_ seed: UInt64, _ count: Int = 2) -> GossipWorld {
        let world = GossipWorld(seed: seed)
        for number in 0..<count { world.start(StoryTeller.name(number), seeds: ["a"]) }
        world.run(for: .seconds(5))
        world.forgetChanges()
        return world
    }

    @Test("connections that break for ten minutes raise few suspicions", arguments: UInt64(1)...10)
    func tenMinutes(seed: UInt64) {
        let world = pair(seed)
        let before = [world.incarnation(0), world.incarnation(1)]
        flap(world, for: 600)
        #expect(world.incarnation(0) - before[0] < 10 && world.incarnation(1) - before[1] < 10)
        #expect(world.changes.count < 20)
        #expect(!world.changes.contains { $0.state == .dead })
        world.run(for: .seconds(5))
        #expect((world.view(0) + world.view(1)).allSatisfy { $0.state == .alive })
    }

    @Test("the first break after a quiet time is a suspicion at once", arguments: UInt64(1)...10)
    func aKillIsNoticedAtOnce(seed: UInt64) {
        let world = pair(seed, 5)
        world.breakLink(0, 1)
        world.run(for: .seconds(60))
        world.forgetChanges()
        let killed = world.now
        world.kill(1)
        #expect(world.changes.filter { $0.state == .suspect && $0.subject == "b" }.count == 4)
        world.run(for: .seconds(6))
        let deaths = world.changes.filter { $0.state == .dead && $0.subject == "b" }
        #expect(Set(deaths.map(\.observer)) == [0, 2, 3, 4])
        #expect(deaths.allSatisfy { $0.time.since(killed) <= .milliseconds(1500) })
    }

    /// A node that had to contradict finds itself slow and probes less often. It must not take the silence
    /// for a cut.
    @Test("nobody is cut off because connections break", arguments: UInt64(1)...10)
    func slowNodesAreNotCutOff(seed: UInt64) {
        var options = Membership.Options()
        options.isolation = 2 * options.probeInterval
        options.doubtsMin = .zero
        options.doubtsMax = .zero
        let world = GossipWorld(seed: seed, options: options)
        world.network.delayMax = .milliseconds(1)
        for number in 0..<2 { world.start(StoryTeller.name(number), seeds: ["a"]) }
        world.run(for: .seconds(5))
        world.forgetChanges()
        for _ in 0..<20 {
            world.breakLink(0, 1)
            world.run(for: .milliseconds(100))
        }
        world.run(for: .seconds(20))
        #expect(world.isolations.isEmpty)
    }
}
