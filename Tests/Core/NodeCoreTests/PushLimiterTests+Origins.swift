import Model
import Partitions
import Testing

@testable import NodeCore

extension PushLimiterTests {
    /// Lets the limiter know 4,200 more origins, as after messages to each of them.
    private func know(_ world: World, _ name: String, _ state: (Int) -> PushLimiter.State) {
        for number in 0..<4200 {
            let address = Array("\(name)\(number)".utf8)
            let origin = PushOrigin(ProjectNumber(1), Transport(kind: .web, address: address))
            world.limiter.origins[origin] = state(number)
        }
    }

    private func close(_ origin: String, _ world: World) {
        for _ in 0..<PushBounds().failuresMax {
            world.submit(to: origin)
            world.answer(.transient(retryAfterSeconds: 60))
        }
    }

    private func isClosed(_ origin: String, _ world: World) -> Bool {
        if case .closed? = world.reports[world.submit(to: origin)] { true } else { false }
    }

    @Test("origins that have taken nothing yet share a few places, and hold up nothing of the others")
    func unproven() {
        let world = World { $0.unprovenAtOnce = 4 }
        world.submit(to: "good")
        world.answer(.accepted)
        for _ in 0..<3 { world.submit(to: "slow") }
        #expect(world.sent.count == 2, "half of the places for one origin")
        for number in 0..<300 { world.submit(to: "invented \(number)") }
        #expect(world.sent.count == 4 && world.reports.count == 1 + 1 + 298)
        for _ in 0..<10 { world.submit(to: "good") }
        #expect(world.sent.count == 14)
        world.submit(to: "other", project: 2)
        #expect(world.sent.count == 15)
        world.answer(.transient(retryAfterSeconds: nil))
        #expect(!isClosed("new", world) && world.sent.count == 15)
        #expect(isClosed("newer", world))
    }

    @Test("what waits, what is under way and what is left alone is counted for each service")
    func loads() {
        let world = World {
            $0.atOnce = 2
            $0.failuresMax = 1
        }
        func load(_ kind: Transport.Kind) -> [Int] {
            let load = world.limiter.loads(now: world.now)[kind] ?? PushLoad()
            return [load.waiting, load.underWay, load.paused]
        }
        for kind in Transport.Kind.allCases { #expect(load(kind) == [0, 0, 0]) }
        world.submit(kind: .apns)
        for project in UInt32(1)...2 {
            for _ in 0..<3 { world.submit(kind: .web, project: project) }
        }
        #expect(load(.web) == [2, 4, 0] && load(.apns) == [0, 1, 0] && load(.fcm) == [0, 0, 0])
        world.answer(.transient(retryAfterSeconds: nil))
        #expect(load(.apns) == [0, 0, 1] && load(.web) == [2, 4, 0])
        world.pass(seconds: 2)
        #expect(load(.apns) == [0, 0, 0], "the pause is over")
    }

    @Test("each service has its own time until the second try, and what the node did not send comes sooner")
    func firstRetry() {
        for (kind, seconds) in [(Transport.Kind.web, UInt64(2)), (.apns, 15), (.fcm, 10)] {
            for (outcome, first) in [
                (PushOutcome.transient(retryAfterSeconds: nil), seconds),
                (.throttled(retryAfterSeconds: 1), seconds), (.unsent("no"), 2), (.expired, 2),
            ] {
                for tries in UInt64(0)...2 {
                    let world = World()
                    let job = world.submit(kind: kind, tries: Int(tries))
                    world.answer(outcome)
                    let least = TimeSpan.seconds(first << tries)
                    #expect((least...least * 5 / 4).contains(world.delay(job) ?? .zero))
                }
            }
        }
    }

    @Test("a client with many names of origins does not make the limiter forget which services are closed")
    func closedStay() {
        let world = World()
        close("closed", world)
        #expect(isClosed("closed", world))
        know(world, "name") { _ in PushLimiter.State(failures: 1) }
        world.submit(to: "one more")
        #expect(world.limiter.origins.count == 2)
        #expect(isClosed("closed", world))
    }

    @Test("the limiter remembers the services that are closed longest, and not all of them")
    func closedAreBounded() {
        let world = World()
        close("closed", world)
        know(world, "short") { number in
            let until = world.now.advanced(by: .milliseconds(UInt64(number) + 1))
            return PushLimiter.State(failures: 5, pausedUntil: until, pause: .seconds(1))
        }
        world.submit(to: "one more")
        #expect(world.limiter.origins.count == 2049)
        #expect(isClosed("closed", world))
        #expect(isClosed("short4199", world))
        #expect(!isClosed("short0", world))
    }

    @Test("says that a service refuses the project's key for as long as the service is left alone for that")
    func keyRefused() {
        let world = World { $0.failuresMax = 3 }
        for _ in 0..<3 { world.submit(kind: .apns) }
        for _ in 0..<2 { world.answer(.credentials("no")) }
        #expect(world.refusals.isEmpty)
        world.answer(.credentials("no"))
        let until = world.refusals.last?.until
        #expect(world.refusals.count == 1 && until == world.now.advanced(by: .seconds(60)))
        #expect(world.limiter.refusedKeys.values.map { $0 } == [until])
        world.pass(seconds: 61)
        world.submit(kind: .apns)
        world.answer(.credentials("still no"))
        #expect(world.refusals.last?.until == world.now.advanced(by: .seconds(120)))
        world.pass(seconds: 121)
        world.submit(kind: .apns)
        world.answer(.accepted)
        #expect(world.refusals.count == 3 && world.refusals.last?.until == nil)
        #expect(world.limiter.refusedKeys.isEmpty)
    }

    @Test("says so of no service for browsers, which may refuse the subscriptions of one client alone")
    func browsersKey() {
        let world = World { $0.failuresMax = 1 }
        world.submit()
        world.answer(.credentials("no"))
        #expect(isClosed("one", world) && world.refusals.isEmpty && world.limiter.refusedKeys.isEmpty)
    }

    @Test("says so of no service that is not set, that is away, or whose key the operator has changed")
    func noKeyRefused() {
        for outcome in [PushOutcome.unset("off"), .transient(retryAfterSeconds: nil)] {
            let world = World { $0.failuresMax = 1 }
            world.submit(kind: .apns)
            world.answer(outcome)
            #expect(world.refusals.isEmpty)
        }
        let world = World { $0.failuresMax = 1 }
        world.submit(kind: .apns)
        world.answer(.credentials("no"))
        world.pass(seconds: 61)
        world.submit(kind: .apns)
        world.answer(.transient(retryAfterSeconds: nil))
        #expect(world.refusals.last?.until == nil, "the service is away, and may take the key")
        world.pass(seconds: 300)
        world.submit(kind: .apns)
        world.answer(.credentials("no"))
        #expect(world.refusals.last?.until != nil)
        world.limiter.reopen([ProjectNumber(1)])
        #expect(world.limiter.refusedKeys.isEmpty)
    }

    @Test("a browser's service that refuses some subscriptions is asked again within seconds")
    func refusedSubscriptions() {
        let world = World { ($0.failuresMax, $0.webRefusedMax) = (3, .seconds(10)) }
        for _ in 0..<3 { world.submit() }
        for _ in 0..<3 { world.answer(.credentials("another key")) }
        for _ in 0..<6 {
            #expect((world.delay(world.submit()) ?? .max) <= .milliseconds(12_500))
            world.pass(seconds: 13)
            world.submit()
            world.answer(.credentials("another key"))
        }
    }

    @Test("what a service says of one platform's key, or of a former end of an address, closes nothing")
    func oneDeviceAlone() {
        for outcome in [PushOutcome.platformKey("no key for Apple"), .formerEnd(retryAfterSeconds: nil)] {
            let world = World { $0.failuresMax = 2 }
            for _ in 0..<4 {
                world.submit(kind: .fcm)
                world.answer(outcome)
            }
            world.submit(kind: .fcm)
            #expect(world.sent.count == 1 && world.refusals.isEmpty)
        }
    }

    @Test("an answer to a request that left under a former key says nothing of the new key")
    func formerKey() {
        let world = World { $0.failuresMax = 1 }
        let jobs = (0..<5).map { _ in world.submit(kind: .apns) }
        world.limiter.reopen([ProjectNumber(1)])
        for outcome in [
            PushOutcome.credentials("the former key"), .overQuota(retryAfterSeconds: 90), .unset("off"),
            .gone, .transient(retryAfterSeconds: nil),
        ] {
            world.answer(outcome)
        }
        #expect(world.refusals.isEmpty && world.limiter.refusedKeys.isEmpty)
        let next = world.submit(kind: .apns)
        #expect(world.sent.map(\.job) == [next], "nothing is left alone")
        for job in jobs[..<4] {
            guard case .later(let delay, isFailure: false)? = world.reports[job] else {
                Issue.record("message \(job) does not go again under the new key")
                continue
            }
            #expect(delay <= .seconds(3))
        }
        #expect(world.delay(jobs[4]) ?? .zero >= .seconds(15), "the service was away, whichever the key")
        world.submit(kind: .apns, project: 2)
        world.answer(.credentials("no"))
        #expect(world.refusals.count == 1, "this request left under the new key")
    }

    @Test("a message that a service took under a former key does not show that it takes the new one")
    func provenByFormerKey() {
        let world = World { $0.failuresMax = 1 }
        world.submit(kind: .fcm)
        world.answer(.accepted)
        world.submit(kind: .fcm)
        world.limiter.reopen([ProjectNumber(1)])
        world.answer(.accepted)
        world.submit(kind: .fcm)
        world.answer(.credentials("the new key"))
        #expect(world.refusals.count == 1)
    }

    @Test("a request without an answer that left under a former key closes nothing")
    func unansweredUnderFormerKey() {
        let world = World { $0.failuresMax = 1 }
        let job = world.submit(kind: .fcm)
        world.limiter.reopen([ProjectNumber(1)])
        world.pass(seconds: 91)
        world.wake()
        #expect(world.delay(job) != nil)
        let next = world.submit(kind: .fcm)
        #expect(world.sent.last?.job == next)
    }
}
