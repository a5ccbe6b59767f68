import Testing

@testable import PushScheduling

/// Breaks each invariant of the pools, in machines at work.
@Suite("The invariants of a pool")
struct PoolInvariantTests {
    /// A machine, one of its pools, and that pool's connection.
    private struct Scene {
        let world: PoolWorld
        let pool: Pool
        let connection: Connection
    }

    private func other(_ number: Int) -> APNsPool {
        var pool = PoolWorld.pool
        pool.keyID = "KEY000001\(number)"
        return pool
    }

    /// Requests 2 and 3 are under way, 4 leaves again, 5 and 6 have not left yet. With `isQuiet` only 2 and 3
    /// are there.
    private func scene(isQuiet: Bool = false) throws -> Scene {
        let world = PoolWorld {
            $0.waitingMax = 3
            $0.triesMax = 2
            $0.connectionsPerPoolMax = 3
            $0.connectionsMax = 4
            $0.connectingMax = 1
        }
        let id = try #require(world.proven())
        world.submit(2)
        if !isQuiet {
            world.submit()
            world.refuse(id)
            world.submit(2)
        }
        let pool = try #require(world.machine.pools[PoolWorld.pool])
        #expect(world.underWay[id] == [2, 3])
        #expect(pool.again == (isQuiet ? [] : [4]) && Array(pool.waiting) == (isQuiet ? [] : [5, 6]))
        return Scene(world: world, pool: pool, connection: try #require(pool.connections.first))
    }

    private func isSeen(
        _ invariant: String, isQuiet: Bool = false, sourceLocation: SourceLocation = #_sourceLocation,
        _ change: (Scene) throws -> Void
    ) throws {
        let scene = try scene(isQuiet: isQuiet)
        try change(scene)
        #expect(scene.world.machine.brokenInvariant == invariant, sourceLocation: sourceLocation)
    }

    @Test("are seen broken by its requests")
    func requests() throws {
        try isSeen("a request waits twice") { $0.pool.waiting.append(5) }
        try isSeen("a request waits that is answered") { $0.world.machine.requests[5] = nil }
        try isSeen("requests leave again out of order") {
            $0.pool.again = [4, 5]
            _ = $0.pool.waiting.popFirst()
        }
        try isSeen("a request is of a pool that is forgotten") { $0.world.machine.pools = [:] }
        try isSeen("a request is nowhere, or in two places") { _ = $0.pool.waiting.popFirst() }
        try isSeen("a request has left too often") { $0.world.machine.requests[2]?.tries = 3 }
        try isSeen("a request is on no connection") { $0.world.machine.connections = [:] }
        try isSeen("a request is on another pool's connection") { scene in
            let other = Pool(other(1), number: 9, now: scene.world.now)
            let made = scene.world.machine.makeConnection(of: other, scene.world.now)
            // The pool keeps its connection, and nobody else keeps the pool.
            scene.world.machine.pools[other.key] = other
            scene.world.machine.requests[2]?.connection = made
        }
        try isSeen("waiting requests are counted wrong") { $0.world.machine.waiting += 1 }
        try isSeen("more requests wait than may") { scene in
            scene.pool.again = []
            for ticket in [4, 2] as [UInt64] { scene.pool.waiting.append(ticket) }
            scene.world.machine.requests[2]?.connection = nil
            scene.world.machine.waiting = 4
        }
    }

    @Test("are seen broken by its turns and its number of connections")
    func pools() throws {
        try isSeen("a pool stands in turns twice") { scene in
            for _ in 0..<2 { scene.world.machine.turns.append(scene.pool) }
        }
        try isSeen("a pool's turn is noted wrong") { $0.pool.isInTurns = true }
        try isSeen("a pool has too many connections") { try make(3, $0) }
        try isSeen("a pool has too many connections that end") { scene in
            for made in try make(6, scene) { made.state = .closing(reason: "", isOrderly: true) }
        }
        try isSeen("a pool begins two connections at once") { try make(2, $0) }
        try isSeen("nobody looks in time at a request that waits") { $0.world.machine.nextWake = nil }
        try isSeen("a pool has a connection that is gone") { scene in
            scene.pool.connections.append(
                Connection(APNsConnectionID(99), of: scene.pool, peerMax: 1, now: scene.world.now))
        }
    }

    @Test("are seen broken by its connections")
    func connections() throws {
        try isSeen("connections in the making are counted wrong") { $0.world.machine.connecting += 1 }
        try isSeen("too many connections are in the making", isQuiet: true) { scene in
            scene.world.submit(1, to: other(1))
            let second = Pool(other(2), number: 9, now: scene.world.now)
            scene.world.machine.pools[second.key] = second
            _ = scene.world.machine.makeConnection(of: second, scene.world.now)
        }
        try isSeen("there are too many connections") { scene in
            for made in try make(2, scene) + make(2, scene) {
                made.state = .draining
                made.opened = scene.world.now
                scene.world.machine.connecting -= 1
            }
        }
        try isSeen("a connection is not its pool's") { $0.pool.connections = [] }
        try isSeen("a connection's requests are counted wrong") { $0.connection.open += 1 }
        try isSeen("a request left before its connection") {
            $0.connection.opened = nil
            $0.world.machine.connecting += 1
        }
        try isSeen("more streams are open than the service allows") { $0.connection.peerMax = 1 }
        try isSeen("a request under way has no deadline") { $0.connection.left.removeAll() }
        try isSeen("nobody looks in time at a request under way", isQuiet: true) {
            $0.world.machine.nextWake = nil
        }
        try isSeen("nobody looks in time at a connection in the making", isQuiet: true) { scene in
            for ticket: UInt64 in [2, 3] {
                scene.world.machine.answered(ticket, status: 200, now: scene.world.now)
            }
            try make(1, scene)
            scene.world.machine.nextWake = nil
        }
    }

    @discardableResult
    private func make(_ count: Int, _ scene: Scene) throws -> [Connection] {
        (0..<count).map { _ in scene.world.machine.makeConnection(of: scene.pool, scene.world.now) }
    }
}
