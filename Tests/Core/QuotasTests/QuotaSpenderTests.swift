import Model
import Testing

@testable import Quotas

@Suite("A spender of quotas") final class QuotaSpenderTests {
    let project = ProjectNumber(1)
    private var spender = QuotaSpender(SpenderID(1))
    private var effects: [QuotaSpender.Effect] = []

    func asked(_ count: UInt64, now: TimeSpan) -> QuotaRequest? {
        var effects: [QuotaSpender.Effect] = []
        _ = spender.take(count, .sends, of: project, now: at(now), into: &effects)
        for case .request(let request) in effects { return request }
        return nil
    }

    func grant(_ request: QuotaRequest, _ tokens: UInt64, grantorEpoch: UInt64 = 1, shareRate: UInt64 = 0)
        -> QuotaGrant
    {
        QuotaGrant(
            spender: request.spender, project: request.project, kind: request.kind, number: request.number,
            grantorEpoch: Epoch(grantorEpoch), tokens: tokens, leaseLength: QuotaBounds().lease,
            shareRate: shareRate,
            shareLength: QuotaBounds().share, retryAfter: .zero, rate: QuotaRate(count: 1_000, burst: 1_000))
    }

    func take(_ count: UInt64, now: TimeSpan) -> QuotaSpender.Answer {
        var effects: [QuotaSpender.Effect] = []
        return spender.take(count, .sends, of: project, now: at(now), into: &effects)
    }

    @Test("the first operation waits for its lease and is not refused")
    func firstWaits() throws {
        let answer = spender.take(3, .sends, of: project, now: at(5), into: &effects)
        #expect(answer == .wait(until: at(5) + QuotaBounds().patienceWithoutShare))
        guard case .request(let request)? = effects.first else {
            Issue.record("no request")
            return
        }
        #expect(request.needed == 3 && request.grantorEpoch == Epoch(0))
        var more: [QuotaSpender.Effect] = []
        spender.receive(grant(request, 3), now: at(10), into: &more)
        #expect(more == [.ready(project, .sends)])
        #expect(take(3, now: .nanoseconds(11)) == .admitted(3))
    }

    @Test("a lease ends by the sending of its request, however late it comes")
    func leaseEnd() throws {
        let request = try #require(asked(10, now: .zero))
        spender.receive(grant(request, 10), now: at(.milliseconds(99)), into: &effects)
        #expect(take(1, now: .milliseconds(100) - .nanoseconds(1)) == .admitted(1))
        guard case .wait = take(1, now: .milliseconds(100)) else {
            Issue.record("spent after its end")
            return
        }
    }

    @Test(
        "a grant counts once, also where the network doubles it; one of a former owner, of another life or never asked for not at all"
    )
    func once() throws {
        let request = try #require(asked(2, now: .zero))
        var foreign = grant(request, 100)
        foreign.spender = SpenderID(2)
        spender.receive(foreign, now: at(1), into: &effects)
        var unasked = grant(request, 100)
        unasked.number += 1
        spender.receive(unasked, now: at(1), into: &effects)
        spender.receive(grant(request, 2, grantorEpoch: 5), now: at(1), into: &effects)
        spender.receive(grant(request, 2, grantorEpoch: 5), now: at(1), into: &effects)
        #expect(take(2, now: .nanoseconds(2)) == .admitted(2))
        let second = try #require(asked(2, now: .nanoseconds(3)))
        spender.receive(grant(second, 2, grantorEpoch: 4), now: at(4), into: &effects)
        guard case .wait = take(2, now: .nanoseconds(5)) else {
            Issue.record("it took what was not its own")
            return
        }
    }

    @Test("a request is repeated until it is answered, and any of the last four answers will do")
    func repeats() throws {
        _ = spender.take(1, .sends, of: project, now: at(0), into: &effects)
        var requests: [QuotaRequest] = []
        while requests.count < 7 {
            var wake: MonotonicTime?
            for effect in effects {
                if case .request(let request) = effect { requests.append(request) }
                if case .wake(let time) = effect { wake = time }
            }
            effects = []
            guard let wake else { break }
            _ = take(1, now: wake.since(.zero))
            spender.woke(now: wake, into: &effects)
        }
        #expect(Set(requests.map(\.number)).count == 7)
        #expect(requests[6].floor == requests[3].number)
        // Seven requests have left, at 0, 25, 75, 175 ms and so on. The spender has given up the third, not
        // the fourth.
        var answer = grant(requests[2], 1)
        answer.leaseLength = .seconds(1)
        spender.receive(answer, now: at(.milliseconds(499)), into: &effects)
        guard case .wait = take(1, now: .milliseconds(499)) else {
            Issue.record("it applied what it had given up")
            return
        }
        answer.number = requests[3].number
        spender.receive(answer, now: at(.milliseconds(500)), into: &effects)
        #expect(take(1, now: .milliseconds(501)) == .admitted(1))
    }

    @Test("an owner that never answers: a wait with an end, and no word of a used-up quota")
    func silence() {
        #expect(take(1, now: .zero) == .wait(until: at(QuotaBounds().patienceWithoutShare)))
        spender.woke(now: at(QuotaBounds().patienceWithoutShare), into: &effects)
        #expect(effects.contains(.ready(project, .sends)))
        #expect(take(1, now: QuotaBounds().patienceWithoutShare) == .unanswered)
    }

    @Test("an owner that is only slow refuses nobody: what its share cannot carry waits")
    func slowOwner() throws {
        let first = try #require(asked(1, now: .zero))
        spender.receive(grant(first, 1, shareRate: 100), now: at(.milliseconds(1)), into: &effects)
        #expect(take(1, now: .milliseconds(1)) == .admitted(1))
        let second = try #require(asked(1, now: .milliseconds(2)))
        // The share is 100 a second; a burst of a hundred comes while the owner's loop is busy.
        let answers = (0..<100).map { _ in take(1, now: .milliseconds(82)) }
        #expect(answers.filter { $0 == .admitted(1) }.count == 8)
        #expect(
            answers.filter { $0 == .wait(until: at(.milliseconds(2) + QuotaBounds().patienceWithoutShare)) }
                .count == 92)
        effects = []
        spender.receive(grant(second, 100), now: at(.milliseconds(95)), into: &effects)
        #expect(effects.contains(.ready(project, .sends)))
        for _ in 0..<92 { #expect(take(1, now: .milliseconds(96)) == .admitted(1)) }
    }

    @Test("wild numbers in a grant or an operation trap nothing")
    func wild() throws {
        for number in [UInt64.max, 1 << 63, 0] {
            guard let request = asked(.max, now: .max - .nanoseconds(1)) else { continue }
            var grant = grant(request, number, grantorEpoch: number, shareRate: number)
            let length = TimeSpan.nanoseconds(number)
            (grant.leaseLength, grant.shareLength, grant.retryAfter) = (length, length, length)
            spender.receive(grant, now: at(UInt64.max - 1), into: &effects)
            spender.woke(now: at(TimeSpan.max), into: &effects)
            _ = take(.max, now: .max)
            _ = take(1, now: .zero)
            _ = take(0, now: .zero)
        }
        for kind in QuotaKind.allCases {
            _ = spender.take(1, kind, of: ProjectNumber(0), now: at(0), into: &effects)
        }
    }

    @Test("more projects than are kept: those that hold nothing are forgotten")
    func manyProjects() {
        var refused = 0
        for number in 1...UInt32(QuotaBounds().projectCountMax) + 10 {
            let answer = spender.take(1, .sends, of: ProjectNumber(number), now: at(1), into: &effects)
            if case .refused = answer { refused += 1 }
        }
        #expect(refused == 10)
        for step in 1...220 as ClosedRange<UInt64> {
            spender.woke(now: at(.milliseconds(25) * step), into: &effects)
        }
        let answer = spender.take(1, .sends, of: ProjectNumber(1 << 20), now: at(.seconds(6)), into: &effects)
        guard case .wait = answer else {
            Issue.record("\(answer)")
            return
        }
    }

    @Test("what was spent of a project is remembered while its owner may not have heard of it")
    func rememberedProject() throws {
        var bounds = QuotaBounds()
        bounds.projectCountMax = 1
        spender = QuotaSpender(SpenderID(1), bounds)
        let request = try #require(asked(2, now: .zero))
        spender.receive(grant(request, 2), now: at(1), into: &effects)
        #expect(take(2, now: .nanoseconds(2)) == .admitted(2))
        for step in 1...4 as ClosedRange<UInt64> {
            spender.woke(now: at(.milliseconds(25) * step), into: &effects)
        }
        guard case .idle(let now) = spender.leasedTokens[0].state else {
            Issue.record("the spender still looks after its tokens")
            return
        }
        let other = ProjectNumber(2)
        let almost = now.advanced(by: bounds.share - .nanoseconds(1))
        let early = spender.take(1, .sends, of: other, now: almost, into: &effects)
        guard case .refused = early else { return #expect(Bool(false), "\(early)") }
        let late = spender.take(1, .sends, of: other, now: now.advanced(by: bounds.share), into: &effects)
        guard case .wait = late else { return #expect(Bool(false), "\(late)") }
    }

    @Test("the project table is a dictionary")
    func table() {
        var random = SeededGenerator(seed: 8)
        var table = ProjectTable()
        var twin: [ProjectNumber: Int] = [:]
        for step in 0..<50_000 {
            let project = ProjectNumber(
                UInt32.random(in: 0..<200, using: &random) * 65_536 % ProjectNumber.limit)
            switch (twin[project], Int.random(in: 0..<3, using: &random)) {
            case (nil, 0):
                table.insert(project, at: step)
                twin[project] = step
            case (_, 1):
                table.remove(project)
                twin[project] = nil
            default: #expect(table.slot(of: project) == twin[project])
            }
            #expect(table.count == twin.count)
        }
    }
}
