import Model
import Partitions
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
    var finishCount = 0
    /// Whether requests to the grantor are lost, and when the router wants to be woken for its quotas.
    var isGrantorAway = false
    var wakeQuota: [MonotonicTime] = []
    let project = ProjectNumber(3)

    init(isClustered: Bool = false, partitionCount: Int = 8, _ bounds: RouterBounds = RouterBounds()) {
        var options = Router.Options(partitionCount: partitionCount, gateway: GatewayID(2), session: 9)
        options.bounds = bounds
        options.isClustered = isClustered
        router = Router(
            options: options,
            admission: Admission(SpenderID(1)),
            random: SeededGenerator(seed: 1))
        grantor.open(project, .standard, epoch: Epoch(1), beginning: .full, now: now.monotonic)
    }

    func submit(_ operation: Operation, ticket: UInt64) {
        carryOut { router.submit(operation, ticket: ticket, now: now, into: &$0) }
    }

    func reply(_ index: Int, _ reply: Reply) { self.reply(reply, to: asked[index].id) }

    func reply(_ reply: Reply, to id: RequestID) {
        carryOut { router.replied(id.number, reply, now: now, into: &$0) }
    }

    /// The router asks again for everything under way, as when a partition gets another owner.
    func reroute() {
        carryOut { router.rerouted({ _ in true }, now: now, into: &$0) }
    }

    func retry() {
        carryOut { router.retryMoved(now: now, into: &$0) }
    }

    func pass(seconds: UInt64) {
        now.monotonic = now.monotonic.advanced(by: .seconds(seconds))
        carryOut {
            router.woke(now: now, into: &$0)
            router.retryMoved(now: now, into: &$0)
        }
    }

    /// Lets a millisecond pass, and wakes the router for all that it may wait for.
    func tick() {
        now.monotonic = now.monotonic.advanced(by: .milliseconds(1))
        carryOut {
            router.retryMoved(now: now, into: &$0)
            router.quotaWoke(now: now, into: &$0)
            router.woke(now: now, into: &$0)
        }
    }

    /// Carries out what the router wants in `call`.
    private func carryOut(_ call: (inout [RouterEffect]) -> Void) {
        var effects: [RouterEffect] = []
        call(&effects)
        for effect in effects {
            switch effect {
            case .ask(let partition, let id, let request, let deadline):
                asked.append((partition, id, request))
                deadlines.append(deadline)
            case .finish(let ticket, let outcome):
                finished[ticket] = outcome
                finishCount += 1
            case .quota where isGrantorAway: break
            case .quota(let request):
                var answers: [QuotaGrantor.Effect] = []
                grantor.receive(request, now: now.monotonic, into: &answers)
                for case .grant(let grant) in answers {
                    carryOut { router.granted(grant, now: now, into: &$0) }
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
            carryOut { router.quotaWoke(now: now, into: &$0) }
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
