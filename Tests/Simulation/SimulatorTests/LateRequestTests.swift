import Model
import Partitions
import Routing
import Testing

@testable import NodeCore
@testable import Simulator

/// Requests that lie on their way or in a process that sleeps (rule: deadlines-travel).
@Suite("A late request")
struct LateRequestTests {
    enum Hindrance: CaseIterable {
        case none, cut, sleep, standstill
    }

    /// A cluster that works, a gateway of it, and a partition that another process serves.
    private func boot(
        _ planted: PlantedInNode
    ) throws -> (ClusterSimulation, SimulatedProcess, PartitionID, ProcessID) {
        var options = ClusterSimulation.Options(seed: 1)
        options.hasFaults = false
        options.planted = planted
        let world = ClusterSimulation(options)
        world.boot()
        let gateway = try #require(world.slots[0].process)
        for partition in (0..<UInt16(options.partitionCount)).map(PartitionID.init) {
            if case .peer(let processID) = gateway.loops[0].core.places[partition] {
                return (world, gateway, partition, processID)
            }
        }
        throw Nobody()
    }
    private struct Nobody: Error {}

    /// A gateway asks an owner in another process. The request has 4 s, and the owner reads a hindered one
    /// after 5 s.
    /// - Parameter hurry: by how much the world believes the deadline to be earlier.
    private func ask(
        _ hindrance: Hindrance, _ planted: PlantedInNode = [], hurry: TimeSpan = .zero
    ) throws -> ClusterSimulation {
        let (world, gateway, partition, processID) = try boot(planted)
        let owner = try #require(world.process(of: processID))
        let members = Request.members(project: ProjectNumber(1), world.topic(0))
        func ask(_ number: UInt64) {
            let loop = gateway.loops[0]
            let id = RequestID(gateway: loop.core.gateway, number: 1 << 40 | number)
            let deadline = Deadline(gateway.clock.monotonic.advanced(by: .seconds(4)))
            world.deadlines[id] = (world.now + .seconds(4)).rewound(by: hurry)
            loop.core.ask(partition, id, request: members, deadline: deadline)
            loop.turn()
        }
        // The connection is there, and has carried a ping.
        ask(1)
        world.run(until: world.now + .seconds(3))
        #expect(world.counts["late requests"] == nil)
        switch hindrance {
        case .none: break
        case .cut: world.network.cut(gateway.index, owner.index)
        case .sleep: world.freeze(owner, for: .seconds(5))
        case .standstill: world.freeze(owner, for: .seconds(5), stopsClock: true)
        }
        ask(2)
        world.run(until: world.now + .seconds(5))
        world.network.healAll()
        world.run(until: world.now + .seconds(1))
        return world
    }

    @Test("is dropped unread", arguments: [Hindrance.none, .cut, .sleep])
    func dropped(_ hindrance: Hindrance) throws {
        let world = try ask(hindrance)
        #expect(world.violations.isEmpty, "\(world.violations)")
        #expect(world.counts["late requests", default: 0] == (hindrance == .none ? 0 : 1))
    }

    /// The owner cannot know how long the request lay: it may be late by that much, and by no more
    /// (guarantees, G1).
    @Test("is carried out by a machine whose clock stood still meanwhile")
    func standstill() throws {
        let world = try ask(.standstill)
        #expect(world.violations.isEmpty, "\(world.violations)")
        #expect(world.counts["late requests"] == nil)
        let late = try ask(.standstill, hurry: .seconds(6))
        #expect(late.violations.contains { $0.guarantee == "deadlines-travel" })
    }

    @Test("is seen where it is done nevertheless", arguments: [Hindrance.cut, .sleep])
    func planted(_ hindrance: Hindrance) throws {
        let world = try ask(hindrance, .ignoreDeadlines)
        #expect(world.violations.contains { $0.guarantee == "deadlines-travel" })
    }

    /// A gateway sends a request to the owner of an earlier epoch, which is the same process.
    private func askTheFormer(_ planted: PlantedInNode) throws -> ClusterSimulation {
        let (world, gateway, partition, processID) = try boot(planted)
        let loop = gateway.loops[0]
        let id = RequestID(gateway: loop.core.gateway, number: 1 << 40)
        // No owner may carry the request out.
        world.deadlines[id] = .zero
        let former = Epoch(loop.core.places.epoch(of: partition).rawValue - 1)
        let members = Request.members(project: ProjectNumber(1), world.topic(0))
        let asked = PeerMessage.request(partition, former, id, members, left: 20_000)
        loop.post(.order(.say(asked, to: [processID])))
        world.run(until: world.now + .seconds(1))
        return world
    }

    @Test("to the owner of an earlier epoch is not done by the same process as a later owner")
    func formerEpoch() throws {
        #expect(try askTheFormer([]).violations.isEmpty)
        #expect(try askTheFormer(.ignoreEpochs).violations.contains { $0.guarantee == "deadlines-travel" })
    }
}
