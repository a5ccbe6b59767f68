import Model
import Partitions
import Quotas
import Testing

@testable import Routing

@Suite("What was refused for what it says")
struct RefusedSendTests {
    private let project = ProjectNumber(3)
    private let limits = {
        var limits = QuotaLimits.standard
        limits.setSends(perMinute: 3)
        limits.setSubscriptionChanges(perSecond: 3)
        return limits
    }()

    /// The outcomes of the operations, a millisecond apart. The bucket's owner answers at once.
    private func outcomes(
        of operations: [Operation], by router: Router, _ now: inout Instant
    ) -> [Outcome] {
        var grantor = QuotaGrantor()
        grantor.open(project, limits, epoch: Epoch(1), beginning: .full, now: now.monotonic)
        var finished: [Outcome] = []
        for (ticket, operation) in operations.enumerated() {
            var effects: [RouterEffect] = []
            router.submit(operation, ticket: UInt64(ticket), now: now, into: &effects)
            while !effects.isEmpty {
                switch effects.removeFirst() {
                case .finish(let of, let outcome):
                    #expect(of == UInt64(ticket))
                    finished.append(outcome)
                case .quota(let request):
                    var answers: [QuotaGrantor.Effect] = []
                    grantor.receive(request, now: now.monotonic, into: &answers)
                    for case .grant(let grant) in answers {
                        router.granted(grant, now: now, into: &effects)
                    }
                case .ask: Issue.record("nobody is to be asked")
                default: break
                }
            }
            now.monotonic = now.monotonic.advanced(by: .milliseconds(1))
        }
        return finished
    }

    private func router() -> Router {
        Router(
            options: Router.Options(partitionCount: 8, gateway: GatewayID(2), session: 9),
            admission: Admission(SpenderID(1)), random: SeededGenerator(seed: 1))
    }

    private let begin = Instant(
        monotonic: MonotonicTime(nanoseconds: 1_000_000_000), wall: WallTime(milliseconds: 1))

    @Test("as a send costs a token, asks nobody, and is refused for the quota where there is none")
    func costs() {
        let router = router()
        var now = begin
        let operations = Array(repeating: Operation.refusedSend(project: project), count: 4)
        let finished = outcomes(of: operations, by: router, &now)
        #expect(finished.count == 4)
        for outcome in finished.prefix(3) {
            if case .done = outcome {} else { Issue.record("\(outcome)") }
        }
        guard case .refused(.quota(let refusal))? = finished.last else {
            Issue.record("\(finished)")
            return
        }
        #expect(refusal.kind == .sends && refusal.limit == 3)
        // From now on the refusal is certain, for as long as the owner said, and for this project only.
        let early = router.refusalOfSend(in: project, now: now)
        #expect(early?.kind == .sends && early?.limit == 3)
        #expect(router.refusalOfSend(in: ProjectNumber(4), now: now) == nil)
        #expect(router.refusalOfChange(in: project, now: now) == nil)
        now.monotonic = now.monotonic.advanced(by: .seconds(30))
        #expect(router.refusalOfSend(in: project, now: now) == nil)
    }

    @Test("as a batch costs its project as many changes as it has false tokens")
    func batches() {
        let router = router()
        var now = begin
        let operations = [
            Operation.refusedChanges(project: project, count: 1),
            .refusedChanges(project: project, count: 2), .refusedChanges(project: project, count: 1),
        ]
        let finished = outcomes(of: operations, by: router, &now)
        #expect(finished.count == 3)
        for outcome in finished.prefix(2) {
            if case .done = outcome {} else { Issue.record("\(outcome)") }
        }
        guard case .refused(.quota(let refusal))? = finished.last else {
            Issue.record("\(finished)")
            return
        }
        #expect(refusal.kind == .subscriptionChanges && refusal.limit == 3)
        #expect(router.refusalOfChange(in: project, now: now)?.kind == .subscriptionChanges)
    }
}
