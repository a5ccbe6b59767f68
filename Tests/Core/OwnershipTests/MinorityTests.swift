import Model
import Ownership
import Testing

/// A node that sees less than half of the nodes whose leases move gives its partitions up; no node is fenced
/// for that.
@Suite("The minority of a cut that the engine does not notice") struct MinorityTests {
    private let second = TimeSpan.seconds(1)

    /// Cuts gossip between the two sides, or lets it pass again.
    private func gossip(_ world: OwnershipWorld, _ one: [Int], _ other: [Int], isCut: Bool) {
        for left in one {
            for right in other {
                for (observer, subject) in [(left, right), (right, left)] {
                    let session = world.nodes[subject].machine.session
                    world.tell(observer, world.runs[observer], .suspected(session, isCut))
                }
            }
        }
    }

    private func serving(_ world: OwnershipWorld) -> [Bool] { world.nodes.map { !$0.serving.isEmpty } }

    @Test("hands its partitions over, and comes back after the cut", arguments: UInt64(0)..<8)
    func itHandsOverAndComesBack(seed: UInt64) throws {
        let world = try OwnershipWorld.settled(seed, nodes: 5)
        let sessions = world.nodes.map(\.machine.session)
        gossip(world, [0, 1], [2, 3, 4], isCut: true)
        world.run(for: 5 * second)
        #expect(serving(world) == [false, false, true, true, true], "seed \(seed)")
        #expect(world.nodes[0].status == .cutOff && world.nodes[2].status == .serving)
        #expect(world.unserved.isEmpty && world.violations.isEmpty, "seed \(seed)")
        gossip(world, [0, 1], [2, 3, 4], isCut: false)
        world.run(for: 10 * second)
        #expect(serving(world) == [true, true, true, true, true], "seed \(seed)")
        #expect(world.nodes.map(\.machine.session) == sessions, "nobody was fenced, seed \(seed)")
        #expect(world.nodes[0].status == .serving && world.violations.isEmpty)
    }

    /// Of two equal halves the one with the lowest session stays.
    @Test("is the half without the lowest session where both halves are equal", arguments: UInt64(0)..<8)
    func onATieTheLowestStays(seed: UInt64) throws {
        let world = try OwnershipWorld.settled(seed, nodes: 4)
        gossip(world, [1, 2], [0, 3], isCut: true)
        world.run(for: 5 * second)
        #expect(serving(world) == [true, false, false, true], "seed \(seed)")
        #expect(world.unserved.isEmpty && world.violations.isEmpty, "seed \(seed)")
    }

    /// A single node that hears nobody.
    @Test("may be one isolated node, which hands over and comes back", arguments: UInt64(0)..<8)
    func whoIsIsolatedHandsOver(seed: UInt64) throws {
        let world = try OwnershipWorld.settled(seed, nodes: 3)
        world.tell(0, world.runs[0], .isolated(true))
        world.run(for: 5 * second)
        #expect(serving(world) == [false, true, true], "seed \(seed)")
        world.tell(0, world.runs[0], .isolated(false))
        world.run(for: 10 * second)
        #expect(serving(world) == [true, true, true], "seed \(seed)")
    }

    /// The other nodes cut its links, and neither its gossip nor its lease.
    @Test("may be one node whose certificate is refused, until it has another", arguments: UInt64(0)..<8)
    func whoIsRefusedHandsOver(seed: UInt64) throws {
        let world = try OwnershipWorld.settled(seed, nodes: 3)
        let sessions = world.nodes.map(\.machine.session)
        world.tell(0, world.runs[0], .certificateRefused(true))
        world.run(for: 5 * second)
        #expect(serving(world) == [false, true, true], "seed \(seed)")
        #expect(world.nodes[0].status == .refused && world.unserved.isEmpty, "seed \(seed)")
        world.tell(0, world.runs[0], .certificateRefused(false))
        world.run(for: 10 * second)
        #expect(serving(world) == [true, true, true] && world.nodes[0].status == .serving, "seed \(seed)")
        #expect(world.nodes.map(\.machine.session) == sessions && world.violations.isEmpty, "seed \(seed)")
    }

    /// The dead are no majority: a node that survives two of three goes on.
    @Test("is not a node whose peers are dead: it goes on", arguments: UInt64(0)..<8)
    func theDeadAreNoMajority(seed: UInt64) throws {
        let world = try OwnershipWorld.settled(seed, nodes: 3)
        world.crash(1)
        world.crash(2)
        world.tell(0, world.runs[0], .isolated(true))
        world.run(for: 6 * second)
        #expect(world.nodes[0].status == .serving, "seed \(seed)")
        #expect(world.nodes[0].serving.count == 16 && world.violations.isEmpty, "seed \(seed)")
    }

    /// Gossip that falsely holds a node dead moves nothing while its lease moves.
    @Test("is not a node that gossip holds dead while its lease moves", arguments: UInt64(0)..<4)
    func aFalseDeathMovesNothing(seed: UInt64) throws {
        let world = try OwnershipWorld.settled(seed, nodes: 5)
        let before = world.nodes.map { Set($0.serving.keys) }
        let session = world.nodes[3].machine.session
        for other in [0, 1] { world.tell(other, world.runs[other], .suspected(session, true)) }
        world.run(for: 8 * second)
        #expect(world.nodes.map { Set($0.serving.keys) } == before, "seed \(seed)")
    }

    /// A node follows gossip about an owner to a higher epoch only, and to living sessions only.
    @Test("follows gossip about an owner to a higher epoch and a living session only")
    func routesAreFollowedUpward() throws {
        let world = try OwnershipWorld.settled(1, nodes: 3)
        let before = world.nodes[0].routes
        let (id, route) = try #require(
            before.enumerated().compactMap { index, route in
                route.map { (PartitionID(UInt16(index)), $0) }
            }.first { $0.1.session == world.nodes[1].machine.session })
        let heir = world.nodes[2].machine.session
        func hear(_ session: SessionID, _ epoch: UInt64) -> Ownership.Route? {
            world.tell(
                0, world.runs[0], .heard(id, .init(session: session, epoch: Epoch(epoch))))
            world.run(for: second / 100)
            return world.nodes[0].routes[Int(id.rawValue)]
        }
        #expect(hear(heir, route.epoch.rawValue) == route, "not higher")
        #expect(hear(SessionID(9999), route.epoch.rawValue + 1) == route, "nobody's session")
        #expect(hear(heir, route.epoch.rawValue + 2)?.session == heir)
        #expect(hear(world.nodes[1].machine.session, route.epoch.rawValue + 1)?.session == heir, "lower")
    }
}
