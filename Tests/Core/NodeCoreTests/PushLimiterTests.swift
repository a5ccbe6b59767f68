import Model
import Partitions
import Testing

@testable import NodeCore

/// What the limiter lets out to push services, and how it judges their origins.
@Suite("Sender for push services")
struct PushLimiterTests {
    /// A limiter with what it has let out.
    final class World {
        var limiter: PushLimiter
        var now = MonotonicTime(.seconds(100))
        /// Sent and not answered: number, and the job's number.
        var sent: [(number: UInt64, job: UInt64)] = []
        var reports: [UInt64: PushReport.Result] = [:]
        /// What the limiter said of refused keys.
        var refusals: [(origin: PushOrigin, until: MonotonicTime?)] = []
        /// How often the limiter has left an origin alone for its words about devices.
        var alarms = 0
        private var lastJob: UInt64 = 0

        init(_ change: (inout PushBounds) -> Void = { _ in }) {
            var bounds = PushBounds()
            bounds.unprovenAtOnce = .max
            change(&bounds)
            limiter = PushLimiter(bounds, random: SeededGenerator(seed: 7))
        }

        @discardableResult
        func submit(
            to origin: String = "one", kind: Transport.Kind = .web, project: UInt32 = 1, tries: Int = 0,
            unexplained: Int = 0, after witness: PushWitness? = nil
        ) -> UInt64 {
            lastJob += 1
            let transport = Transport(kind: kind, address: Array(origin.utf8))
            var job = PushJob(
                number: lastJob, project: ProjectNumber(project), device: DeviceIndex(1),
                transport: transport, registered: WallTime(milliseconds: 0), generation: 1, event: [],
                expires: WallTime(milliseconds: 1), tries: tries)
            job.unexplained = unexplained
            job.witness = witness
            var effects: [PushLimiter.Effect] = []
            limiter.submit(job, of: PartitionID(1), now: now, into: &effects)
            carryOut(effects)
            return lastJob
        }

        func answer(_ outcome: PushOutcome) {
            guard !sent.isEmpty else {
                Issue.record("nothing is sent")
                return
            }
            var effects: [PushLimiter.Effect] = []
            limiter.answered(sent.removeFirst().number, outcome, now: now, into: &effects)
            carryOut(effects)
        }

        func wake() {
            var effects: [PushLimiter.Effect] = []
            limiter.woke(now: now, into: &effects)
            carryOut(effects)
        }

        func pass(seconds: UInt64) { now = now.advanced(by: .seconds(seconds)) }

        private func carryOut(_ effects: [PushLimiter.Effect]) {
            for effect in effects {
                switch effect {
                case .send(let request): sent.append((request.number, request.job.number))
                case .report(_, let report): reports[report.number] = report.result
                case .noted: break
                case .keyRefused(let origin, let until): refusals.append((origin, until))
                case .doubted: alarms += 1
                }
            }
            if let broken = limiter.brokenInvariant { Issue.record("\(broken)") }
        }

        /// After how long the job is to come again.
        func delay(_ job: UInt64) -> TimeSpan? {
            switch reports[job] {
            case .later(let delay, _), .closed(let delay), .doubted(let delay, _, _): return delay
            default: return nil
            }
        }
    }

    @Test("an origin has so many messages at once, some wait, and the rest come again later")
    func bounded() {
        let world = World {
            $0.atOnce = 2
            $0.waitingMax = 2
        }
        let jobs = (0..<5).map { _ in world.submit() }
        #expect(world.sent.map(\.job) == [jobs[0], jobs[1]])
        #expect(world.delay(jobs[4]) != nil && world.delay(jobs[3]) == nil)
        let other = world.submit(to: "two")
        #expect(world.sent.last?.job == other)
        world.answer(.accepted)
        #expect(world.reports[jobs[0]] == .done)
        #expect(world.sent.map(\.job) == [jobs[1], other, jobs[2]])
    }

    @Test("each answer has its result for the message")
    func results() {
        let world = World()
        let jobs = (0..<6).map { _ in world.submit() }
        world.answer(.accepted)
        world.answer(.refusedContent("too large"))
        world.answer(.gone)
        world.answer(.transient(retryAfterSeconds: 7))
        world.answer(.throttled(retryAfterSeconds: nil))
        world.answer(.accepted)
        #expect(world.reports[jobs[0]] == .done && world.reports[jobs[1]] == .done)
        #expect((TimeSpan.seconds(10)...(.seconds(13))).contains(world.delay(jobs[2]) ?? .zero))
        #expect((TimeSpan.seconds(7)...(.seconds(9))).contains(world.delay(jobs[3]) ?? .zero))
        #expect((TimeSpan.seconds(60)...(.seconds(75))).contains(world.delay(jobs[4]) ?? .zero))
    }

    @Test("each try in vain doubles the time until the next, up to an hour and a quarter")
    func backOff() {
        let world = World()
        var last = TimeSpan.zero
        for tries in 0..<12 {
            let job = world.submit(tries: tries)
            world.answer(.transient(retryAfterSeconds: nil))
            world.submit()
            world.answer(.accepted)
            let delay = world.delay(job) ?? .zero
            #expect(delay >= min(.seconds(2 << UInt64(tries)), .seconds(3600)))
            #expect(delay <= .seconds(4500) && delay + delay / 4 >= last)
            last = delay
        }
    }

    @Test("an origin that fails is left alone, asked with one message, and used again when it answers")
    func circuit() {
        let world = World { $0.failuresMax = 3 }
        let failing = (0..<3).map { _ in world.submit() }
        let waiting = world.submit()
        for _ in failing { world.answer(.transient(retryAfterSeconds: nil)) }
        #expect(world.sent.map(\.job) == [waiting])
        let refused = world.submit()
        #expect(world.delay(refused) != nil && world.sent.count == 1)
        let fine = world.submit(to: "two")
        #expect(world.sent.last?.job == fine)
        world.answer(.transient(retryAfterSeconds: nil))
        world.pass(seconds: 2)
        let probe = world.submit()
        #expect(world.sent.last?.job == probe)
        let second = world.submit()
        #expect(world.delay(second) != nil)
        world.sent.removeAll { $0.job == fine }
        world.answer(.accepted)
        let after = [world.submit(), world.submit()]
        #expect(world.sent.map(\.job) == after)
    }

    @Test("failures of what was under way do not make the pause longer, and a failed probe does")
    func pauses() {
        let world = World {
            $0.failuresMax = 2
            $0.atOnce = 100
        }
        for _ in 0..<50 { world.submit() }
        for _ in 0..<50 { world.answer(.transient(retryAfterSeconds: nil)) }
        #expect((world.delay(world.submit()) ?? .zero) <= .milliseconds(1250))
        world.pass(seconds: 2)
        world.submit()
        world.answer(.transient(retryAfterSeconds: nil))
        let delay = world.delay(world.submit()) ?? .zero
        #expect((TimeSpan.seconds(2)...(.milliseconds(2500))).contains(delay))
    }

    @Test("an origin that throttles is left alone for as long as it asks")
    func retryAfter() {
        let world = World { $0.failuresMax = 1 }
        world.submit()
        world.answer(.throttled(retryAfterSeconds: 120))
        #expect((world.delay(world.submit()) ?? .zero) >= .seconds(120))
        world.pass(seconds: 119)
        #expect(world.delay(world.submit()) != nil)
        world.pass(seconds: 2)
        let job = world.submit()
        #expect(world.sent.map(\.job) == [job])
    }

    @Test("a quota that is used up stops the project at once, and no other project")
    func overQuota() {
        let world = World()
        let jobs = (0..<3).map { _ in world.submit() }
        world.answer(.overQuota(retryAfterSeconds: 90))
        #expect(world.reports[jobs[0]].map { if case .later(_, false) = $0 { true } else { false } } == true)
        #expect((TimeSpan.seconds(90)...(.seconds(113))).contains(world.delay(jobs[0]) ?? .zero))
        let next = world.submit()
        guard case .closed(let time) = world.reports[next] else {
            Issue.record("the project is not stopped")
            return
        }
        #expect(time >= .seconds(89))
        world.submit(project: 2)
        #expect(world.sent.count == 3)
        world.answer(.accepted)
        world.submit()
        #expect(
            world.sent.count == 2, "a message that was under way was taken, and says nothing of the quota")
        world.pass(seconds: 90)
        world.submit()
        #expect(world.sent.count == 2, "one is under way still")
        world.answer(.accepted)
        world.submit()
        #expect(world.sent.count == 2)
    }

    @Test("changed settings forget what was known of the project's services, and of no other project's")
    func reopened() {
        let world = World { $0.failuresMax = 1 }
        for project in UInt32(1)...2 {
            world.submit(project: project)
            world.answer(.credentials("no"))
            world.submit(project: project)
            #expect(world.sent.isEmpty)
        }
        world.limiter.reopen([ProjectNumber(1)])
        world.submit(project: 2)
        #expect(world.sent.isEmpty)
        world.submit(project: 1)
        #expect(world.sent.count == 1)
        world.limiter.reopen([ProjectNumber(1)])
        #expect(world.limiter.origins.count == 2 && world.limiter.brokenInvariant == nil)
    }

    @Test("a key that is refused several times holds the project's messages, and no other project's")
    func credentials() {
        let world = World { $0.failuresMax = 3 }
        for _ in 0..<2 { world.submit(kind: .apns) }
        for _ in 0..<2 { world.answer(.credentials("another key")) }
        world.submit(kind: .apns)
        world.answer(.accepted)
        // The service takes messages: some devices' subscriptions are for another key.
        for _ in 0..<3 { world.submit(kind: .apns) }
        for _ in 0..<3 { world.answer(.credentials("another key")) }
        #expect(world.delay(world.submit(kind: .apns)) == nil)
        world.answer(.credentials("another key"))
        world.pass(seconds: 61)
        // The service has taken nothing for a minute.
        for _ in 0..<3 { world.submit(kind: .apns) }
        for _ in 0..<3 { world.answer(.credentials("another key")) }
        #expect((world.delay(world.submit(kind: .apns)) ?? .zero) >= .seconds(60))
        let other = world.submit(kind: .apns, project: 2)
        #expect(world.sent.map(\.job) == [other])
        world.answer(.accepted)
        world.pass(seconds: 61)
        let probe = world.submit(kind: .apns)
        #expect(world.sent.map(\.job) == [probe])
    }

    @Test("what the node itself refuses says nothing of the service")
    func local() {
        let world = World { $0.failuresMax = 1 }
        let job = world.submit()
        world.answer(.unsent("another node may own the partition"))
        #expect(world.reports[job].map { $0 != .done } == true)
        world.submit()
        world.answer(.transient(retryAfterSeconds: nil))
        world.pass(seconds: 2)
        world.submit()
        world.answer(.refusedContent("too large"))
        let probe = world.submit()
        #expect(world.sent.map(\.job) == [probe])
        #expect(world.delay(world.submit()) != nil)
    }

    @Test("a message that has waited long goes back to its partition, and a fresh one goes out")
    func stale() {
        let world = World { $0.atOnce = 1 }
        world.submit()
        let waiting = world.submit()
        world.pass(seconds: 6)
        let fresh = world.submit()
        world.answer(.accepted)
        #expect(world.reports[waiting] == .later(after: .zero, isFailure: false))
        #expect(world.sent.map(\.job) == [fresh])
    }

    @Test("messages that wait come back to their partitions when the origin is left alone")
    func givenBack() {
        let world = World {
            $0.atOnce = 1
            $0.failuresMax = 1
        }
        world.submit()
        let waiting = world.submit()
        world.answer(.transient(retryAfterSeconds: nil))
        #expect(world.sent.isEmpty && world.delay(waiting) != nil)
        #expect(world.reports[waiting] != .later(after: .zero, isFailure: true))
    }

    @Test("a message without an answer counts as failed, and an answer that comes later is nobody's")
    func unanswered() {
        let world = World()
        let job = world.submit()
        #expect(world.limiter.nextWake == world.now.advanced(by: .seconds(90)))
        world.pass(seconds: 89)
        world.wake()
        #expect(world.reports[job] == nil)
        world.pass(seconds: 2)
        world.wake()
        #expect(world.delay(job) != nil && world.limiter.count == 0)
        world.reports = [:]
        world.answer(.accepted)
        #expect(world.reports.isEmpty && world.limiter.nextWake == nil)
    }

    @Test("a refused key is tried again after one minute, then two, and never later than after five")
    func heldKey() {
        let world = World()
        for (tries, seconds) in [(0, UInt64(60)), (1, 120), (2, 240), (3, 300), (20, 300)] {
            let job = world.submit(to: "\(tries)", tries: tries)
            world.answer(.credentials("another key"))
            let delay = world.delay(job) ?? .zero
            #expect((TimeSpan.seconds(seconds)...(.seconds(seconds * 5 / 4))).contains(delay))
        }
    }

    @Test("many origins that fail are forgotten before they fill the memory")
    func manyOrigins() {
        let world = World()
        for number in 0..<5000 {
            world.submit(to: "\(number)")
            world.answer(.transient(retryAfterSeconds: nil))
        }
        #expect(world.limiter.origins.count <= 4096)
        for number in 5000..<10_000 {
            world.submit(to: "\(number)")
            world.answer(.accepted)
        }
        #expect(world.limiter.origins.count <= 4096)
    }

    @Test("many answers leave nothing behind")
    func manyAnswers() {
        let world = World { $0.atOnce = 10_000 }
        for _ in 0..<5000 { world.submit() }
        for _ in 0..<5000 { world.answer(.accepted) }
        #expect(world.limiter.sent.isEmpty && world.limiter.underWay.isEmpty)
        #expect(world.limiter.origins.values.map(\.waiting.count) == [0])
    }

    @Test("the invariants of the limiter are seen to be broken")
    func invariants() {
        func isSeen(_ invariant: String, _ change: (inout PushLimiter) -> Void) {
            let world = World {
                $0.atOnce = 1
                $0.waitingMax = 1
            }
            world.submit()
            world.submit()
            change(&world.limiter)
            let broken = world.limiter.brokenInvariant
            #expect(broken == invariant)
        }
        func change(_ limiter: inout PushLimiter, _ body: (inout PushLimiter.State) -> Void) {
            guard let origin = limiter.origins.keys.first, var state = limiter.origins[origin] else { return }
            body(&state)
            limiter.origins[origin] = state
        }
        isSeen("an origin's messages are counted wrong") { change(&$0) { $0.underWay = 0 } }
        isSeen("more messages wait than may") { change(&$0) { $0.waiting += $0.waiting } }
        isSeen("messages wait for an origin that is left alone") {
            change(&$0) { $0.pausedUntil = MonotonicTime(nanoseconds: 1) }
        }
        isSeen("nothing brings waiting messages further") {
            $0.underWay = [:]
            change(&$0) { $0.underWay = 0 }
        }
        isSeen("an origin has more messages than may be") { limiter in
            guard let known = limiter.underWay.values.first else { return }
            limiter.underWay[0] = known
            change(&limiter) { $0.underWay = 2 }
        }
        isSeen("an origin with messages is forgotten") { $0.origins = [:] }
        isSeen("a number was never given") { limiter in
            guard let known = limiter.underWay.removeValue(forKey: 1) else { return }
            limiter.underWay[9] = known
        }
        isSeen("a message has no deadline") { $0.sent = [] }
    }
}
