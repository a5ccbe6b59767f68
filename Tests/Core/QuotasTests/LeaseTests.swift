import Model
import Testing

@testable import Quotas

/// Several spenders and their grantor on one node: messages arrive at once, and all share one clock.
struct OneNode {
    var now: MonotonicTime
    var grantor = QuotaGrantor()
    var spenders: [QuotaSpender]
    var wakes: [MonotonicTime?]
    let project = ProjectNumber(7)

    init(
        _ limits: QuotaLimits, spenders count: Int = 2, _ beginning: QuotaGrantor.Beginning = .full,
        at now: MonotonicTime = at(.seconds(100))
    ) {
        self.now = now
        spenders = (0..<count).map { QuotaSpender(SpenderID(UInt64($0) + 1)) }
        wakes = Array(repeating: nil, count: count)
        grantor.open(project, limits, epoch: Epoch(1), beginning: beginning, now: now)
    }

    /// Takes tokens, and waits where the spender says so. Returns the number admitted, or the refusal.
    mutating func take(_ count: UInt64, _ kind: QuotaKind = .sends, on number: Int = 0) -> (
        UInt64, QuotaRefusal?
    ) {
        for _ in 0..<3 {
            var effects: [QuotaSpender.Effect] = []
            let answer = spenders[number].take(count, kind, of: project, now: now, into: &effects)
            carryOut(effects, number)
            switch answer {
            case .admitted(let admitted): return (admitted, nil)
            case .refused(let refusal): return (0, refusal)
            case .unanswered: return (0, nil)
            case .wait: continue
            }
        }
        return (0, nil)
    }

    mutating func carryOut(_ effects: [QuotaSpender.Effect], _ number: Int) {
        for effect in effects {
            switch effect {
            case .request(let request):
                var grants: [QuotaGrantor.Effect] = []
                grantor.receive(request, now: now, into: &grants)
                for case .grant(let grant) in grants {
                    var more: [QuotaSpender.Effect] = []
                    spenders[number].receive(grant, now: now, into: &more)
                    carryOut(more, number)
                }
            case .ready: break
            case .wake(let time): wakes[number] = time
            }
        }
    }

    mutating func pass(_ length: TimeSpan) {
        let end = now.advanced(by: length)
        while let (number, time) = wakes.enumerated().compactMap({ wake in
            wake.element.map { (wake.offset, $0) }
        })
        .min(by: { $0.1 < $1.1 }), time <= end {
            now = max(now, time)
            wakes[number] = nil
            var effects: [QuotaSpender.Effect] = []
            spenders[number].woke(now: now, into: &effects)
            carryOut(effects, number)
        }
        now = end
    }
}

@Suite("Leases of quotas") struct LeaseTests {
    @Test(
        "600,000 sends at once pass on a node of two loops, the next does not, then 10,000 a second"
    )
    func sendsOfAMinute() {
        var node = OneNode(.standard)
        let start = node.now
        var sent: UInt64 = 0
        // 250,000 a second, so that the node's clock moves.
        while node.take(1, on: Int(sent & 1)).0 == 1 {
            sent += 1
            node.pass(.microseconds(4))
        }
        let refilled = node.now.since(start) / .microseconds(100)
        #expect(sent >= 600_000 && sent <= 600_000 + refilled, "\(sent)")
        // The other loop may still hold tokens that it leased for the next 75 ms.
        while node.take(1, on: 0).0 == 1 { sent += 1 }
        while node.take(1, on: 1).0 == 1 { sent += 1 }
        #expect(sent >= 600_000 + refilled - 50 && sent <= 600_000 + refilled, "\(sent) \(refilled)")
        let (admitted, refusal) = node.take(1)
        #expect(admitted == 0)
        #expect(refusal?.kind == .sends && refusal?.limit == 600_000, "a minute, as the limit is set")
        #expect((refusal?.retryDelay ?? .zero) > .zero && (refusal?.retryDelay ?? .max) <= .milliseconds(100))
        node.pass(.seconds(1))
        var passed: UInt64 = 0
        while node.take(1, on: Int(passed & 1)).0 == 1 { passed += 1 }
        #expect((9_990...10_000).contains(passed), "\(passed)")
    }

    @Test("a refused send says the limit of a minute, also one below a token a second")
    func slowLimit() {
        var limits = QuotaLimits.standard
        limits.setSends(perMinute: 5)
        var node = OneNode(limits)
        while node.take(1).0 == 1 {}
        #expect(node.take(1).1?.limit == 5)
    }

    @Test(
        "subscription changes are counted in devices; 3,000 at once pass, whichever loops they come to"
    )
    func subscriptionChanges() {
        var node = OneNode(.standard)
        for batch in 0..<3 { expect(node.take(1_000, .subscriptionChanges, on: batch & 1).0 == 1_000) }
        let (admitted, refusal) = node.take(1_000, .subscriptionChanges, on: 1)
        #expect(admitted == 0 && refusal?.limit == 3_000)
        node.pass(.milliseconds(200))
        // 600 tokens flow in, less those lost while the bucket did not know yet that its last token was
        // spent.
        let passed = node.take(1_000, .subscriptionChanges, on: 1).0
        #expect((450...600).contains(passed), "\(passed)")
    }

    @Test("a batch of which the bucket holds only some gets as many as there are")
    func some() {
        var limits = QuotaLimits.standard
        limits.setSubscriptionChanges(perSecond: 5)
        var node = OneNode(limits)
        #expect(node.take(8, .subscriptionChanges).0 == 5)
        #expect(node.take(8, .subscriptionChanges).0 == 0)
        node.pass(.milliseconds(250))
        #expect(node.take(8, .subscriptionChanges, on: 1).0 == 1)
    }

    @Test("a small quota is exact to the token", arguments: [1, 2, 60, 100] as [UInt64])
    func small(perMinute: UInt64) {
        var limits = QuotaLimits.standard
        limits.setSends(perMinute: perMinute)
        var node = OneNode(limits, spenders: 3)
        for send in 0..<perMinute {
            expect(node.take(1, on: Int(send % 3)).0 == 1, "\(send)")
            node.pass(.milliseconds(1))
        }
        for loop in 0..<3 { expect(node.take(1, on: loop).0 == 0 || perMinute * 3 > 60_000 / 60) }
        node.pass(.seconds(61))
        var passed: UInt64 = 0
        while node.take(1, on: Int(passed % 3)).0 == 1, passed < 1_000 { passed += 1 }
        #expect(passed == perMinute)
    }

    @Test("what a loop leased and does not use is back within 100 ms")
    func givenBack() {
        var node = OneNode(.standard)
        for _ in 0..<2_000 {
            expect(node.take(1).0 == 1)
            node.pass(.microseconds(50))
        }
        node.pass(.milliseconds(75))
        #expect(node.grantor.projects[node.project]?.accountings[0].accounts[0].isIdle == true)
        node.pass(.milliseconds(300))
        let level = node.grantor.level(of: .sends, node.project, now: node.now) ?? 0
        #expect(
            level == 600_000 && node.grantor.projects[node.project]?.accountings[0].accounts[0].isIdle == true
        )
        #expect(node.wakes[0] == nil)
        node.grantor.forgetIdle(now: node.now)
        #expect(!node.grantor.isOpen(node.project))
    }

    @Test(
        "an owner that knows nothing of the former owner is silent until its shares have ended and some tokens have flowed in"
    )
    func firstGrantOfANewOwner() {
        let since = at(.seconds(100))
        var now = since
        var beginning: QuotaGrantor.Beginning?
        while beginning == nil {
            now = now.advanced(by: .milliseconds(1))
            beginning = QuotaGrantor.beginning(isFirst: false, left: nil, since: since, now: now)
        }
        expect(now.since(since) > QuotaBounds().share)
        guard let beginning else { return }
        var node = OneNode(.standard, spenders: 1, beginning, at: now)
        for kind in QuotaGrantor.kinds { expect(node.take(50, kind).0 == 50) }
        var passed: UInt64 = 50
        while node.take(1).0 == 1 { passed += 1 }
        let inflow = (now.since(since) - QuotaBounds().share) / .microseconds(100)
        expect((inflow - 10...inflow).contains(passed), "\(passed) of \(inflow)")
    }

    @Test("what the former owner left can be spent at once, and nothing flows in for the length of a share")
    func remaindersOfTheFormerOwner() {
        let since = at(.seconds(100))
        let beginning = QuotaGrantor.beginning(isFirst: false, left: [70, 3, 3], since: since, now: since)
        guard let beginning else {
            Issue.record("no beginning")
            return
        }
        var node = OneNode(.standard, spenders: 1, beginning, at: since)
        var passed: UInt64 = 0
        while node.take(1).0 == 1 { passed += 1 }
        node.pass(QuotaBounds().share - .nanoseconds(1))
        while node.take(1).0 == 1 { passed += 1 }
        expect(passed == 70, "\(passed)")
        node.pass(.milliseconds(100))
        while node.take(1).0 == 1 { passed += 1 }
        expect((1_060...1_070).contains(passed), "\(passed)")
    }

    @Test("without confirmed authority an owner grants nothing")
    func authority() {
        var node = OneNode(.standard)
        #expect(node.take(1).0 == 1)
        node.grantor.authority = node.now
        node.pass(.milliseconds(300))
        var effects: [QuotaSpender.Effect] = []
        let answer = node.spenders[0].take(1, .sends, of: node.project, now: node.now, into: &effects)
        guard case .wait = answer else {
            Issue.record("\(answer)")
            return
        }
    }

    @Test("new limits hold for the next lease")
    func newLimits() {
        var node = OneNode(.standard)
        #expect(node.take(1).0 == 1)
        var limits = QuotaLimits.standard
        limits.setSends(perMinute: 10)
        node.grantor.change(node.project, to: limits, now: node.now)
        var passed = 0
        while node.take(1).0 == 1 { passed += 1 }
        #expect((9...10).contains(passed), "\(passed)")
    }

    @Test(
        "a project of which no limits are known here is asked for; requests for kinds without leases are dropped"
    )
    func unknown() {
        var node = OneNode(.standard)
        node.grantor.close { $0 == node.project }
        var effects: [QuotaSpender.Effect] = []
        _ = node.spenders[0].take(1, .sends, of: node.project, now: node.now, into: &effects)
        guard case .request(var request)? = effects.first else {
            Issue.record("no request")
            return
        }
        var answers: [QuotaGrantor.Effect] = []
        node.grantor.receive(request, now: node.now, into: &answers)
        #expect(answers == [.unknown(request)])
        request.kind = .deviceHour
        answers = []
        node.grantor.receive(request, now: node.now, into: &answers)
        #expect(answers.isEmpty)
    }
}
