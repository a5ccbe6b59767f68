import Model
import Testing

@testable import PushScheduling

@Suite("A pool whose connection ends")
struct PoolEndTests {
    @Test("sends again what the service has not processed, in order, and lets the rest finish (GOAWAY)")
    func goAway() throws {
        let world = PoolWorld()
        let id = try #require(world.proven())
        world.pass(.seconds(100))
        world.submit(10)
        world.machine.goneAway(id, reason: nil, now: world.now)
        world.refuse(id, count: 6)
        #expect(world.count(id) == 4)
        world.submit()
        #expect(world.count(id) == 4)
        world.pass(.seconds(1))
        let next = try #require(world.connect())
        world.answer(next)
        #expect(world.underWay[next] == [7, 8, 9, 10, 11, 12])
        world.answer(id, count: 4)
        #expect(world.closed == [id])
        world.answer(next, count: 6)
        #expect(world.answered == Set(1...12))
        #expect(world.news == [.connected, .goAway(reason: nil), .connected])
    }

    @Test("tells a GOAWAY's reason once")
    func reason() throws {
        let world = PoolWorld()
        let id = try #require(world.proven())
        world.submit()
        for reason in [nil, "Shutdown", "Shutdown", nil] {
            world.machine.goneAway(id, reason: reason, now: world.now)
        }
        world.settle()
        #expect(world.news == [.connected, .goAway(reason: nil), .goAway(reason: "Shutdown")])
    }

    @Test("makes another connection at once where the service shuts down, and where the caller wants it")
    func atOnce() throws {
        for isCaller in [false, true] {
            let world = PoolWorld()
            let id = try #require(world.proven())
            world.pass(.seconds(5))
            world.submit(3)
            if isCaller {
                world.machine.renew(PoolWorld.pool, connection: nil, now: world.now)
            } else {
                world.machine.goneAway(id, reason: "Shutdown", now: world.now)
            }
            world.submit()
            #expect(world.connecting.count == 1)
            #expect(world.closed == [])
            world.answer(id, count: 3)
            #expect(world.closed == [id])
        }
    }

    @Test("does not open and close repeatedly, whatever the service or the caller wants")
    func repeated() throws {
        for isCaller in [false, true] {
            let world = PoolWorld { $0.waitMax = .seconds(10_000) }
            var rounds = 0
            while rounds < 12 {
                world.submit()
                while world.connecting.isEmpty { world.pass(.milliseconds(100)) }
                let id = try #require(world.connect())
                world.answer(id)
                if isCaller {
                    world.machine.renew(PoolWorld.pool, connection: id, now: world.now)
                } else {
                    world.machine.goneAway(id, reason: "Shutdown", now: world.now)
                }
                world.settle()
                rounds += 1
            }
            for (index, (before, after)) in zip(world.begun, world.begun.dropFirst()).enumerated() {
                let least =
                    index == 0 ? .seconds(1) : min(TimeSpan.seconds(1).doubled(times: index), .seconds(150))
                #expect(after.since(before) >= least, "\(index)")
            }
        }
    }

    /// Rounds of one connection each, which the service ends young after so many answers. Returns the longest
    /// time between two connections.
    private func longestGap(answers: Int) throws -> TimeSpan {
        let world = PoolWorld {
            $0.waitMax = .seconds(10_000)
            $0.stableAnswers = 5
        }
        for _ in 0..<10 {
            world.submit(answers)
            while world.connecting.isEmpty { world.pass(.milliseconds(100)) }
            let id = try #require(world.connect())
            world.answer(id, count: answers)
            world.machine.goneAway(id, reason: nil, now: world.now)
            world.settle()
        }
        return zip(world.begun, world.begun.dropFirst()).map { $1.since($0) }.max() ?? .zero
    }

    @Test("counts a connection that has answered much as one that lasted, however young the service ends it")
    func muchAnswered() throws {
        let bounds = APNsClientSettings()
        #expect(try longestGap(answers: 5) <= bounds.connectSpacing + bounds.backoffMin + .milliseconds(200))
        #expect(try longestGap(answers: 4) >= bounds.backoffMin.doubled(times: 7))
    }

    @Test("gives up only the connection that the caller names")
    func renewOne() throws {
        let world = PoolWorld()
        let id = try #require(world.proven())
        world.machine.renew(PoolWorld.pool, connection: id, now: world.now)
        world.settle()
        #expect(world.closed == [id])
        world.pass(.seconds(1))
        world.submit()
        let next = try #require(world.connect())
        for _ in 0..<500 { world.machine.renew(PoolWorld.pool, connection: id, now: world.now) }
        world.settle()
        #expect(world.closed == [id])
        #expect(world.count(next) == 1)
    }

    @Test("reports what was under way as perhaps arrived, and sends again what had not left")
    func broken() throws {
        let world = PoolWorld()
        let id = try #require(world.proven())
        world.pass(.seconds(100))
        let tickets = world.submit(4)
        world.lose(id, reason: "reset", unsent: Set(tickets.suffix(2)))
        world.settle()
        #expect(world.outcomes == [2: .failed("reset"), 3: .failed("reset")])
        #expect(world.news == [.connected, .broke(reason: "reset")])
        world.pass(.seconds(1))
        let next = try #require(world.connect())
        world.answer(next)
        world.answer(next)
        #expect(world.answered == [1, 4, 5])
    }

    @Test("pauses a connection that refuses streams, ever longer, and gives a request up in the end")
    func refused() throws {
        let world = PoolWorld()
        let id = try #require(world.proven())
        world.submit(20)
        world.refuse(id, count: 10)
        // The burst counts once, and answers put an end to it.
        world.answer(id, count: 10)
        world.pass(.milliseconds(99))
        #expect(world.count(id) == 0)
        world.pass(.milliseconds(1))
        #expect(world.underWay[id] == Array(12...21))
        var pauses: [UInt64] = []
        for _ in 0..<4 {
            world.refuse(id, count: 10)
            let since = world.now
            while world.count(id) == 0, world.outcomes.isEmpty { world.pass(.milliseconds(10)) }
            pauses.append(world.now.since(since).milliseconds)
        }
        #expect(pauses == [100, 200, 400, 0])
        #expect(world.outcomes.count == 10)
        #expect(world.outcomes[12] == .notSent("refused"))
        // Refusals are no reason for another connection.
        #expect(world.begun.count == 1)
    }

    @Test("sends nothing more over a connection whose socket is full")
    func blocked() throws {
        let world = PoolWorld()
        let id = try #require(world.proven())
        world.machine.blocked(true, id, now: world.now)
        world.submit(5)
        #expect(world.count(id) == 0)
        world.machine.blocked(false, id, now: world.now)
        world.settle()
        #expect(world.count(id) == 5)
    }

    @Test("forgets all requests at the end")
    func end() throws {
        let world = PoolWorld()
        let id = try #require(world.proven(streams: 2))
        world.submit(4)
        let all = world.machine.takeAll()
        #expect(all.map(\.ticket) == [2, 3, 4, 5])
        #expect(all.map(\.isUnderWay) == [true, true, false, false])
        world.settle()
        world.machine.answered(2, status: 200, now: world.now)
        world.lose(id)
        world.settle()
        #expect(world.outcomes == [:])
    }
}
