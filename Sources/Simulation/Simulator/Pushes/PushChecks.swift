import Model
import NodeCore
import Partitions

/// What partitions' machines promise about messages for push services (rules: pushes-read-the-log,
/// ends-of-their-own, gone-by-generation, push-services-are-spared).
final class PushChecks {
    /// A message for a device, in one machine of a partition.
    private struct Handed: Hashable {
        var machine: ObjectIdentifier
        var device: Int
        var message: UInt64
        /// The only service that must not get the message again; `nil`: no service must.
        var service: Transport.Kind?
    }
    /// An address as the device registered it once: a device may register the same address again.
    private struct Told: Hashable {
        var machine: ObjectIdentifier
        var address: PushAddress
        var generation: UInt64
    }
    private struct Asked: Hashable {
        var told: Told
        var message: UInt64
    }

    unowned let world: ClusterSimulation
    /// What each machine has at its limiter.
    var handedOver: [ObjectIdentifier: PushShares] = [:]
    /// Messages of which a machine knows that the service has them, and addresses that are gone.
    private var known: Set<Handed> = []
    /// Messages with TTL 0 for which a machine knows that the service was asked.
    private var attempted: Set<Handed> = []
    private var knownGone: Set<Told> = []
    /// When a machine may push a message again, by the clock of the machine's process. The service has asked
    /// for the time, or the sender doubts its word that the device is gone.
    private var askedFor: [Asked: MonotonicTime] = [:]
    /// A machine's newest number of a message, and of each project the newest one when the services changed.
    /// An answer about the former quota decides nothing (rule: former-keys-say-nothing).
    private var numbers: [ObjectIdentifier: UInt64] = [:]
    private var former: [ObjectIdentifier: [ProjectNumber: UInt64]] = [:]
    /// Machines are kept so that no two have the same identifier.
    private var machines: [Partition] = []

    init(_ world: ClusterSimulation) { self.world = world }

    /// A partition's machine hands a message to its loop's limiter.
    func handed(_ job: PushJob, by machine: Partition, of process: SimulatedProcess) {
        guard let address = PushAddress(job.transport) else {
            return world.violate("pushes", "an address that no device told: \(job.transport)")
        }
        let message = world.number(ofBody: job.event)
        world.debug(
            "device \(address.device) is to be pushed \(message) by \(address.kind.word), address"
                + " \(address.number), of partition \(machine.id.rawValue), push \(job.number)")
        if !machines.contains(where: { $0 === machine }) { machines.append(machine) }
        let handed = Handed(machine: ObjectIdentifier(machine), device: address.device, message: message)
        var atService = handed
        atService.service = address.kind
        if known.contains(handed) || known.contains(atService) {
            world.violate("G2", "device \(address.device) is pushed message \(message) again")
        }
        if job.isMomentary, attempted.contains(handed) {
            world.violate("G2", "message \(message) of now or never is tried again for \(address.device)")
        }
        let told = Told(
            machine: ObjectIdentifier(machine), address: address, generation: job.generation)
        numbers[told.machine] = job.number
        if knownGone.contains(told) {
            world.violate("pushes", "device \(address.device) is pushed at an address that is gone")
        }
        if let time = askedFor[Asked(told: told, message: message)], process.monotonic < time {
            world.violate(
                "pauses",
                "device \(address.device) is pushed message \(message)"
                    + " \(time.since(process.monotonic).milliseconds) ms before its pause is over")
        }
        // An owner whose clock was stopped cannot know yet that it is none any more. What leaves its node is
        // checked there.
        let stood = process.stoodStill(since: world.now.rewound(by: .seconds(5)))
        checkAcknowledged(message, address.device, before: world.now.rewound(by: stood))
        checkShares(job, by: machine)
        checkService(job, of: address, by: machine, process)
        guard !job.isMomentary, let send = world.history.sends.last(where: { $0.message == message })
        else { return }
        checkGrace(job, of: send, by: machine)
        checkEnd(job, of: send, by: process)
    }

    /// The machine learns that these projects' services have changed: all that waits because of a service may
    /// go immediately.
    func reopens(_ projects: Set<ProjectNumber>, at machine: Partition) {
        let id = ObjectIdentifier(machine)
        for project in projects { former[id, default: [:]][project] = numbers[id] }
        func isOther(_ told: Told) -> Bool {
            told.machine != id || !projects.contains(world.clients[told.address.device].project)
        }
        askedFor = askedFor.filter { isOther($0.key.told) }
        // Under another setting each address that is gone gets one more try.
        if world.options.changesSettings { knownGone = knownGone.filter(isOther) }
    }

    /// What a device has acknowledged must not be pushed (G2).
    private func checkAcknowledged(_ message: UInt64, _ device: Int, before time: MonotonicTime) {
        let delivery = world.history.deliveries.last { $0.device == device && $0.message == message }
        guard let position = delivery?.position else { return }
        let isAcknowledged = world.history.acknowledgements.contains {
            $0.device == device && $0.position >= position && $0.at < time
        }
        if isAcknowledged {
            world.violate("G2", "device \(device) is pushed message \(message), which it has acknowledged")
        }
    }

    /// The limiter has answered a partition's machine.
    func told(_ report: PushReport, of job: PushJob, to machine: Partition, of process: SimulatedProcess) {
        guard let address = PushAddress(job.transport) else { return }
        checkBrake(of: process)
        handedOver[ObjectIdentifier(machine)]?.remove(job)
        world.debug("partition \(machine.id.rawValue) hears of push \(job.number): \(report)")
        let message = world.number(ofBody: job.event)
        let told = Told(
            machine: ObjectIdentifier(machine), address: address, generation: job.generation)
        if job.isMomentary, report.untriedFor == nil {
            attempted.insert(Handed(machine: told.machine, device: address.device, message: message))
        }
        switch report.result {
        case .done:
            if report.outcome?.isUnexplained ?? false { givesUp(message, to: address.device) }
            if report.outcome == .accepted { knownGone.remove(told) }
            // An attempt for a TTL-0 message moves no mark, so another service may ring once more for a
            // message that its device acknowledges itself.
            let isRing = job.isMomentary && job.transport.keepsMessages
            known.insert(
                Handed(
                    machine: told.machine, device: address.device, message: message,
                    service: isRing ? address.kind : nil))
        case .gone:
            // With a brake the answer may be held.
            if !world.options.brakes { knownGone.insert(told) }
            // What waits for the device is pushed from the beginning if it registers another address.
            if job.transport.keepsMessages { known = known.filter { $0.device != address.device } }
        case .doubted(let pause, _, _):
            // Where another address is doubted too, this one is tried at once.
            if !job.isMomentary, world.options.addressKindsMax == 1 {
                askedFor[Asked(told: told, message: message)] = process.monotonic + pause
            }
        case .later, .closed: break
        }
        if case .overQuota = report.outcome, job.number <= former[told.machine]?[job.project] ?? 0 { return }
        let bounds = world.options.pushes
        let most =
            switch report.outcome {
            case .throttled: bounds.askedMax
            case .overQuota: bounds.pauseMax
            default: bounds.retryMax
            }
        if let asked = report.outcome?.asksFor(atMost: most) {
            askedFor[Asked(told: told, message: message)] = process.monotonic + asked
        }
    }

    /// The limiter takes an answer that explains nothing for a refusal of the message
    /// (rule: one-word-ends-nothing).
    private func givesUp(_ message: UInt64, to device: Int) {
        world.count("messages given up")
        let answers = world.history.unexplained(message, to: device)
        guard answers <= world.options.pushes.unexplainedMin else { return }
        world.violate(
            "refusals", "message \(message) to device \(device) is given up after \(answers) such answers")
    }

    /// A message leaves a node.
    func leaves(_ request: PushRequest, of process: SimulatedProcess, waitMax: TimeSpan) {
        guard let address = PushAddress(request.job.transport) else { return }
        // A message may wait in the limiter, for a token and in the client, and its device may acknowledge
        // the message meanwhile. A clock that was stopped shows neither that time nor the end of the lease.
        let inClient = process.monotonic.since(request.since)
        let waited = PushBounds().waitMax + max(inClient, waitMax) + .seconds(1)
        let stood = process.stoodStill(since: world.now.rewound(by: waited))
        checkAcknowledged(
            world.number(ofBody: request.job.event), address.device,
            before: world.now.rewound(by: waited + stood))
    }
}

extension PushOutcome {
    /// For how long the service asks to wait, as far as the limiter must believe it; `nil` if it asks for
    /// nothing.
    func asksFor(atMost most: TimeSpan) -> TimeSpan? {
        switch self {
        case .throttled(let seconds?), .overQuota(let seconds?), .transient(let seconds?),
            .formerEnd(let seconds?):
            min(.seconds(UInt64(clamping: seconds)), most)
        default: nil
        }
    }
}

/// What a loop's limiter promises about push services that fail (rule: push-services-are-spared). Kept beside
/// the limiter, from what it sends and receives.
struct LimiterChecks {
    private struct Origin {
        var underWay = 0
        /// How many of these left before the project's services changed last.
        var former = 0
        /// Whether the service has ever taken a message under these settings.
        var hasTaken = false
        /// Answers in a row that the service is not well.
        var failures = 0
        /// Whether there were answers between that may count as failures or not.
        var isVague = false
        var closedUntil: MonotonicTime?
        /// How long the last pause is at least. The next one is twice as long.
        var pause = TimeSpan.zero
        /// The project's quota at the service is used up until then.
        var spentUntil: MonotonicTime?
    }

    private let bounds: PushBounds
    private var origins: [PushOrigin: Origin] = [:]

    init(_ bounds: PushBounds) { self.bounds = bounds }

    /// These projects' services have changed: what the limiter knows of them counts no more.
    mutating func reopens(_ projects: Set<ProjectNumber>) {
        for name in origins.keys where projects.contains(name.project) {
            var fresh = Origin()
            fresh.underWay = origins[name]?.underWay ?? 0
            fresh.former = fresh.underWay
            origins[name] = fresh
        }
    }

    /// The limiter sends a message. Returns what breaks a promise.
    mutating func sends(_ job: PushJob, now: MonotonicTime) -> Violation? {
        let name = job.origin
        var origin = origins[name] ?? Origin()
        defer {
            origin.underWay += 1
            origins[name] = origin
        }
        func broken(_ guarantee: String, _ sentence: String) -> Violation {
            let service = "\(name.kind) service \(String(decoding: name.name, as: UTF8.self))"
            return Violation(guarantee, "project \(name.project) sends to \(service) \(sentence)")
        }
        if let until = origin.spentUntil, now < until {
            return broken("pauses", "\(until.since(now).milliseconds) ms before its quota is there again")
        }
        if let until = origin.closedUntil, !origin.isVague {
            if now < until {
                return broken("circuits", "\(until.since(now).milliseconds) ms before its pause is over")
            }
            if origin.underWay > 0 { return broken("circuits", "more than one message to see how it is") }
        }
        let unproven = origins.filter { $0.key.project == name.project && !$0.value.hasTaken }
        if !origin.hasTaken,
            unproven.values.reduce(0, { $0 + $1.underWay - $1.former }) >= bounds.unprovenAtOnce
        {
            return broken("unproven", "though others that have taken nothing hold all places for such")
        }
        return origin.underWay >= bounds.atOnce
            ? broken("places", "while \(origin.underWay) messages are on their way") : nil
    }

    /// The limiter gets a message's outcome. Answers to messages that left before a change of the project's
    /// services are no evidence about the service. Returns what breaks a promise.
    mutating func hears(
        _ outcome: PushOutcome, from name: PushOrigin, isFormer: Bool, now: MonotonicTime
    ) -> Violation? {
        guard var origin = origins[name] else { return nil }
        defer { origins[name] = origin }
        origin.underWay -= 1
        if isFormer {
            origin.former -= 1
            guard origin.former < 0 else { return nil }
            return Violation("former", "an answer to a new request counts for nothing")
        }
        judge(outcome, &origin, now: now)
        if origin.former <= origin.underWay { return nil }
        return Violation("former", "an answer to a former request counts")
    }

    private func judge(_ outcome: PushOutcome, _ origin: inout Origin, now: MonotonicTime) {
        let asked = outcome.asksFor(atMost: bounds.pauseMax) ?? .zero
        switch outcome {
        case .accepted, .formerEnd:
            if let until = origin.spentUntil, now < until {
                origin.hasTaken = origin.hasTaken || outcome == .accepted
                return
            }
            let (underWay, former) = (origin.underWay, origin.former)
            let hasTaken = origin.hasTaken || outcome == .accepted
            origin = Origin()
            (origin.underWay, origin.former, origin.hasTaken) = (underWay, former, hasTaken)
        case .transient:
            origin.failures += 1
            guard origin.failures >= bounds.failuresMax else { return }
            if origin.closedUntil.map({ $0 <= now }) ?? true {
                origin.pause = min(max(origin.pause * 2, bounds.pauseMin), bounds.pauseMax)
                origin.closedUntil = now.advanced(by: origin.pause)
            }
            origin.closedUntil = max(origin.closedUntil ?? now, now.advanced(by: asked))
        case .overQuota:
            // The pause for the quota counts as one of the pauses that double.
            origin.isVague = true
            origin.spentUntil = max(origin.spentUntil ?? now, now.advanced(by: asked))
        case .credentials, .unexplained, .unset, .throttled, .gone: origin.isVague = true
        case .refusedContent, .platformKey, .unsent, .expired: break
        }
    }
}
