import Model
import Partitions
import Placement
import Quotas
import Testing

@testable import Routing

/// A router whose buckets are always full.
private final class Desk {
    let router: Router
    var grantor = QuotaGrantor()
    var now = Instant(monotonic: MonotonicTime(nanoseconds: 1_000_000_000), wall: WallTime(milliseconds: 1))
    var asked: [(partition: PartitionID, id: RequestID, request: Request)] = []
    var deadlines: [Deadline] = []
    var finished: [UInt64: Outcome] = [:]
    /// Whether requests to the grantor are lost, and when the router wants to be woken for its quotas.
    var isGrantorAway = false
    var wakeQuota: [MonotonicTime] = []
    let project = ProjectNumber(3)

    init(isClustered: Bool = false, _ bounds: RouterBounds = RouterBounds()) {
        var options = Router.Options(partitionCount: 8, gateway: GatewayID(2), session: 9)
        options.bounds = bounds
        options.isClustered = isClustered
        router = Router(
            options: options,
            admission: Admission(SpenderID(1)),
            random: SeededGenerator(seed: 1))
        grantor.open(project, .standard, epoch: Epoch(1), .full, now: now.monotonic)
    }

    func submit(_ operation: Operation, ticket: UInt64) {
        var effects: [RouterEffect] = []
        router.submit(operation, ticket: ticket, now: now, into: &effects)
        carryOut(effects)
    }

    func reply(_ place: Int, _ reply: Reply) {
        var effects: [RouterEffect] = []
        router.replied(asked[place].id.number, reply, now: now, into: &effects)
        carryOut(effects)
    }

    /// The router asks again for everything under way, as when a partition gets another owner.
    func reroute() {
        var effects: [RouterEffect] = []
        router.rerouted({ _ in true }, now: now, into: &effects)
        carryOut(effects)
    }

    func retry() {
        var effects: [RouterEffect] = []
        router.retryMoved(now: now, into: &effects)
        carryOut(effects)
    }

    func pass(seconds: UInt64) {
        now.monotonic = now.monotonic.advanced(by: .seconds(seconds))
        var effects: [RouterEffect] = []
        router.woke(now: now, into: &effects)
        router.retryMoved(now: now, into: &effects)
        carryOut(effects)
    }

    private func carryOut(_ effects: [RouterEffect]) {
        for effect in effects {
            switch effect {
            case .ask(let partition, let id, let request, let deadline):
                asked.append((partition, id, request))
                deadlines.append(deadline)
            case .finish(let ticket, let outcome): finished[ticket] = outcome
            case .quota where isGrantorAway: break
            case .quota(let request):
                var answers: [QuotaGrantor.Effect] = []
                grantor.receive(request, now: now.monotonic, into: &answers)
                for case .grant(let grant) in answers {
                    var more: [RouterEffect] = []
                    router.granted(grant, now: now, into: &more)
                    carryOut(more)
                }
            case .wakeQuota(let at): wakeQuota.append(at)
            case .wake, .wakeRetry: break
            }
        }
    }

    /// Lets time pass, and wakes the router each time that it asked to be woken for its quotas.
    func passWaking(seconds: UInt64) {
        let end = now.monotonic.advanced(by: .seconds(seconds))
        while let at = wakeQuota.min(), at <= end {
            wakeQuota.removeAll { $0 <= at }
            now.monotonic = max(now.monotonic, at)
            var effects: [RouterEffect] = []
            router.quotaWoke(now: now, into: &effects)
            carryOut(effects)
        }
        now.monotonic = end
    }

    func device(_ partition: UInt16, _ index: UInt32) -> Registration {
        Registration(
            project: project, partition: PartitionID(partition), index: DeviceIndex(index), nonce: 1, key: 1)
    }

    func send(_ target: Send.Target, validateOnly: Bool = false) -> Operation {
        let message = Envelope(id: MessageID(time: 1, random: 1), event: [], sent: now.wall, ttlSeconds: 60)
        return .send(Send(project: project, target: target, message: message, validateOnly: validateOnly))
    }
}

@Suite("The router")
struct RouterTests {
    private let news = TopicName(checked: Array("news".utf8))

    @Test("what waits for a quota whose owner says nothing is answered in time")
    func quotaAway() {
        let desk = Desk()
        desk.isGrantorAway = true
        for ticket in UInt64(1)...3 { desk.submit(desk.send(.topic(news)), ticket: ticket) }
        #expect(desk.asked.isEmpty)
        desk.passWaking(seconds: 15)
        #expect(desk.finished.count == 3 && desk.asked.isEmpty, "\(desk.finished)")
        #expect(
            desk.finished.values.allSatisfy { if case .refused(.unavailable) = $0 { true } else { false } })
        desk.isGrantorAway = false
        desk.submit(desk.send(.topic(news)), ticket: 4)
        desk.passWaking(seconds: 5)
        #expect(desk.asked.count == 1, "it goes on when the owner is back")
    }

    @Test("a request that reached no owner is asked again in its own time")
    func retries() {
        let desk = Desk(isClustered: true)
        desk.submit(desk.send(.topic(news)), ticket: 1)
        for _ in 0..<6 {
            desk.reply(desk.asked.count - 1, .refused(.moved))
            desk.now.monotonic = desk.now.monotonic.advanced(by: .milliseconds(300))
            desk.retry()
        }
        #expect(desk.asked.count == 7)
        // The first send now waits a quarter of a second, and a later send waits behind it.
        desk.reply(6, .refused(.moved))
        desk.submit(desk.send(.topic(news)), ticket: 2)
        desk.now.monotonic = desk.now.monotonic.advanced(by: .milliseconds(20))
        desk.retry()
        #expect(desk.asked.count == 7)
        desk.now.monotonic = desk.now.monotonic.advanced(by: .milliseconds(300))
        desk.retry()
        #expect(desk.asked.count == 8 && desk.asked[7].id.number == desk.asked[6].id.number)
        desk.reply(7, .accepted(MessageID(time: 1, random: 1)))
        #expect(desk.asked.count == 9, "its partition is served: the other one need not wait")
    }

    @Test("puts the answers of a change that was split together in the caller's order")
    func split() throws {
        let desk = Desk()
        let devices = [desk.device(5, 1), desk.device(1, 2), desk.device(5, 3), desk.device(0, 4)]
        let change = SubscriptionChange(
            project: desk.project, kind: .subscribe, topic: news, devices: devices)
        desk.submit(.changeSubscriptions(change), ticket: 7)
        #expect(desk.asked.map(\.partition.rawValue) == [0, 1, 5])
        desk.reply(2, .changes([.changed(Day(51)), .refused(.unregistered)]))
        desk.reply(0, .changes([.unchanged(Day(1))]))
        #expect(desk.finished[7] == nil)
        desk.reply(1, .changes([.refused(.tooManyTopics)]))
        guard case .changes(let outcomes) = desk.finished[7] else {
            Issue.record("no changes")
            return
        }
        #expect(
            outcomes == [
                .changed(Day(51)), .refused(.tooManyTopics), .refused(.unregistered), .unchanged(Day(1)),
            ])
        #expect(desk.router.operationCount == 0)
    }

    @Test("has a place for each part of the last change that it takes")
    func smallest() {
        var bounds = RouterBounds()
        bounds.operationsMax = 1
        let desk = Desk(isClustered: true, bounds)
        for ticket in UInt64(1)...3 {
            let devices = (0..<8).map { desk.device($0, 1) }
            let change = SubscriptionChange(
                project: desk.project, kind: .subscribe, topic: news, devices: devices)
            desk.submit(.changeSubscriptions(change), ticket: ticket)
            desk.submit(desk.send(.topic(news)), ticket: 10)
            guard case .refused(.unavailable) = desk.finished[10] else {
                Issue.record("one more is taken")
                return
            }
            for place in desk.asked.count - 8..<desk.asked.count {
                desk.reply(place, .changes([.changed(Day(1))]))
            }
            guard case .changes(let outcomes) = desk.finished[ticket] else {
                Issue.record("change \(ticket) is not answered")
                return
            }
            #expect(outcomes.count == 8 && desk.router.operationCount == 0)
        }
    }

    /// If two copies had one name, the answer to an earlier copy would count for the last one.
    @Test("gives no name to two copies of a change, however often it is asked")
    func copies() {
        var bounds = RouterBounds()
        (bounds.retryMin, bounds.retryMax) = (.milliseconds(1), .milliseconds(1))
        let desk = Desk(isClustered: true, bounds)
        let change = SubscriptionChange(
            project: desk.project, kind: .subscribe, topic: news, devices: [desk.device(0, 1)])
        desk.submit(.changeSubscriptions(change), ticket: 1)
        for _ in 0..<600 {
            desk.reply(desk.asked.count - 1, .refused(.moved))
            desk.now.monotonic = desk.now.monotonic.advanced(by: .milliseconds(2))
            desk.retry()
        }
        #expect(Set(desk.asked.map(\.id.number)).count == desk.asked.count)
        #expect(desk.asked.count > 200 && desk.finished[1] == nil)
        desk.pass(seconds: 26)
        #expect(desk.finished[1] != nil)
    }

    @Test("asks again what nothing was heard of, under the same number, a few times within the deadline")
    func silence() {
        let desk = Desk(isClustered: true)
        desk.submit(desk.send(.topic(news)), ticket: 1)
        desk.submit(desk.send(.topic(news)), ticket: 2)
        desk.reply(1, .accepted(MessageID(time: 1, random: 1)))
        for _ in 0..<24 { desk.pass(seconds: 1) }
        #expect(desk.asked.map(\.id.number) == [0, 1, 0, 0, 0].map { desk.asked[$0].id.number })
        #expect(desk.finished[1] == nil)
        desk.reply(0, .accepted(MessageID(time: 1, random: 1)))
        guard case .accepted = desk.finished[1] else {
            Issue.record("\(desk.finished)")
            return
        }
        for _ in 0..<10 { desk.pass(seconds: 1) }
        #expect(desk.asked.count == 5)
    }

    @Test("leaves a silent send alone that its partition could not tell from an old one any more")
    func silenceOfOld() {
        let desk = Desk(isClustered: true)
        for ticket in 0..<600 { desk.submit(desk.send(.topic(news)), ticket: UInt64(ticket)) }
        desk.pass(seconds: 3)
        let window = PartitionOptions(partitionCount: 8).requestWindow
        #expect(desk.asked.count == 600 + window / 2 + 1)
    }

    @Test(
        "does not take one owner's word that a send was not done when another was asked as well",
        arguments: [.unavailable("the journal was lost"), .tooManyFanouts(limit: 8)] as [PartitionRefusal])
    func askedTwice(refusal: PartitionRefusal) {
        let desk = Desk(isClustered: true)
        desk.submit(desk.send(.topic(news)), ticket: 1)
        desk.submit(.subscriptions(of: desk.device(2, 2), by: .backend), ticket: 2)
        desk.reroute()
        desk.reply(0, .refused(refusal))
        desk.reply(1, .refused(.unavailable("the journal was lost")))
        #expect(desk.finished[2] == nil, "a later copy is still under way")
        desk.reply(3, .refused(.unavailable("the journal was lost")))
        #expect(desk.finished[1] == nil, "its number tells, asked again")
        #expect(desk.finished[2] != nil, "safe to repeat")
        desk.reply(0, .accepted(MessageID(time: 1, random: 1)))
        guard case .accepted = desk.finished[1] else {
            Issue.record("\(String(describing: desk.finished[1]))")
            return
        }
    }

    @Test("says with each copy of a request until when it may be carried out, and answers no earlier")
    func deadlineOfCopies() {
        let desk = Desk(isClustered: true)
        let began = desk.now.monotonic
        desk.submit(desk.send(.topic(news)), ticket: 1)
        desk.submit(.subscriptions(of: desk.device(2, 2), by: .backend), ticket: 2)
        desk.pass(seconds: 3)
        desk.reroute()
        desk.reply(1, .refused(.moved))
        while desk.finished.isEmpty { desk.pass(seconds: 1) }
        #expect(desk.asked.count > 6)
        #expect(Set(desk.deadlines) == [Deadline(began.advanced(by: .seconds(25)))])
        #expect(desk.deadlines[0].isPast(now: desk.now.monotonic))
    }

    @Test("says of a send that is not answered in time that it is not known, of anything else to try again")
    func deadlines() {
        let desk = Desk()
        desk.submit(desk.send(.topic(news)), ticket: 1)
        desk.submit(.subscriptions(of: desk.device(2, 2), by: .backend), ticket: 2)
        let devices = [desk.device(1, 1), desk.device(2, 1)]
        let change = SubscriptionChange(
            project: desk.project, kind: .subscribe, topic: news, devices: devices)
        desk.submit(.changeSubscriptions(change), ticket: 3)
        desk.reply(2, .changes([.changed(Day(1))]))
        desk.pass(seconds: 10)
        #expect(desk.finished.isEmpty)
        desk.pass(seconds: 20)
        guard case .refused(.deadlineExceeded) = desk.finished[1],
            case .refused(.unavailable) = desk.finished[2],
            case .refused(.unavailable) = desk.finished[3]
        else {
            Issue.record("\(desk.finished)")
            return
        }
        #expect(desk.router.operationCount == 0)
        desk.reply(0, .accepted(MessageID(time: 1, random: 1)))
        #expect(desk.finished.count == 3, "an answer that comes too late changes nothing")
    }

    @Test("numbers the sends to each partition densely, for its window")
    func numbers() {
        let desk = Desk()
        for ticket in 1...3 { desk.submit(desk.send(.topic(news)), ticket: UInt64(ticket)) }
        let keys = desk.asked.compactMap { asked -> RequestKey? in
            if case .sendToTopic(let key, _, _, _, _) = asked.request { key } else { nil }
        }
        #expect(keys.map(\.number) == [1, 2, 3] && keys.allSatisfy { $0.session == 9 })
    }

    @Test("goes on to the next partition when one has its share of a project's devices")
    func registering() {
        let desk = Desk()
        desk.submit(.register(project: desk.project), ticket: 1)
        let order = Placement.order(of: desk.project, count: 8)
        #expect(desk.asked[0].partition == order[0])
        desk.reply(0, .full(holding: 4096))
        #expect(desk.asked[1].partition == order[1])
        desk.reply(1, .registered(index: DeviceIndex(4), nonce: 5, secret: 6))
        guard case .registered(let new) = desk.finished[1] else {
            Issue.record("not registered")
            return
        }
        #expect(
            new.registration.partition == order[1] && new.registration.index == DeviceIndex(4)
                && new.secret == 6)
    }

    @Test("delivers nothing of what is only to be validated")
    func validateOnly() {
        let desk = Desk()
        desk.submit(desk.send(.topic(news), validateOnly: true), ticket: 1)
        #expect(desk.asked.isEmpty)
        if case .done = desk.finished[1] {} else { Issue.record("nothing was accepted: \(desk.finished)") }
        desk.submit(desk.send(.device(desk.device(1, 1)), validateOnly: true), ticket: 2)
        guard case .check = desk.asked[0].request else {
            Issue.record("the device is to be looked at")
            return
        }
        desk.reply(0, .refused(.unregistered))
        guard case .refused(.unregistered) = desk.finished[2] else {
            Issue.record("\(desk.finished)")
            return
        }
    }

    @Test("lists partition after partition until the page is full")
    func listing() {
        let desk = Desk()
        desk.submit(.topics(project: desk.project, page: nil, limit: 3), ticket: 1)
        desk.reply(0, .topics([(name: news, members: UInt64(1))], next: nil))
        desk.reply(
            1, .topics([(name: news, members: UInt64(2)), (name: news, members: UInt64(3))], next: 44))
        guard case .topics(let found, let next) = desk.finished[1] else {
            Issue.record("no topics")
            return
        }
        #expect(found.map(\.members) == [1, 2, 3])
        #expect(next == PageToken(partition: PartitionID(1), place: 44))
    }

    /// 256 partitions that take 20 s each would take an hour and a half.
    @Test("has one deadline for all that a listing and a registration ask one after the other")
    func oneDeadline() {
        let desk = Desk()
        let end = Deadline(desk.now.monotonic.advanced(by: .seconds(25)))
        desk.submit(.topics(project: desk.project, page: nil, limit: 1000), ticket: 1)
        desk.submit(.register(project: desk.project), ticket: 2)
        for _ in 0..<2 {
            desk.pass(seconds: 20)
            let waiting = desk.asked.count - 2..<desk.asked.count
            for place in waiting {
                if case .register = desk.asked[place].request {
                    desk.reply(place, .full(holding: 9))
                } else {
                    desk.reply(place, .topics([], next: nil))
                }
            }
        }
        #expect(desk.asked.count == 4 && desk.finished.count == 2)
        #expect(Set(desk.deadlines) == [end], "who is asked last may do it no later than who is asked first")
        for outcome in desk.finished.values {
            guard case .refused(.unavailable("not answered in time")) = outcome else {
                Issue.record("\(outcome)")
                return
            }
        }
    }
}
