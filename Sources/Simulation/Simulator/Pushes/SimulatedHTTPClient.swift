import Model
import PushMessages
import PushScheduling

/// A request to a push service, or to the host of access tokens.
struct SimulatedRequest {
    /// Given by the client.
    var id: UInt64 = 0
    var key: OriginQueue<SimulatedRequest>.Key
    var asked: SimulatedPushServices.Asked
    /// When the request came to the client, by the process's clock.
    var since: MonotonicTime
    /// Why the request must not leave any more.
    var hindrance: () -> String?
    var done: (PushResult) -> Void
}

/// A simulated process's client for push services over HTTP: the machine of the real one (`OriginQueue`),
/// with the work of its worker.
final class SimulatedHTTPClient {
    private unowned let process: SimulatedProcess
    private unowned let world: ClusterSimulation
    private var queue: OriginQueue<SimulatedRequest>
    private var running: [UInt64: SimulatedRequest] = [:]
    private var lastID: UInt64 = 0
    private var isLooking = false
    private var checks: OriginQueueChecks
    private var bounds: PushClientBounds { world.options.pushClient }

    /// How often the client looks for requests that have waited for too long.
    private static let look: TimeSpan = .milliseconds(250)

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

    func submit(_ request: SimulatedRequest) {
        var request = request
        lastID += 1
        request.id = lastID
        let key = request.key
        guard queue.add(request, of: key.share, to: key.origin, now: process.monotonic) else {
            world.count("pushes past the client's bound")
            return request.done(.notTried("too many requests wait"))
        }
        checks.added(request, to: key, now: process.monotonic)
        turnSoon()
        lookLater()
    }

    /// The client has its own thread: an answer never comes from within `submit`.
    private func turnSoon() {
        world.after(.microseconds(20), .network, process: process) { [weak self] in self?.turn() }
    }

    private func turn() {
        repeat {
            while let (request, key) = queue.next(now: process.monotonic) { begin(request, key) }
        } while queue.isReady
        for request in queue.takeLate() { tooLate(request) }
    }

    private func begin(_ request: SimulatedRequest, _ key: OriginQueue<SimulatedRequest>.Key) {
        for broken in checks.left(request, to: key, now: process.monotonic) {
            world.violate(broken.guarantee, "\(process.index): \(broken.description)")
        }
        if let why = request.hindrance() {
            checks.ended(key, isAnswered: nil, now: process.monotonic)
            queue.ended(key, isAnswered: nil, now: process.monotonic)
            return request.done(.notMade(why))
        }
        running[request.id] = request
        if case .message(let message, _) = request.asked {
            world.pushChecks.leaves(message, of: process, waitMax: bounds.waitMax)
        }
        world.pushServices.receive(request.asked, at: key.origin, from: process) { [weak self] in
            self?.finish(request.id, $0)
        }
        process.wake(at: process.monotonic + bounds.answerMax) { [weak self] in
            self?.finish(request.id, .nothing)
        }
    }

    private func finish(_ id: UInt64, _ reply: SimulatedPushServices.Reply) {
        guard let request = running.removeValue(forKey: id) else { return }
        var result = PushResult.unanswered
        if case .answer(let answer) = reply { result = answer.result }
        checks.ended(request.key, isAnswered: result != .unanswered, now: process.monotonic)
        queue.ended(request.key, isAnswered: result != .unanswered, now: process.monotonic)
        request.done(result)
        turn()
    }

    private func lookLater() {
        guard !isLooking, queue.waiting > 0 else { return }
        isLooking = true
        process.wake(at: process.monotonic + SimulatedHTTPClient.look) { [weak self] in
            self?.isLooking = false
            self?.expire()
        }
    }

    private func expire() {
        for request in queue.expire(now: process.monotonic) { tooLate(request) }
        turn()
        lookLater()
    }

    private func tooLate(_ request: SimulatedRequest) {
        world.count("pushes that waited too long")
        checks.expired(request, request.key)
        request.done(.notTried("the request waited for too long"))
    }
}
