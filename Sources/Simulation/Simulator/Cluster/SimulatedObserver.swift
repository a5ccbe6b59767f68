import Model
import NodeCore
import Partitions
import Routing

/// Watches a loop's core for the checkers: requests and their deadlines (rule: deadlines-travel), and what
/// the loop admits to each project (G6).
final class SimulatedObserver: LoopObserver {
    private unowned let loop: SimulatedLoop
    private unowned let world: ClusterSimulation
    /// What partitions' machines have handed to the limiter, by their numbers. An answer may come to the next
    /// machine of a partition, which does not know the number.
    private var jobs: [ObjectIdentifier: [UInt64: PushJob]] = [:]
    private var limiter: LimiterChecks

    init(_ loop: SimulatedLoop) {
        self.loop = loop
        world = loop.world
        limiter = LimiterChecks(world.options.pushes)
    }

    override func asks(
        _ partition: PartitionID, _ id: RequestID, request: Request, deadline: Deadline
    ) {
        world.debug(
            "\(loop.index) (process \(loop.processID)) asks \(partition.rawValue) number \(id.number) \(request)"
        )
        world.deadlines[id] = world.now + loop.process.delay(to: deadline.time)
        if let message = request.sendsMessage {
            world.messages[id] = message
            world.copies[message, default: [:]][id, default: 0] += 1
        }
    }

    /// An owner that answers "moved" has certainly done nothing with this copy.
    override func hears(_ reply: Reply, to id: RequestID) {
        guard case .refused(.moved) = reply, let message = world.messages[id] else { return }
        world.copies[message]?[id, default: 0] -= 1
    }

    override func pushes(_ job: PushJob, of partition: Partition) {
        jobs[ObjectIdentifier(partition), default: [:]][job.number] = job
        world.pushChecks.handed(job, by: partition, of: loop.process)
    }

    override func pushed(_ report: PushReport, of partition: Partition) {
        guard let job = jobs[ObjectIdentifier(partition)]?.removeValue(forKey: report.number) else { return }
        world.pushChecks.told(report, of: job, to: partition, of: loop.process)
    }

    override func sends(_ job: PushJob) {
        guard let broken = limiter.sends(job, now: loop.monotonic) else { return }
        world.violate(broken.guarantee, "\(loop.index), loop \(loop.number): \(broken.description)")
    }

    override func hears(_ outcome: PushOutcome, from origin: PushOrigin, isFormer: Bool) {
        guard let broken = limiter.hears(outcome, from: origin, isFormer: isFormer, now: loop.monotonic)
        else { return }
        world.violate(broken.guarantee, "\(loop.index), loop \(loop.number): \(broken.description)")
    }

    override func reopens(_ projects: Set<ProjectNumber>) { limiter.reopens(projects) }

    override func reopens(_ projects: Set<ProjectNumber>, at partition: Partition) {
        world.pushChecks.reopens(projects, at: partition)
    }

    override func admits(_ admitted: Admission.Admitted) { world.check(admitted, by: loop.process) }

    override func carriesOut(_ id: RequestID) {
        if let message = world.messages[id] { world.begun[message] = world.now }
        let late = world.now.since(world.deadlines[id] ?? .max)
        if late > .zero, late > world.stoodStill(loop.process, id) {
            world.violate(
                "deadlines-travel", "\(loop.index) carries out request \(id.number) past its deadline")
        }
    }

    override func isBroken(_ invariant: String) {
        world.violate("invariant", "\(loop.index), loop \(loop.number): \(invariant)")
    }

    override func trace(_ line: @autoclosure () -> String) {
        world.debug("\(loop.index) (process \(loop.processID)) \(line())")
    }
}

extension Request {
    /// The number of the message that the request sends.
    fileprivate var sendsMessage: UInt64? {
        switch self {
        case .sendToTopic(_, _, _, let message, _), .sendToCondition(_, _, _, let message, _),
            .sendToDevice(_, _, let message):
            message.id.time
        default: nil
        }
    }
}
