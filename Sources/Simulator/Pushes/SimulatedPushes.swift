import Model
import NodeCore
import Partitions
import PushMessages
import PushScheduling

/// A message of a loop's sender, on its way to a push service.
struct PushRequest {
    /// The loop, and its sender's number.
    var loop: Int
    var number: UInt64
    var job: PushJob
    /// When the loop handed the message over, by the process's clock.
    var since: MonotonicTime
    /// The setting of the service under which the message leaves.
    var setting: UInt64 = 0
}

/// What a simulated process has between its loops' senders and its clients for push services, in the place of
/// `PushDispatch`. As there, `PushUnderWay` decides.
final class SimulatedPushes {
    private unowned let process: SimulatedProcess
    private unowned let world: ClusterSimulation
    let client: SimulatedHTTPClient
    let checks: UnderWayChecks
    private lazy var apple = SimulatedAppleClient(process, self)
    private var relays: [ProjectNumber: SimulatedRelay] = [:]

    init(_ process: SimulatedProcess) {
        self.process = process
        world = process.world
        client = SimulatedHTTPClient(process)
        checks = UnderWayChecks(process)
    }

    /// A message that a loop has handed over.
    func underWay(_ request: PushRequest) -> PushUnderWay {
        var underWay = PushUnderWay(revision: 0, world.options.underWay, now: request.since)
        #if DEBUG
            underWay.planted = world.options.plantedUnderWay
        #endif
        return underWay
    }

    func finish(_ end: PushUnderWay.End, of request: PushRequest) {
        checks.ends(end.outcome, of: request)
        tell(end.outcome, of: request)
    }

    /// A loop's sender sends a message.
    func send(_ send: PushSend, fromLoop number: Int) {
        let kind = send.job.transport.kind
        let message = PushRequest(
            loop: number, number: send.number, job: send.job, since: process.monotonic,
            setting: process.catalog.services[send.job.project]?.settings[kind] ?? 0)
        if let services = process.catalog.services[message.job.project],
            !services.serves(message.job.transport)
        {
            world.count("pushes without a service")
            return tell(.unset("the project has no such service"), of: message)
        }
        switch kind {
        case .web: push(message, to: String(decoding: message.job.transport.origin, as: UTF8.self))
        case .apns: apple.send(message)
        case .fcm: relay(of: message.job.project).send(message)
        }
    }

    private func relay(of project: ProjectNumber) -> SimulatedRelay {
        if let known = relays[project] { return known }
        let relay = SimulatedRelay(process, self, of: project)
        relays[project] = relay
        return relay
    }

    private func push(_ message: PushRequest, to origin: String) {
        let underWay = underWay(message)
        checks.submits(message, now: process.monotonic)
        client.submit(
            SimulatedRequest(
                key: .init(share: UInt64(message.job.project.rawValue), origin: origin),
                asked: .message(message, token: nil), since: process.monotonic,
                hindrance: { [unowned process] in process.hindrance },
                done: { [weak self] result in
                    guard let self else { return }
                    checks.hears(result, of: message)
                    let end = underWay.judge(
                        web: result, host: origin, revision: 0, now: process.clock.wall)
                    finish(end, of: message)
                }))
    }

    /// Tells the loop. The answer comes twice now and then, and is lost now and then.
    private func tell(_ outcome: PushOutcome, of message: PushRequest) {
        if !world.isHealing, world.chance(5) { return world.count("pushes unanswered") }
        let answer = { [unowned process] in
            process.loops[message.loop].post(.pushed(message.number, outcome))
        }
        world.after(.microseconds(100), .network, process: process, body: answer)
        if world.chance(20) { world.after(.milliseconds(20), .network, process: process, body: answer) }
    }
}

extension SimulatedProcess {
    /// Why a message must not leave any more: as in the shells, another node may own the partition, and may
    /// have pushed the message.
    var hindrance: String? {
        monotonic < authority ? nil : "another node may own the device's partition"
    }
}
