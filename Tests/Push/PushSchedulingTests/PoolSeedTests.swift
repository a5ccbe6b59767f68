import Model
import Testing

@testable import PushScheduling

/// Pools against a service that does anything. What must hold: the invariants after each event, exactly one
/// outcome for each request, connections of a pool no faster than they may follow, and an end.
@Suite("Pools against a service that does anything")
struct PoolSeedTests {
    private static let pools = (1...3).map {
        APNsPool(host: "apple.example", teamID: "TEAM00000\($0)", keyID: "KEY0000001")
    }

    private func world(_ seed: UInt64) -> PoolWorld {
        PoolWorld(
            {
                $0.waitingMax = 60
                $0.streamsMax = 20
                $0.triesMax = 3
                $0.connectionsPerPoolMax = 2
                $0.connectionsMax = 5
                $0.connectingMax = 2
                $0.stableAfter = .seconds(20)
                $0.backoffMax = .seconds(20)
                $0.idleMax = .seconds(300)
                $0.idlePing = .seconds(60)
            }, seed: seed)
    }

    @Test("answer each request once, keep all invariants and bounds, and come to an end", arguments: 1...20)
    func anything(seed: UInt64) {
        var dice = SeededGenerator(seed: seed)
        let world = world(seed)
        var count = 0
        for _ in 0..<800 { count += step(world, &dice) }
        // The service is well again.
        var rounds = 0
        while !world.machine.requests.isEmpty, rounds < 1_000 {
            rounds += 1
            while world.connect(streams: 50) != nil {}
            for id in world.open {
                world.machine.allowed(50, on: id, now: world.now)
                world.machine.blocked(false, id, now: world.now)
                world.settle()
                while world.count(id) > 0 { world.answer(id) }
            }
            world.pass(.milliseconds(500))
        }
        #expect(world.machine.requests.isEmpty)
        #expect(world.outcomes.count + world.answered.count == count)
        for (_, times) in world.begunOf {
            for (before, after) in zip(times, times.dropFirst()) {
                #expect(after.since(before) >= .seconds(1))
            }
        }
    }

    @Test("reach each bound in some run")
    func coverage() {
        var reasons: Set<String> = []
        var news: Set<APNsNews> = []
        for seed: UInt64 in 1...8 {
            var dice = SeededGenerator(seed: seed)
            let world = world(seed)
            for _ in 0..<1_500 { _ = step(world, &dice) }
            for outcome in world.outcomes.values {
                switch outcome {
                case .notSent(let reason), .failed(let reason): reasons.insert(reason)
                }
            }
            news.formUnion(world.news)
        }
        #expect(
            reasons.isSuperset(of: [
                "too many requests wait", "the request waited for 30000 ms", "refused", "reset", "gone",
                "too late", "the service is silent",
            ]))
        #expect(
            news.isSuperset(of: [
                .connected, .unreachable(reason: "refused"), .goAway(reason: "Shutdown"),
                .broke(reason: "the service is silent"),
                .unreachable(reason: "no connection within 10000 ms"),
            ]))
    }

    /// One event. Returns how many requests were submitted.
    private func step(_ world: PoolWorld, _ dice: inout SeededGenerator) -> Int {
        let any = world.open.randomElement(using: &dice)
        switch Int.random(in: 0..<22, using: &dice) {
        case 0...3:
            let count = Int.random(in: 1...12, using: &dice)
            world.submit(count, to: PoolSeedTests.pools[Int.random(in: 0..<3, using: &dice)])
            return count
        case 4, 5: world.connect(streams: [0, 1, 3, 50].randomElement(using: &dice) ?? 1)
        case 6: if Bool.random(using: &dice) { world.refuseConnection() }
        case 7...11:
            let status = [200, 200, 200, 410, 400, 403, 429, 500, 503].randomElement(using: &dice) ?? 200
            if let any { world.answer(any, status, count: Int.random(in: 1...6, using: &dice)) }
        case 12: if let any { world.refuse(any, count: Int.random(in: 1...4, using: &dice)) }
        case 13: if let any { world.reset(any) }
        case 14: if let any { goAway(world, any, dice: &dice) }
        case 15:
            guard let any, Bool.random(using: &dice) else { break }
            let unsent: [UInt64] = world.underWay[any] ?? []
            world.lose(any, unsent: Set(unsent.filter { $0 % 3 == 0 }))
        case 16:
            let streams = Int.random(in: 0...30, using: &dice)
            if let any { world.machine.allowed(streams, on: any, now: world.now) }
        case 17:
            let isBlocked = Int.random(in: 0..<3, using: &dice) == 0
            if let any { world.machine.blocked(isBlocked, any, now: world.now) }
        case 18:
            guard Int.random(in: 0..<3, using: &dice) == 0 else { break }
            let pool = PoolSeedTests.pools[Int.random(in: 0..<3, using: &dice)]
            world.machine.renew(pool, connection: Bool.random(using: &dice) ? any : nil, now: world.now)
        case 19: world.pass(.seconds(UInt64.random(in: 1...40, using: &dice)))
        default: world.pass(.milliseconds(UInt64.random(in: 1...900, using: &dice)))
        }
        world.settle()
        return 0
    }

    /// A GOAWAY, and the refusal of the streams above its last one.
    private func goAway(_ world: PoolWorld, _ id: APNsConnectionID, dice: inout SeededGenerator) {
        let reason = [nil, "Shutdown", "IdleTimeout"].randomElement(using: &dice) ?? nil
        world.machine.goneAway(id, reason: reason, now: world.now)
        world.refuse(id, count: Int.random(in: 0...4, using: &dice))
    }
}
