import Model
import Partitions

/// How many messages of each service and of each project one machine has at its limiter.
struct PushShares {
    private var byOrigin: [PushOrigin: Int] = [:]
    private var byProject: [ProjectNumber: Int] = [:]

    mutating func add(_ job: PushJob) -> (ofOrigin: Int, ofProject: Int) {
        byOrigin[job.origin, default: 0] += 1
        byProject[job.project, default: 0] += 1
        return (byOrigin[job.origin] ?? 0, byProject[job.project] ?? 0)
    }

    mutating func remove(_ job: PushJob) {
        guard !job.isMomentary else { return }
        byOrigin[job.origin, default: 0] -= 1
        byProject[job.project, default: 0] -= 1
    }
}

extension PushChecks {
    /// One service has at most half of a partition's slots, and one project three quarters. Attempts for
    /// TTL-0 messages have separate slots.
    func checkShares(_ job: PushJob, by machine: Partition) {
        guard !job.isMomentary else { return }
        let slots = world.options.partition.pushesAtOnce
        let (ofOrigin, ofProject) = handedOver[ObjectIdentifier(machine), default: PushShares()].add(job)
        if ofOrigin > max(1, slots / 2) {
            world.violate("shares", "a service has \(ofOrigin) of the \(slots) slots of \(machine.id)")
        }
        if ofProject > max(1, slots * 3 / 4) {
            world.violate("shares", "a project has \(ofProject) of the \(slots) slots of \(machine.id)")
        }
    }

    /// A device's messages go to the first of its addresses for which the project has a service, as the
    /// partition knows it. If the project has none they go to the first of all.
    func checkService(
        _ job: PushJob, of address: PushAddress, by machine: Partition, _ process: SimulatedProcess
    ) {
        guard world.options.changesServices, let all = machine.pushServices,
            world.history.gone[address.device] == nil
        else { return }
        let services = all[job.project] ?? PushServices()
        let served = services.kinds
        let isServed = served.contains(address.kind)
        for kind in surelyStored(address.device, process)
        where !world.pushServices.hasDenied(kind, of: address.device, under: services.settings[kind] ?? 0) {
            let isBetter =
                served.contains(kind)
                ? !isServed || kind < address.kind : !isServed && kind < address.kind
            guard isBetter else { continue }
            world.violate(
                "services",
                "device \(address.device) is pushed by \(address.kind.word)\(isServed ? "" : ", unserved,")"
                    + " though it has an address of \(kind.word)")
        }
    }

    /// The kinds of which any owner knows an address of the device. A machine whose clock was stopped may
    /// know as much only as when that began.
    private func surelyStored(_ device: Int, _ process: SimulatedProcess) -> [Transport.Kind] {
        let lease = world.options.ownership.lease
        let stood = process.stoodStill(since: world.now.rewound(by: lease + .seconds(30)))
        let before = world.now.rewound(by: stood > .zero ? stood + lease : .zero)
        return world.pushKind(device).kinds.filter {
            world.hasAddress(device, $0, since: before) && !world.pushServices.hasDenied($0, of: device)
        }
    }

    /// The largest difference of two wall clocks.
    private var clocksDiffer: TimeSpan {
        world.noteClocks()
        return 2 * world.worstClock + world.options.clocksApart
    }

    /// A device that listens has the grace to acknowledge a message itself.
    func checkGrace(_ job: PushJob, of send: History.Send, by machine: Partition) {
        let grace = world.options.partition.pushGrace
        let waited = world.now.since(send.began)
        guard waited < grace, waited + clocksDiffer < grace,
            machine.liveStreams.contains(where: { $0.device == job.device })
        else { return }
        world.violate(
            "grace",
            "message \(send.message) is pushed \(waited.milliseconds) ms after it was sent,"
                + " to a device that listens")
    }

    /// Nothing is pushed after its own end at the service. The end counts from when an owner accepted the
    /// message, and a short way between two owners does not count.
    func checkEnd(_ job: PushJob, of send: History.Send, by process: SimulatedProcess) {
        guard let end = send.pushEnds[job.transport.kind] else { return }
        let late = process.clock.wall.milliseconds - end.milliseconds
        let untaken = world.begun[send.message].map { $0.since(send.began) } ?? .zero
        let permitted = clocksDiffer + untaken + OutboxFrame.wayUncounted
        guard late > 0, .milliseconds(UInt64(late)) > permitted else { return }
        world.violate(
            "G2", "message \(send.message) is pushed \(late) ms after its end at \(job.transport.kind.word)")
    }
}
