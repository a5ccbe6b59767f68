import Model
import NodeCore
import Partitions
import PushMessages
import PushScheduling

/// A message of a loop's sender, on its way through a node's client for push services.
struct PushRequest {
    /// The loop, and its sender's number.
    var loop: Int
    var number: UInt64
    var job: PushJob
    /// When the request came to the client, by the process's clock.
    var since: MonotonicTime
}

/// What a simulated process has between its loops' senders and push services: the machine of the client for
/// HTTP (`OriginQueue`), with the work of its shells (`PushDispatch` and the worker of `PushClient`).
final class SimulatedPushClient {
    private unowned let process: SimulatedProcess
    private unowned let world: ClusterSimulation
    private var queue: OriginQueue<PushRequest>
    private var running: [UInt64: (request: PushRequest, key: OriginQueue<PushRequest>.Key)] = [:]
    private var lastNumber: UInt64 = 0
    private var isLooking = false
    private var checks: OriginQueueChecks
    private var bounds: PushClientBounds { world.options.pushClient }

    /// How often the client looks for requests that have waited for too long.
    static let look: TimeSpan = .milliseconds(250)

    init(_ process: SimulatedProcess) {
        self.process = process
        world = process.world
        let bounds = process.world.options.pushClient
        queue = OriginQueue(
            allMax: bounds.allMax, perOriginMax: bounds.perOriginMax, waitingMax: bounds.waitingMax,
            waitMax: bounds.waitMax)
        checks = OriginQueueChecks(bounds)
        #if DEBUG
            queue.planted = process.world.options.plantedInScheduling
        #endif
    }

    /// A loop's sender sends a message.
    func submit(_ send: PushSend, fromLoop number: Int) {
        let request = PushRequest(
            loop: number, number: send.number, job: send.job, since: process.monotonic)
        let key = SimulatedPushClient.key(of: request)
        guard queue.add(request, of: key.share, to: key.origin, now: process.monotonic) else {
            world.count("pushes past the client's bound")
            return post(.unsent("too many requests wait"), for: request, after: .zero)
        }
        checks.added(request, to: key, now: process.monotonic)
        turn()
        lookLater()
    }

    private static func key(of request: PushRequest) -> OriginQueue<PushRequest>.Key {
        let transport = request.job.transport
        let service =
            switch transport.kind {
            case .web: String(decoding: transport.origin, as: UTF8.self)
            case .apns: "apple.example"
            case .fcm: "fcm.example"
            }
        return OriginQueue.Key(share: UInt64(request.job.project.rawValue), origin: service)
    }

    private func turn() {
        repeat {
            while let (request, key) = queue.next(now: process.monotonic) { begin(request, key) }
        } while queue.isReady
        for request in queue.takeLate() { tooLate(request) }
    }

    private func begin(_ request: PushRequest, _ key: OriginQueue<PushRequest>.Key) {
        for broken in checks.left(request, to: key, now: process.monotonic) {
            world.violate(broken.guarantee, "\(process.index): \(broken.description)")
        }
        // As in the shell: another node may own the partition, and may have pushed the message.
        guard process.monotonic < process.authority else {
            checks.ended(key, isAnswered: nil, now: process.monotonic)
            queue.ended(key, isAnswered: nil, now: process.monotonic)
            return post(.unsent("another node may own the device's partition"), for: request)
        }
        lastNumber += 1
        let number = lastNumber
        running[number] = (request, key)
        world.pushChecks.leaves(request, of: process)
        world.pushServices.take(request, at: key.origin, from: process) { [weak self] in
            self?.finish(number, $0)
        }
        process.wake(at: process.monotonic + bounds.answerMax) { [weak self] in
            self?.finish(number, .nothing)
        }
    }

    private func finish(_ number: UInt64, _ reply: SimulatedPushServices.Reply) {
        guard let (request, key) = running.removeValue(forKey: number) else { return }
        var isAnswered = false
        var outcome = PushOutcome.transient(retryAfterSeconds: nil)
        if case .answer(let answer) = reply {
            isAnswered = true
            outcome = self.outcome(answer, of: request, at: key.origin)
        }
        checks.ended(key, isAnswered: isAnswered, now: process.monotonic)
        queue.ended(key, isAnswered: isAnswered, now: process.monotonic)
        post(outcome, for: request)
        turn()
    }

    private func outcome(
        _ answer: SimulatedPushServices.Answer, of request: PushRequest, at host: String
    ) -> PushOutcome {
        let (status, body, wall) = (answer.status, Array(answer.body.utf8), process.clock.wall)
        let retryAfter = answer.retryAfter.map(String.init)
        switch request.job.transport.kind {
        case .web:
            return WebPushAnswer.outcome(
                status: status, host: host, retryAfter: retryAfter, body: body, now: wall)
        case .apns:
            return APNsAnswer.verdict(
                status: status, body: body, retryAfter: retryAfter, registered: request.job.registered,
                now: wall
            ).outcome
        case .fcm:
            return FCMAnswer.verdict(status: status, body: body, retryAfter: retryAfter, now: wall).outcome
        }
    }

    /// Tells the loop. The answer comes twice now and then, and is lost now and then.
    private func post(
        _ outcome: PushOutcome, for request: PushRequest, after delay: TimeSpan = .microseconds(100)
    ) {
        if !world.isHealing, world.chance(5) { return world.count("pushes unanswered") }
        let answer = { [unowned process] in
            process.loops[request.loop].post(.pushed(request.number, outcome))
        }
        world.after(delay, .network, process: process, body: answer)
        if world.chance(20) { world.after(.milliseconds(20), .network, process: process, body: answer) }
    }

    private func lookLater() {
        guard !isLooking, queue.waiting > 0 else { return }
        isLooking = true
        process.wake(at: process.monotonic + SimulatedPushClient.look) { [weak self] in
            self?.isLooking = false
            self?.expire()
        }
    }

    private func expire() {
        for request in queue.expire(now: process.monotonic) { tooLate(request) }
        turn()
        lookLater()
    }

    private func tooLate(_ request: PushRequest) {
        world.count("pushes that waited too long")
        checks.expired(request, SimulatedPushClient.key(of: request))
        post(.unsent("the request waited for too long"), for: request)
    }
}
