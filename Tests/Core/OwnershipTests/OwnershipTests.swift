import Model
import Ownership
import Placement
import Testing

private let second = TimeSpan.seconds(1)

@Suite("Ownership of partitions")
struct OwnershipTests {
    private func expectWhole(_ world: OwnershipWorld, _ what: String) {
        #expect(world.violations.isEmpty, "\(what): \(world.violations.prefix(3))")
        #expect(world.unserved.isEmpty, "\(what): nobody serves \(world.unserved)")
    }

    @Test(
        "every partition is where rendezvous hashing says, once all nodes are there",
        arguments: UInt64(1)...10)
    func decision(seed: UInt64) throws {
        let world = try OwnershipWorld.settled(seed)
        expectWhole(world, "seed \(seed)")
        let placement = NodePlacement(world.nodes.map { .init(name: $0.name) })
        for node in world.nodes {
            #expect(node.status == .serving)
            for partition in node.serving.keys {
                #expect(placement.node(of: partition)?.name == node.name, "seed \(seed)")
            }
        }
        #expect(Set(world.nodes.map { $0.routes }).count == 1, "all nodes know the same routes")
    }

    @Test("a dead node's partitions are served again within seconds", arguments: UInt64(1)...30)
    func failover(seed: UInt64) throws {
        let world = try OwnershipWorld.settled(seed)
        world.longestGap = [:]
        world.crash(Int(seed % 3))
        world.run(for: 6 * second)
        expectWhole(world, "seed \(seed)")
        #expect((world.longestGap.values.max() ?? .zero) < 3 * second, "seed \(seed): \(world.longestGap)")
    }

    /// Each node renews its lease that much later, and a lease is a second and a half.
    @Test(
        "where every commit takes seconds a dead node is fenced all the same, and no other one",
        arguments: zip(UInt64(1)...12, [5, 10, 15, 20, 30, 39, 5, 10, 15, 20, 30, 39] as [UInt64]))
    func slowDatabase(seed: UInt64, tenths: UInt64) throws {
        let world = try OwnershipWorld.settled(seed)
        world.slowness = tenths * second / 10
        let seconds = tenths / 10 + 1
        world.run(for: 12 * seconds * second)
        #expect(world.nodes.allSatisfy { $0.status == .serving }, "seed \(seed)")
        let sessions = world.nodes.map(\.machine.session)
        let dead = Int(seed % 3)
        world.crash(dead)
        world.run(for: (20 + 16 * seconds) * second)
        #expect(try !world.engine.isAlive(sessions[dead]), "seed \(seed)")
        #expect(world.nodes.map(\.machine.session) == sessions, "seed \(seed)")
        expectWhole(world, "seed \(seed)")
    }

    @Test("a node that stalls for less than its lease loses nothing", arguments: UInt64(1)...20)
    func shortStall(seed: UInt64) throws {
        let world = try OwnershipWorld.settled(seed)
        let before = world.nodes.map(\.machine.session)
        world.nodes[0].asleepUntil = world.now + .milliseconds(900)
        world.run(for: 5 * second)
        expectWhole(world, "seed \(seed)")
        #expect(world.nodes.map(\.machine.session) == before)
    }

    @Test("a sleeper is fenced, finds it out, and begins again", arguments: UInt64(1)...20)
    func sleeper(seed: UInt64) throws {
        let world = try OwnershipWorld.settled(seed)
        let former = world.nodes[1].machine.session
        world.nodes[1].asleepUntil = world.now + 9 * second
        world.run(for: 7 * second)
        #expect(try !world.engine.isAlive(former), "three leases alone are enough")
        world.run(for: 14 * second)
        expectWhole(world, "seed \(seed)")
        #expect(world.nodes[1].machine.session != former && !world.nodes[1].serving.isEmpty, "seed \(seed)")
    }

    @Test("a node that leaves gives up everything, and no partition waits long", arguments: UInt64(1)...30)
    func leaving(seed: UInt64) throws {
        let world = try OwnershipWorld.settled(seed)
        world.longestGap = [:]
        let node = Int(seed % 3)
        let run = world.runs[node]
        let count = world.nodes[node].serving.count
        world.followedCount = 0
        world.after(.zero) { world.tell(node, run, .leave) }
        world.run(for: 4 * second)
        #expect(world.nodes[node].hasLeft, "seed \(seed)")
        expectWhole(world, "seed \(seed)")
        #expect(world.followedCount == count, "each heir has read what it gets, seed \(seed)")
        #expect((world.longestGap.values.max() ?? .zero) < second / 8, "seed \(seed): \(world.longestGap)")
    }

    @Test("heirs that cannot be told hold nobody up for long", arguments: UInt64(1)...20)
    func unheardHeirs(seed: UInt64) throws {
        let world = try OwnershipWorld.settled(seed)
        world.isSpeechless = true
        let run = world.runs[0]
        world.after(.zero) { world.tell(0, run, .leave) }
        world.run(for: 10 * second)
        #expect(world.nodes[0].hasLeft, "seed \(seed)")
        expectWhole(world, "seed \(seed)")
    }

    @Test("a node that joins gets its share, and nothing moves between the others", arguments: UInt64(1)...20)
    func joining(seed: UInt64) throws {
        let world = try OwnershipWorld.settled(seed)
        let before = world.nodes.map { Set($0.serving.keys) }
        try world.start("node-new", weight: 2)
        world.run(for: 12 * second)
        expectWhole(world, "seed \(seed)")
        for (index, had) in before.enumerated() {
            #expect(Set(world.nodes[index].serving.keys).isSubset(of: had), "seed \(seed)")
        }
        #expect(!world.nodes[3].serving.isEmpty, "seed \(seed)")
    }

    @Test("a node that cannot reach the engine says so, and is succeeded", arguments: UInt64(1)...10)
    func blind(seed: UInt64) throws {
        let world = try OwnershipWorld.settled(seed)
        world.nodes[2].isBlind = true
        world.run(for: 4 * second)
        guard case .unreachable = world.nodes[2].status else {
            Issue.record("seed \(seed): \(world.nodes[2].status)")
            return
        }
        world.run(for: 6 * second)
        expectWhole(world, "seed \(seed)")
        world.nodes[2].isBlind = false
        world.run(for: 12 * second)
        expectWhole(world, "seed \(seed), after it came back")
        #expect(!world.nodes[2].serving.isEmpty, "seed \(seed)")
    }

    @Test("a node whose engine does not answer says so within its lease", arguments: UInt64(1)...10)
    func unanswered(seed: UInt64) throws {
        let world = try OwnershipWorld.settled(seed)
        world.nodes[1].isUnanswered = true
        world.run(for: .milliseconds(2100))
        guard case .unreachable = world.nodes[1].status else {
            Issue.record("seed \(seed): \(world.nodes[1].status)")
            return
        }
        world.nodes[1].isUp = false
        world.run(for: 8 * second)
        expectWhole(world, "seed \(seed)")
    }

    @Test(
        "an engine that answered nobody for long makes nobody dead when it answers", arguments: UInt64(1)...20
    )
    func stalledEngine(seed: UInt64) throws {
        let world = try OwnershipWorld.settled(seed)
        let before = world.nodes.map(\.machine.session)
        for node in world.nodes.indices { world.nodes[node].isUnanswered = true }
        world.run(for: 30 * second)
        world.answerAll()
        world.run(for: 8 * second)
        expectWhole(world, "seed \(seed)")
        #expect(world.nodes.map(\.machine.session) == before, "seed \(seed)")
        #expect(try before.allSatisfy { try world.engine.isAlive($0) }, "seed \(seed)")
    }

    @Test("an engine that was away for all makes nobody dead", arguments: UInt64(1)...10)
    func engineAway(seed: UInt64) throws {
        let world = try OwnershipWorld.settled(seed)
        let before = world.nodes.map(\.machine.session)
        for node in world.nodes.indices { world.nodes[node].isBlind = true }
        world.run(for: 30 * second)
        for node in world.nodes.indices { world.nodes[node].isBlind = false }
        world.run(for: 6 * second)
        expectWhole(world, "seed \(seed)")
        #expect(world.nodes.map(\.machine.session) == before, "seed \(seed)")
    }

    @Test("random crashes, naps, leaves and joins end with every partition served", arguments: UInt64(1)...60)
    func everything(seed: UInt64) throws {
        let world = try OwnershipWorld.settled(seed, nodes: 4)
        for step in 0..<12 as Range<UInt64> {
            let node = Int(world.random.next(upperBound: UInt64(4)))
            world.after(step * 2 * second) {
                switch world.random.next(upperBound: UInt64(4)) {
                case 0:
                    world.crash(node)
                    world.after(world.random.next(upperBound: 5 * second)) {
                        _ = try? world.start(world.nodes[node].name)
                    }
                case 1: world.nodes[node].asleepUntil = world.now + world.random.next(upperBound: 8 * second)
                case 2:
                    world.nodes[node].isBlind = true
                    world.after(world.random.next(upperBound: 6 * second)) {
                        world.nodes[node].isBlind = false
                    }
                default: world.tell(node, world.runs[node], .nudged)
                }
            }
        }
        world.run(for: 50 * second)
        expectWhole(world, "seed \(seed)")
    }
}

@Suite("Placement over nodes")
struct NodePlacementTests {
    private let all = (0..<256).map { PartitionID(UInt16($0)) }

    @Test("a node that joins takes only its own, a node that leaves gives only its own")
    func minimalMovement() {
        var random = SeededGenerator(seed: 1)
        for count in 1...9 {
            let nodes = (0..<count).map { NodePlacement.Candidate(name: "n\($0)", weight: UInt8($0 % 3 + 1)) }
            let before = NodePlacement(nodes)
            let joined = NodePlacement(nodes.shuffled(using: &random) + [.init(name: "new", weight: 2)])
            for partition in all {
                let now = joined.node(of: partition)?.name
                #expect(now == "new" || now == before.node(of: partition)?.name)
            }
        }
    }

    @Test("shares follow weights")
    func shares() {
        let placement = NodePlacement([.init(name: "a", weight: 1), .init(name: "b", weight: 3)])
        let share = (0..<4096).count { placement.node(of: PartitionID(UInt16($0)))?.name == "b" }
        #expect((2900...3250).contains(share), "\(share) of 4096")
        #expect(NodePlacement([]).node(of: PartitionID(0)) == nil)
    }
}
