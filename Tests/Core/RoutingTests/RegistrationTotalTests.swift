import Model
import Partitions
import Quotas
import Testing

@testable import Routing

@Suite("A project that has all its devices")
struct RegistrationTotalTests {
    private let project = ProjectNumber(3)

    /// Partitions that only count.
    private final class ClusterHarness {
        var held = [Int](repeating: 0, count: 4)
        var asked = 0
        var grantor = QuotaGrantor()
        var now = Instant(monotonic: MonotonicTime(.seconds(1)), wall: WallTime(milliseconds: 1))
        let router: Router

        init(_ project: ProjectNumber, _ limits: QuotaLimits) {
            router = Router(
                options: Router.Options(partitionCount: 4, gateway: GatewayID(2), session: 9),
                admission: Admission(SpenderID(1)), random: SeededGenerator(seed: 1))
            router.admission.setLimits([project: limits])
            grantor.open(project, limits, epoch: Epoch(1), beginning: .full, now: now.monotonic)
        }

        func register(_ project: ProjectNumber) -> Outcome? {
            var effects: [RouterEffect] = []
            var outcome: Outcome?
            router.submit(.register(project: project), ticket: 1, now: now, into: &effects)
            while !effects.isEmpty {
                switch effects.removeFirst() {
                case .finish(_, let found): outcome = found
                case .quota(let request):
                    var answers: [QuotaGrantor.Effect] = []
                    grantor.receive(request, now: now.monotonic, into: &answers)
                    for case .grant(let grant) in answers { router.granted(grant, now: now, into: &effects) }
                case .ask(let partition, let id, .register(_, let limit, let nonce, let secret), _):
                    asked += 1
                    let index = Int(partition.rawValue)
                    var reply = Reply.full(holding: held[index])
                    if held[index] < limit {
                        held[index] += 1
                        reply = .registered(index: DeviceIndex(1), nonce: nonce, secret: secret)
                    }
                    router.replied(id.number, reply, now: now, into: &effects)
                default: break
                }
            }
            return outcome
        }
    }

    @Test("is refused for that limit, asks its partitions again after ten seconds, and takes what is free")
    func total() throws {
        var limits = QuotaLimits.standard
        limits.devices = 3
        let harness = ClusterHarness(project, limits)
        for _ in 0..<3 {
            guard case .registered? = harness.register(project) else {
                Issue.record("a device within the limit was refused")
                return
            }
        }
        for _ in 0..<5 {
            guard case .refused(.quota(let refusal))? = harness.register(project) else {
                Issue.record("a device beyond the limit was registered")
                return
            }
            #expect(refusal == QuotaRefusal(kind: .devices, limit: 3, retryDelay: .seconds(10)))
        }
        #expect(harness.held.reduce(0, +) == 3)
        let asked = harness.asked
        harness.held = harness.held.map { max(0, $0 - 1) }
        _ = harness.register(project)
        #expect(harness.asked == asked)
        harness.now.monotonic = harness.now.monotonic.advanced(by: .seconds(10))
        guard case .registered? = harness.register(project) else {
            Issue.record("a device in the place of one that is gone was refused")
            return
        }
        // A higher limit counts at once.
        _ = harness.register(project)
        limits.devices = 10
        harness.router.admission.setLimits([project: limits])
        guard case .registered? = harness.register(project) else {
            Issue.record("a device within the new limit was refused")
            return
        }
    }
}
