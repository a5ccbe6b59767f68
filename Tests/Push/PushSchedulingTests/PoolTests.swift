import Model
import Testing

@testable import PushScheduling

@Suite("A pool of connections to Apple's service")
struct PoolTests {
    @Test("makes one connection for many requests, and sends one until the service takes the token")
    func unproven() throws {
        let world = PoolWorld()
        world.submit(50)
        #expect(world.connecting.count == 1)
        let id = try #require(world.connect(streams: 1_000))
        #expect(world.count(id) == 1)
        // A refusal may come before Apple looks at the token.
        world.answer(id, 403)
        #expect(world.count(id) == 1)
        world.answer(id, 400)
        #expect(world.count(id) == 1)
        world.answer(id, 200)
        #expect(world.count(id) == 47)
        #expect(world.begun.count == 1)
    }

    @Test("takes the news of a dead device for a sign that its token is good")
    func gone() throws {
        let world = PoolWorld()
        world.submit(5)
        let id = try #require(world.connect())
        world.answer(id, 410)
        #expect(world.count(id) == 4)
    }

    @Test("opens as many streams as the service allows at the moment, and as its own bound allows")
    func bounds() throws {
        let world = PoolWorld { $0.streamsMax = 20 }
        let id = try #require(world.proven(streams: 8))
        world.submit(100)
        #expect(world.count(id) == 8)
        world.machine.allowed(3, on: id, now: world.now)
        world.answer(id, count: 5)
        #expect(world.count(id) == 3)
        world.answer(id)
        #expect(world.count(id) == 3)
        world.machine.allowed(0, on: id, now: world.now)
        world.answer(id, count: 3)
        #expect(world.count(id) == 0)
        world.machine.allowed(10_000, on: id, now: world.now)
        world.settle()
        #expect(world.count(id) == 20)
    }

    @Test(
        "makes further connections only where requests wait for streams, one after the other, up to a bound")
    func load() throws {
        let world = PoolWorld {
            $0.connectionsPerPoolMax = 3
            $0.busyPing = .zero
            $0.answerMax = .seconds(100)
            $0.waitMax = .seconds(100)
        }
        let first = try #require(world.proven(streams: 10))
        world.pass(.seconds(5))
        world.submit(10)
        world.pass(.seconds(5))
        #expect(world.begun.count == 1)
        world.submit(90)
        world.pass(.milliseconds(499))
        #expect(world.begun.count == 1)
        world.pass(.milliseconds(1))
        #expect(world.begun.count == 2)
        world.pass(.seconds(9))
        #expect(world.begun.count == 2)
        let second = try #require(world.connect(streams: 10))
        // The second one has to prove itself before there is a third one.
        world.pass(.seconds(5))
        #expect(world.count(second) == 1 && world.connecting.isEmpty)
        world.answer(second)
        #expect(world.count(second) == 10)
        world.pass(.seconds(1))
        let third = try #require(world.connect(streams: 10))
        world.answer(third)
        world.pass(.seconds(20))
        #expect(world.begun.count == 3)
        #expect(world.count(first) == 10 && world.count(third) == 10)
    }

    @Test("takes half of all connections at most, so that pools without one have the other half")
    func half() throws {
        let world = PoolWorld {
            $0.connectionsMax = 6
            $0.busyPing = .zero
            $0.answerMax = .seconds(1_000)
            $0.waitMax = .seconds(1_000)
        }
        world.submit(50)
        for _ in 0..<20 {
            if let id = world.connect(streams: 2) { world.answer(id) }
            world.pass(.seconds(2))
        }
        #expect(world.open.count == 3, "half of six, although four of one pool are allowed")
        for number in 0..<5 {
            var other = PoolWorld.pool
            other.teamID = "TEAM10000\(number)"
            world.submit(1, to: other)
        }
        #expect(world.connecting.count == 3, "the other half goes to pools that have none")
    }

    @Test("spreads requests over its connections")
    func spread() throws {
        let world = PoolWorld()
        let first = try #require(world.proven(streams: 10))
        world.submit(20)
        world.pass(.milliseconds(1_500))
        let second = try #require(world.connect(streams: 10))
        world.answer(second)
        world.answer(first, count: 10)
        world.answer(second, count: 10)
        world.submit(8)
        #expect(world.count(first) == 4 && world.count(second) == 4)
    }

    @Test("keeps pools apart")
    func apart() throws {
        let world = PoolWorld()
        var other = PoolWorld.pool
        other.teamID = "TEAM000002"
        world.submit(3)
        world.submit(3, to: other)
        #expect(world.connecting.count == 2)
        let ids = [try #require(world.connect()), try #require(world.connect())]
        for id in ids { world.answer(id, count: 3) }
        #expect(world.answered == [1, 2, 3, 4, 5, 6])
        var key = PoolWorld.pool
        key.keyID = "KEY0000002"
        world.submit(1, to: key)
        #expect(world.connecting.count == 1)
    }

    // MARK: Bounds of requests

    @Test("answers requests that have waited for too long: they were not sent")
    func wait() {
        let world = PoolWorld()
        world.submit(2)
        world.refuseConnection()
        world.pass(.seconds(29))
        let late = world.submit()
        world.pass(.seconds(1))
        for ticket: UInt64 in [1, 2] {
            #expect(world.outcomes[ticket] == .notSent("the request waited for 30000 ms"))
        }
        #expect(world.outcomes[late[0]] == nil)
    }

    @Test("takes no more requests than may wait")
    func full() throws {
        let world = PoolWorld { $0.waitingMax = 5 }
        let tickets = world.submit(7)
        #expect(tickets.filter { world.outcomes[$0] == .notSent("too many requests wait") } == [6, 7])
        let id = try #require(world.connect())
        world.answer(id)
        #expect(world.count(id) == 4)
        world.submit(3)
        #expect(world.outcomes.count == 2)
    }

    @Test("gives up a request that gets no answer, and a connection that answers nothing")
    func silence() throws {
        let world = PoolWorld { $0.busyPing = .zero }
        let id = try #require(world.proven())
        world.submit(2)
        world.pass(.seconds(29))
        #expect(world.cancelled == [])
        world.pass(.seconds(1))
        #expect(world.cancelled == [2, 3])
        #expect(world.outcomes[2] == .failed("too late"))
        #expect(world.closed == [])
        // One answer shows that the service does answer.
        world.submit()
        world.answer(id)
        world.submit(3)
        world.pass(.seconds(30))
        #expect(world.closed == [id])
        #expect(world.news.contains(.broke(reason: "the service does not answer")))
    }

    // MARK: Time

    @Test("notices within 30 s of a request that nobody is there, and asks while it is idle")
    func ping() throws {
        let world = PoolWorld()
        let id = try #require(world.proven())
        world.pass(.seconds(599))
        #expect(world.pings == [])
        world.pass(.seconds(1))
        #expect(world.pings == [id])
        world.machine.heard(id, now: world.now)
        world.pass(.seconds(500))
        world.submit()
        world.pass(.seconds(10))
        #expect(world.pings == [id, id])
        #expect(world.closed == [])
        world.pass(.seconds(10))
        #expect(world.closed == [id])
        #expect(world.outcomes[2] == .failed("the service is silent"))
    }

    /// Before, the machine wanted to be woken at once, again and again, until the PING was late.
    @Test("closes a connection whose idle time is over while a PING is out")
    func idleBehindPing() throws {
        let world = PoolWorld {
            $0.idleMax = .seconds(20)
            $0.idlePing = .milliseconds(19_500)
        }
        let id = try #require(world.proven())
        world.pass(.seconds(25))
        #expect(world.pings == [id] && world.closed == [id])
        #expect(!world.news.contains(.broke(reason: "the service is silent")))
    }

    @Test("keeps an idle connection for hours, and then closes it")
    func idle() throws {
        let world = PoolWorld { $0.idlePing = .zero }
        let id = try #require(world.proven())
        world.pass(.seconds(8 * 3600 - 1))
        #expect(world.closed == [])
        world.pass(.seconds(1))
        #expect(world.closed == [id])
        #expect(world.news == [.connected])
        world.pass(.seconds(1))
        #expect(world.machine.pools.isEmpty)
        world.submit()
        #expect(world.connecting.count == 1)
    }

    @Test("gives up a connection that is not made in time")
    func slowConnection() {
        let world = PoolWorld()
        world.submit()
        world.pass(.seconds(10))
        #expect(world.closed.count == 1)
        #expect(world.news == [.unreachable(reason: "no connection within 10000 ms")])
    }

    @Test("waits longer after each connection that fails, by chance, and never makes two at once")
    func backoff() {
        let world = PoolWorld { $0.waitMax = .seconds(5_000) }
        world.submit(10)
        var pauses: [TimeSpan] = []
        for _ in 0..<12 {
            #expect(world.connecting.count == 1)
            world.refuseConnection()
            let since = world.now
            while world.connecting.isEmpty { world.pass(.milliseconds(100)) }
            pauses.append(world.begun.last?.since(since) ?? .zero)
        }
        for (index, pause) in pauses.enumerated() {
            let most = min(TimeSpan.seconds(2).doubled(times: index), .seconds(300))
            #expect(pause <= most && pause >= most / 2, "\(index)")
        }
        #expect(Set(pauses.suffix(4)).count == 4)
        #expect(world.outcomes == [:])
    }

    // MARK: Bounds of all pools

    @Test("share a bound of connections, and of connections in the making")
    func shared() throws {
        let world = PoolWorld {
            $0.connectionsMax = 3
            $0.connectingMax = 2
            $0.idlePing = .zero
        }
        for number in 0..<4 {
            var pool = PoolWorld.pool
            pool.keyID = "KEY\(number)"
            world.submit(1, to: pool)
        }
        #expect(world.connecting.count == 2)
        let first = try #require(world.connect())
        let second = try #require(world.connect())
        world.pass(.seconds(1))
        #expect(world.connecting.count == 1)
        world.answer(first)
        world.answer(second)
        world.pass(.seconds(10))
        // The third one fails, and its place goes to the fourth pool.
        #expect(world.closed.count == 1)
        world.pass(.seconds(1))
        let third = try #require(world.connect())
        world.answer(third)
        // A pool without a place gets that of the connection that was idle for the longest time.
        world.pass(.seconds(60))
        var late = PoolWorld.pool
        late.keyID = "KEY9"
        world.submit(1, to: late)
        world.pass(.seconds(3))
        #expect(world.closed.contains(first) && !world.closed.contains(second))
        #expect(world.connecting.count == 1)
    }
}
