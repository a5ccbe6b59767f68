import Model
import Partitions
import Placement
import Quotas
import Testing

@testable import Partitions
@testable import Routing

/// A partition has no owner for a while, and then it has one. The real router asks, and the owner knows
/// repeats by the window in its state.
@Suite("Sends that wait for a partition at a takeover")
struct TakeoverTests {
    private final class World {
        let router: Router
        var now = Instant(
            monotonic: MonotonicTime(nanoseconds: 1_000_000_000), wall: WallTime(milliseconds: 1))
        var window = DeduplicationWindow()
        var isServed = false
        /// Whether the owner answers no request at all.
        var isSilent = false
        /// Whether the owner refuses every request.
        var isRefusing = false
        var accepted: [UInt64: Int] = [:]
        var outcomes: [String: Int] = [:]
        private var wakeAt: MonotonicTime?
        private var asked: [(RequestID, Request)] = []

        init() {
            var options = Router.Options(partitionCount: 1, gateway: GatewayID(2), session: 9)
            options.isClustered = true
            router = Router(
                options: options, admission: Admission(SpenderID(1)), random: SeededGenerator(seed: 1))
            var grantor = QuotaGrantor()
            grantor.open(ProjectNumber(3), .standard, epoch: Epoch(1), .full, now: now.monotonic)
            self.grantor = grantor
        }
        private var grantor: QuotaGrantor

        func submit(_ message: UInt64) {
            let envelope = Envelope(
                id: MessageID(time: message, random: 1), event: [], sent: now.wall, ttlSeconds: 60)
            let target = Send.Target.topic(TopicName(checked: Array("news".utf8)))
            var effects: [RouterEffect] = []
            router.submit(
                .send(
                    Send(project: ProjectNumber(3), target: target, message: envelope, validateOnly: false)),
                ticket: message, now: now, into: &effects)
            carryOut(effects)
            answer()
        }

        func reroute() {
            var effects: [RouterEffect] = []
            router.rerouted({ _ in true }, now: now, into: &effects)
            carryOut(effects)
            answer()
        }

        func pass(milliseconds: UInt64) {
            for _ in 0..<milliseconds {
                now.monotonic = now.monotonic.advanced(by: .milliseconds(1))
                var effects: [RouterEffect] = []
                router.retryMoved(now: now, into: &effects)
                router.quotaWoke(now: now, into: &effects)
                router.woke(now: now, into: &effects)
                carryOut(effects)
                answer()
            }
        }

        private func answer() {
            while !asked.isEmpty {
                let (id, request) = asked.removeFirst()
                guard !isSilent, case .sendToTopic(let key?, _, _, let message, _) = request else { continue }
                var reply = Reply.refused(.moved)
                if isRefusing {
                    reply = .refused(.unavailable("away"))
                } else if isServed {
                    switch window.verdict(key.number) {
                    case .new:
                        window.insert(key.number)
                        accepted[message.id.time, default: 0] += 1
                        reply = .accepted(message.id)
                    case .repeated: reply = .accepted(message.id)
                    case .tooOld: reply = .refused(.unknown)
                    }
                }
                var effects: [RouterEffect] = []
                router.replied(id.number, reply, now: now, into: &effects)
                carryOut(effects)
            }
        }

        private func carryOut(_ effects: [RouterEffect]) {
            for effect in effects {
                switch effect {
                case .ask(_, let id, let request, _): asked.append((id, request))
                case .finish(_, let outcome):
                    switch outcome {
                    case .accepted: outcomes["accepted", default: 0] += 1
                    case .refused(let refusal): outcomes["\(refusal)", default: 0] += 1
                    default: outcomes["else", default: 0] += 1
                    }
                case .quota(let request):
                    var answers: [QuotaGrantor.Effect] = []
                    grantor.receive(request, now: now.monotonic, into: &answers)
                    for case .grant(let grant) in answers {
                        var more: [RouterEffect] = []
                        router.granted(grant, now: now, into: &more)
                        carryOut(more)
                    }
                case .wake, .wakeQuota, .wakeRetry: break
                }
            }
        }
    }

    @Test("are all answered", arguments: [1000, 1500, 3000, 6000])
    func waiting(count: UInt64) {
        let world = World()
        for message in 1...count {
            world.submit(message)
            if message % 10 == 0 { world.pass(milliseconds: 1) }
        }
        world.pass(milliseconds: 300)
        world.isServed = true
        // Other sends come while the first ones are under way.
        for message in count + 1...count + 200 {
            world.submit(message)
            world.pass(milliseconds: 1)
        }
        world.pass(milliseconds: 3000)
        #expect(world.outcomes == ["accepted": Int(count) + 200])
        #expect(world.accepted.count == Int(count) + 200)
        #expect(world.accepted.values.allSatisfy { $0 == 1 })
    }

    @Test("are told to try again where nobody serves it in time: nobody has looked at them")
    func nobodyServes() {
        let world = World()
        for message in UInt64(1)...50 { world.submit(message) }
        world.pass(milliseconds: 27_000)
        #expect(world.accepted.isEmpty)
        #expect(world.outcomes == ["unavailable(\"not answered in time\")": 50])
    }

    @Test("are told to try again where this process slept past their time: nobody has looked at them")
    func sleptMeanwhile() {
        let world = World()
        for message in UInt64(1)...5 { world.submit(message) }
        world.now.monotonic = world.now.monotonic.advanced(by: .seconds(60))
        world.isServed = true
        world.pass(milliseconds: 10)
        #expect(world.accepted.isEmpty)
        #expect(world.outcomes == ["unavailable(\"not answered in time\")": 5])
    }

    @Test("keep the numbers of those of which nobody knows whether they are in")
    func inDoubt() {
        let world = World()
        // The former owner got these sends and died. Half of them are in its journal.
        world.isServed = true
        world.isSilent = true
        for message in UInt64(1)...500 { world.submit(message) }
        for number in UInt64(1)...250 {
            world.window.insert(number)
            world.accepted[number, default: 0] += 1
        }
        world.isSilent = false
        world.isServed = false
        world.reroute()
        for message in UInt64(501)...4000 {
            world.submit(message)
            if message % 10 == 0 { world.pass(milliseconds: 1) }
        }
        world.isServed = true
        for message in UInt64(4001)...4200 {
            world.submit(message)
            world.pass(milliseconds: 1)
        }
        world.pass(milliseconds: 3000)
        #expect(world.outcomes == ["accepted": 4200])
        #expect(world.accepted.count == 4200)
        #expect(world.accepted.values.allSatisfy { $0 == 1 })
    }

    @Test("hold up nobody behind them while the owner refuses")
    func refused() {
        let world = World()
        // These sends are in doubt when the owner begins to refuse.
        world.isServed = true
        world.isSilent = true
        for message in UInt64(1)...3 { world.submit(message) }
        world.isSilent = false
        world.isRefusing = true
        world.reroute()
        world.pass(milliseconds: 500)
        for message in UInt64(4)...2003 { world.submit(message) }
        #expect(world.outcomes == ["unavailable(\"away\")": 2000])
        world.pass(milliseconds: 500)
        // Sends that wait for an owner hear the refusal as soon as there is an owner.
        world.isRefusing = false
        world.isServed = false
        world.pass(milliseconds: 300)
        for message in UInt64(2004)...5003 { world.submit(message) }
        #expect(world.outcomes == ["unavailable(\"away\")": 2000])
        world.isRefusing = true
        world.pass(milliseconds: 300)
        #expect(world.outcomes == ["unavailable(\"away\")": 5000])
        world.isRefusing = false
        world.isServed = true
        world.pass(milliseconds: 300)
        world.submit(5004)
        #expect(world.outcomes == ["unavailable(\"away\")": 5000, "accepted": 4])
        #expect(world.accepted.values.allSatisfy { $0 == 1 })
    }
}
