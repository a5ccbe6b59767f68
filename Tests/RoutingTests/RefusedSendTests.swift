import Model
import Partitions
import Quotas
import Testing

@testable import Routing

@Suite("A send that was refused for what it says")
struct RefusedSendTests {
    @Test("costs its project a token, asks nobody, and is refused for the quota where there is none")
    func costs() {
        let project = ProjectNumber(3)
        let router = Router(
            options: Router.Options(partitionCount: 8, gateway: GatewayID(2), session: 9),
            admission: Admission(SpenderID(1)), random: SeededGenerator(seed: 1))
        let begin = MonotonicTime(nanoseconds: 1_000_000_000)
        var now = Instant(monotonic: begin, wall: WallTime(milliseconds: 1))
        var limits = QuotaLimits.standard
        limits.setSends(perMinute: 3)
        var grantor = QuotaGrantor()
        grantor.open(project, limits, epoch: Epoch(1), beginning: .full, now: now.monotonic)
        var finished: [Outcome] = []
        for ticket in UInt64(1)...4 {
            var effects: [RouterEffect] = []
            router.submit(.refusedSend(project: project), ticket: ticket, now: now, into: &effects)
            while !effects.isEmpty {
                switch effects.removeFirst() {
                case .finish(let of, let outcome):
                    #expect(of == ticket)
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
        now.monotonic = now.monotonic.advanced(by: .seconds(30))
        #expect(router.refusalOfSend(in: project, now: now) == nil)
    }
}
