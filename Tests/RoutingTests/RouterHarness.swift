import Model
import Partitions
import Placement
import Quotas

@testable import Routing

/// A router whose buckets are always full.
final class RouterHarness {
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
        grantor.open(project, .standard, epoch: Epoch(1), beginning: .full, now: now.monotonic)
    }

    func submit(_ operation: Operation, ticket: UInt64) {
        var effects: [RouterEffect] = []
        router.submit(operation, ticket: ticket, now: now, into: &effects)
        carryOut(effects)
    }

    func reply(_ index: Int, _ reply: Reply) {
        var effects: [RouterEffect] = []
        router.replied(asked[index].id.number, reply, now: now, into: &effects)
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
