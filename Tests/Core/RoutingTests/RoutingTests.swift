import Model
import Partitions
import Placement
import Testing

@testable import Routing

@Suite("The router")
struct RouterTests {
    private let news = TopicName(checked: Array("news".utf8))

    @Test("what waits for a quota whose owner says nothing is answered in time")
    func quotaAway() {
        let harness = RouterHarness()
        harness.isGrantorAway = true
        for ticket in UInt64(1)...3 { harness.submit(harness.send(.topic(news)), ticket: ticket) }
        #expect(harness.asked.isEmpty)
        harness.passWaking(seconds: 15)
        #expect(harness.finished.count == 3 && harness.asked.isEmpty, "\(harness.finished)")
        #expect(
            harness.finished.values.allSatisfy { if case .refused(.unavailable) = $0 { true } else { false } }
        )
        harness.isGrantorAway = false
        harness.submit(harness.send(.topic(news)), ticket: 4)
        harness.passWaking(seconds: 5)
        #expect(harness.asked.count == 1, "it goes on when the owner is back")
    }

    @Test("a request that reached no owner is asked again in its own time")
    func retries() {
        let harness = RouterHarness(isClustered: true)
        harness.submit(harness.send(.topic(news)), ticket: 1)
        for _ in 0..<6 {
            harness.reply(harness.asked.count - 1, .refused(.moved))
            harness.now.monotonic = harness.now.monotonic.advanced(by: .milliseconds(300))
            harness.retry()
        }
        #expect(harness.asked.count == 7)
        // The first send now waits a quarter of a second, and a later send waits behind it.
        harness.reply(6, .refused(.moved))
        harness.submit(harness.send(.topic(news)), ticket: 2)
        harness.now.monotonic = harness.now.monotonic.advanced(by: .milliseconds(20))
        harness.retry()
        #expect(harness.asked.count == 7)
        harness.now.monotonic = harness.now.monotonic.advanced(by: .milliseconds(300))
        harness.retry()
        #expect(harness.asked.count == 8 && harness.asked[7].id.number == harness.asked[6].id.number)
        harness.reply(7, .accepted(MessageID(time: 1, random: 1)))
        #expect(harness.asked.count == 9, "its partition is served: the other one need not wait")
    }

    @Test("puts the answers of a change that was split together in the caller's order")
    func split() throws {
        let harness = RouterHarness()
        let devices = [
            harness.device(5, 1), harness.device(1, 2), harness.device(5, 3), harness.device(0, 4),
        ]
        let change = SubscriptionChange(
            project: harness.project, kind: .subscribe, topic: news, devices: devices)
        harness.submit(.changeSubscriptions(change), ticket: 7)
        #expect(harness.asked.map(\.partition.rawValue) == [0, 1, 5])
        harness.reply(2, .changes([.changed(Day(51)), .refused(.unregistered)]))
        harness.reply(0, .changes([.unchanged(Day(1))]))
        #expect(harness.finished[7] == nil)
        harness.reply(1, .changes([.refused(.tooManyTopics)]))
        guard case .changes(let outcomes) = harness.finished[7] else {
            Issue.record("no changes")
            return
        }
        #expect(
            outcomes == [
                .changed(Day(51)), .refused(.tooManyTopics), .refused(.unregistered), .unchanged(Day(1)),
            ])
        #expect(harness.router.pending.count == 0)
    }

    @Test("has a slot for each part of the last change that it takes")
    func smallest() {
        var bounds = RouterBounds()
        bounds.operationsMax = 1
        let harness = RouterHarness(isClustered: true, bounds)
        for ticket in UInt64(1)...3 {
            let devices = (0..<8).map { harness.device($0, 1) }
            let change = SubscriptionChange(
                project: harness.project, kind: .subscribe, topic: news, devices: devices)
            harness.submit(.changeSubscriptions(change), ticket: ticket)
            harness.submit(harness.send(.topic(news)), ticket: 10)
            guard case .refused(.unavailable) = harness.finished[10] else {
                Issue.record("one more is taken")
                return
            }
            for index in harness.asked.count - 8..<harness.asked.count {
                harness.reply(index, .changes([.changed(Day(1))]))
            }
            guard case .changes(let outcomes) = harness.finished[ticket] else {
                Issue.record("change \(ticket) is not answered")
                return
            }
            #expect(outcomes.count == 8 && harness.router.pending.count == 0)
        }
    }

    /// If two copies had one name, the answer to an earlier copy would count for the last one.
    @Test("gives no name to two copies of a change, however often it is asked")
    func copies() {
        var bounds = RouterBounds()
        (bounds.retryMin, bounds.retryMax) = (.milliseconds(1), .milliseconds(1))
        let harness = RouterHarness(isClustered: true, bounds)
        let change = SubscriptionChange(
            project: harness.project, kind: .subscribe, topic: news, devices: [harness.device(0, 1)])
        harness.submit(.changeSubscriptions(change), ticket: 1)
        for _ in 0..<600 {
            harness.reply(harness.asked.count - 1, .refused(.moved))
            harness.now.monotonic = harness.now.monotonic.advanced(by: .milliseconds(2))
            harness.retry()
        }
        #expect(Set(harness.asked.map(\.id.number)).count == harness.asked.count)
        #expect(harness.asked.count > 200 && harness.finished[1] == nil)
        harness.pass(seconds: 26)
        #expect(harness.finished[1] != nil)
    }

    @Test("asks again what nothing was heard of, under the same number, a few times within the deadline")
    func silence() {
        let harness = RouterHarness(isClustered: true)
        harness.submit(harness.send(.topic(news)), ticket: 1)
        harness.submit(harness.send(.topic(news)), ticket: 2)
        harness.reply(1, .accepted(MessageID(time: 1, random: 1)))
        for _ in 0..<24 { harness.pass(seconds: 1) }
        #expect(harness.asked.map(\.id.number) == [0, 1, 0, 0, 0].map { harness.asked[$0].id.number })
        #expect(harness.finished[1] == nil)
        harness.reply(0, .accepted(MessageID(time: 1, random: 1)))
        guard case .accepted = harness.finished[1] else {
            Issue.record("\(harness.finished)")
            return
        }
        for _ in 0..<10 { harness.pass(seconds: 1) }
        #expect(harness.asked.count == 5)
    }

    @Test("leaves a silent send alone that its partition could not tell from an old one any more")
    func silenceOfOld() {
        let harness = RouterHarness(isClustered: true)
        for ticket in 0..<600 { harness.submit(harness.send(.topic(news)), ticket: UInt64(ticket)) }
        harness.pass(seconds: 3)
        let window = PartitionOptions(partitionCount: 8).requestWindow
        #expect(harness.asked.count == 600 + window / 2 + 1)
    }

    @Test(
        "does not take one owner's word that a send was not done when another was asked as well",
        arguments: [
            .unavailable("the journal was lost"), .tooManyFanouts(limit: 8), .pushKeyRefused,
        ] as [PartitionRefusal])
    func askedTwice(refusal: PartitionRefusal) {
        let harness = RouterHarness(isClustered: true)
        harness.submit(harness.send(.topic(news)), ticket: 1)
        harness.submit(.subscriptions(of: harness.device(2, 2), by: .backend), ticket: 2)
        harness.reroute()
        harness.reply(0, .refused(refusal))
        harness.reply(1, .refused(.unavailable("the journal was lost")))
        #expect(harness.finished[2] == nil, "a later copy is still under way")
        harness.reply(3, .refused(.unavailable("the journal was lost")))
        #expect(harness.finished[1] == nil, "its number tells, asked again")
        #expect(harness.finished[2] != nil, "safe to repeat")
        harness.reply(0, .accepted(MessageID(time: 1, random: 1)))
        guard case .accepted = harness.finished[1] else {
            Issue.record("\(String(describing: harness.finished[1]))")
            return
        }
    }

    @Test("says with each copy of a request until when it may be carried out, and answers no earlier")
    func deadlineOfCopies() {
        let harness = RouterHarness(isClustered: true)
        let began = harness.now.monotonic
        harness.submit(harness.send(.topic(news)), ticket: 1)
        harness.submit(.subscriptions(of: harness.device(2, 2), by: .backend), ticket: 2)
        harness.pass(seconds: 3)
        harness.reroute()
        harness.reply(1, .refused(.moved))
        while harness.finished.isEmpty { harness.pass(seconds: 1) }
        #expect(harness.asked.count > 6)
        #expect(Set(harness.deadlines) == [Deadline(began.advanced(by: .seconds(25)))])
        #expect(harness.deadlines[0].isPast(now: harness.now.monotonic))
    }

    @Test("says of a send that is not answered in time that it is not known, of anything else to try again")
    func deadlines() {
        let harness = RouterHarness()
        harness.submit(harness.send(.topic(news)), ticket: 1)
        harness.submit(.subscriptions(of: harness.device(2, 2), by: .backend), ticket: 2)
        let devices = [harness.device(1, 1), harness.device(2, 1)]
        let change = SubscriptionChange(
            project: harness.project, kind: .subscribe, topic: news, devices: devices)
        harness.submit(.changeSubscriptions(change), ticket: 3)
        harness.reply(2, .changes([.changed(Day(1))]))
        harness.pass(seconds: 10)
        #expect(harness.finished.isEmpty)
        harness.pass(seconds: 20)
        guard case .refused(.deadlineExceeded) = harness.finished[1],
            case .refused(.unavailable) = harness.finished[2],
            case .refused(.unavailable) = harness.finished[3]
        else {
            Issue.record("\(harness.finished)")
            return
        }
        #expect(harness.router.pending.count == 0)
        harness.reply(0, .accepted(MessageID(time: 1, random: 1)))
        #expect(harness.finished.count == 3, "an answer that comes too late changes nothing")
    }

    @Test("numbers the sends to each partition densely, for its window")
    func numbers() {
        let harness = RouterHarness()
        for ticket in 1...3 { harness.submit(harness.send(.topic(news)), ticket: UInt64(ticket)) }
        let keys = harness.asked.compactMap { asked -> RequestKey? in
            if case .sendToTopic(let key, _, _, _, _) = asked.request { key } else { nil }
        }
        #expect(keys.map(\.number) == [1, 2, 3] && keys.allSatisfy { $0.session == 9 })
    }

    @Test("goes on to the next partition when one has its share of a project's devices")
    func registering() {
        let harness = RouterHarness()
        harness.submit(.register(project: harness.project), ticket: 1)
        let order = Placement.order(of: harness.project, count: 8)
        #expect(harness.asked[0].partition == order[0])
        harness.reply(0, .full(holding: 4096))
        #expect(harness.asked[1].partition == order[1])
        harness.reply(1, .registered(index: DeviceIndex(4), nonce: 5, secret: 6))
        guard case .registered(let new) = harness.finished[1] else {
            Issue.record("not registered")
            return
        }
        #expect(
            new.registration.partition == order[1] && new.registration.index == DeviceIndex(4)
                && new.secret == 6)
    }

    @Test("delivers nothing of what is only to be validated")
    func validateOnly() {
        let harness = RouterHarness()
        harness.submit(harness.send(.topic(news), validateOnly: true), ticket: 1)
        #expect(harness.asked.isEmpty)
        if case .done = harness.finished[1] {
        } else {
            Issue.record("nothing was accepted: \(harness.finished)")
        }
        harness.submit(harness.send(.device(harness.device(1, 1)), validateOnly: true), ticket: 2)
        guard case .check = harness.asked[0].request else {
            Issue.record("the device is to be looked at")
            return
        }
        harness.reply(0, .refused(.unregistered))
        guard case .refused(.unregistered) = harness.finished[2] else {
            Issue.record("\(harness.finished)")
            return
        }
    }

    @Test("lists partition after partition until the page is full")
    func listing() {
        let harness = RouterHarness()
        harness.submit(.topics(project: harness.project, page: nil, limit: 3), ticket: 1)
        harness.reply(0, .topics([(name: news, members: UInt64(1))], next: nil))
        harness.reply(
            1, .topics([(name: news, members: UInt64(2)), (name: news, members: UInt64(3))], next: 44))
        guard case .topics(let found, let next) = harness.finished[1] else {
            Issue.record("no topics")
            return
        }
        #expect(found.map(\.members) == [1, 2, 3])
        #expect(next == PageToken(partition: PartitionID(1), cursor: 44))
    }

    @Test("adds up the answers of push services to a message over all partitions")
    func pushes() {
        let harness = RouterHarness()
        let message = MessageID(time: 1, random: 2)
        func tally(_ outcome: PushOutcome, _ count: Int, at time: Int64) -> PushTally {
            PushTally(kind: .web, outcome: outcome, count: count, newest: WallTime(milliseconds: time))
        }
        harness.submit(.pushes(project: harness.project, of: message), ticket: 1)
        harness.reply(0, .pushes([tally(.accepted, 2, at: 5), tally(.unsent("new"), 1, at: 9)]))
        for other in 1..<7 { harness.reply(other, .pushes([])) }
        #expect(harness.finished[1] == nil)
        harness.reply(7, .pushes([tally(.unsent("old"), 1, at: 8), tally(.accepted, 3, at: 4)]))
        guard case .pushes(let found) = harness.finished[1] else {
            Issue.record("no answers")
            return
        }
        #expect(found == [tally(.accepted, 5, at: 5), tally(.unsent("new"), 2, at: 9)])
        #expect(harness.asked.map(\.partition.rawValue) == Array(0..<8))
    }

    @Test("refuses the question for a message's answers where a partition has no owner")
    func noPushes() {
        let harness = RouterHarness()
        harness.submit(.pushes(project: harness.project, of: MessageID(time: 1, random: 2)), ticket: 1)
        harness.reply(0, .refused(.unavailable("no owner")))
        guard case .refused = harness.finished[1] else {
            Issue.record("\(harness.finished)")
            return
        }
    }

    /// 256 partitions that take 20 s each would take an hour and a half.
    @Test("has one deadline for all that a listing and a registration ask one after the other")
    func oneDeadline() {
        let harness = RouterHarness()
        let end = Deadline(harness.now.monotonic.advanced(by: .seconds(25)))
        harness.submit(.topics(project: harness.project, page: nil, limit: 1000), ticket: 1)
        harness.submit(.register(project: harness.project), ticket: 2)
        for _ in 0..<2 {
            harness.pass(seconds: 20)
            let waiting = harness.asked.count - 2..<harness.asked.count
            for index in waiting {
                if case .register = harness.asked[index].request {
                    harness.reply(index, .full(holding: 9))
                } else {
                    harness.reply(index, .topics([], next: nil))
                }
            }
        }
        #expect(harness.asked.count == 4 && harness.finished.count == 2)
        #expect(
            Set(harness.deadlines) == [end], "who is asked last may do it no later than who is asked first")
        for outcome in harness.finished.values {
            guard case .refused(.unavailable("no owner answered in time")) = outcome else {
                Issue.record("\(outcome)")
                return
            }
        }
    }
}
