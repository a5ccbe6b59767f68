import DequeModule
import Model
import Partitions

// In a cluster the owner of a partition changes. The gateway asks again for a request that reached no owner,
// or of which nobody knows whether it did. A copy of a send that an owner may have accepted keeps its number,
// by which a partition knows a repeat; any other request may be done twice (rule: numbers-for-copies-only).
//
// Only the side that wrote into a link learns that the link broke, and a reply may be lost while the
// requests' link is up: its sender may not know this process yet, or may not have been able to connect to it.
// So the gateway also asks again, a few times within the deadline, after a silence.

extension Router {
    // MARK: Waiting

    /// The process that was asked does not own the partition; maybe none does at the moment.
    func wait(_ number: UInt64, _ turn: inout Turn) {
        if let partition = pending[number]?.partition { waitingRequests[partition]?.service = .unknown }
        enter(number, &turn)
    }

    /// The partition's owner refuses everything now, and another owner may have accepted this send: the send
    /// waits. It asks on behalf of all other requests, and these get the refusal immediately: were they
    /// asked, their numbers would go far beyond this send's, and no owner could know any more whether it was
    /// accepted.
    func waitAlone(_ number: UInt64, after refusal: PartitionRefusal, _ turn: inout Turn) {
        guard let partition = pending[number]?.partition else { return }
        enter(number, &turn)
        waitingRequests[partition]?.service = .refusing(refusal)
        while let waiting = waitingRequests[partition]?.nextUnseen() {
            if pending[waiting]?.isWaiting ?? false { settle(waiting, with: .refused(refusal), &turn) }
        }
    }

    /// A new request to a partition for which other requests wait enters the queue behind them, whose numbers
    /// are lower, or gets the refusal that the queue knows already. Returns whether it did either.
    func waits(_ number: UInt64, for partition: PartitionID, _ turn: inout Turn) -> Bool {
        guard let waiting = waitingRequests[partition], !waiting.isEmpty else { return false }
        guard case .refusing(let refusal) = waiting.service else {
            pending[number]?.unanswered = 0
            enter(number, &turn)
            return true
        }
        if let key = pending[number]?.request?.sendKey { takeBack(key, of: partition) }
        settle(number, with: .refused(refusal), &turn)
        return true
    }

    func enter(_ number: UInt64, _ turn: inout Turn) {
        guard let asked = pending[number], !asked.isWaiting else { return }
        pending[number]?.phase = .waiting
        var waiting = waitingRequests.removeValue(forKey: asked.partition) ?? WaitingRequests()
        waiting.add(number, isRepeated: asked.isRepeated)
        if waiting.due == nil { waiting.due = due(&waiting, turn.now) }
        waiting.due.map { wakeRetry(at: $0, &turn) }
        waitingRequests[asked.partition] = waiting
    }

    private func due(_ waiting: inout WaitingRequests, _ now: Instant) -> MonotonicTime {
        waiting.tries = waiting.tries == .max ? .max : waiting.tries + 1
        let step = min(options.bounds.retryMax, options.bounds.retryMin.doubled(times: min(waiting.tries, 5)))
        return now.monotonic.advanced(by: step / 2 + random.next(upperBound: step / 2 + .nanoseconds(1)))
    }

    private func wakeRetry(at: MonotonicTime, _ turn: inout Turn) {
        guard retryAt.map({ at < $0 }) ?? true else { return }
        retryAt = at
        turn.effects.append(.wakeRetry(at: at))
    }

    func listenForSilence(_ turn: inout Turn) {
        guard retryAt == nil else { return }
        wakeRetry(at: turn.now.monotonic.advanced(by: options.bounds.silenceStep), &turn)
    }

    public func retryMoved(now: Instant, into effects: inout [RouterEffect]) {
        handle(now, into: &effects) { retryMoved(&$0) }
    }

    private func retryMoved(_ turn: inout Turn) {
        guard let at = retryAt, at <= turn.now.monotonic else { return }
        retryAt = nil
        for partition in waitingRequests.keys.sorted() {
            guard let due = waitingRequests[partition]?.due, due <= turn.now.monotonic else { continue }
            askWaiting(partition, &turn)
        }
        if let next = waitingRequests.values.compactMap(\.due).min() { wakeRetry(at: next, &turn) }
        askTheSilent(&turn)
        if pending.count > 0 { listenForSilence(&turn) }
    }

    /// The partition's owner has looked at a request: the requests in the queue need not wait for the next
    /// try.
    func heard(from partition: PartitionID, _ turn: inout Turn) {
        guard let waiting = waitingRequests[partition], !waiting.isServed else { return }
        waitingRequests[partition]?.service = .served
        askWaiting(partition, &turn)
    }

    /// Asks the first requests of a queue: those that an owner may have carried out, in the order of their
    /// numbers, and then those that no owner has looked at, in the order in which they came. So a partition
    /// meets no number that is far below one that it knows.
    private func askWaiting(_ partition: PartitionID, _ turn: inout Turn) {
        guard var waiting = waitingRequests.removeValue(forKey: partition) else { return }
        var due: [UInt64] = []
        let limit = waiting.isServed ? options.bounds.retriesAtOnce : 1
        while due.count < limit, let number = waiting.next(sendNumber) {
            if pending[number]?.isWaiting ?? false { due.append(number) }
        }
        if waiting.isEmpty {
            waiting.due = nil
        } else if waiting.isServed {
            waiting.due = turn.now.monotonic.advanced(by: options.bounds.retryPause)
        } else {
            waiting.due = self.due(&waiting, turn.now)
        }
        // An empty queue stays until its partition's owner answers, so that the pause between two tries
        // grows.
        if !waiting.isEmpty || !waiting.isServed { waitingRequests[partition] = waiting }
        waiting.due.map { wakeRetry(at: $0, &turn) }
        for number in due { askAgain(number, &turn) }
    }

    private func sendNumber(_ number: UInt64) -> UInt64 { pending[number]?.request?.sendKey?.number ?? 0 }

    private func askTheSilent(_ turn: inout Turn) {
        for number in pending.numbers(upTo: .max) {
            guard var asked = pending[number], let request = asked.request, case .asked(let at) = asked.phase
            else { continue }
            let silence = options.bounds.silenceMin.doubled(times: min(asked.repeats, 8))
            guard turn.now.monotonic.since(at) >= silence else { continue }
            if let key = request.sendKey,
                sendNumbers[Int(asked.partition.rawValue)] - key.number > UInt64(options.requestWindow / 2)
            {
                continue
            }
            asked.repeats = asked.repeats == .max ? .max : asked.repeats + 1
            pending[number] = asked
            repeated(number)
            askAgain(number, &turn)
        }
    }

    /// These partitions have another owner, or the link to the owner broke: the router asks again for all
    /// requests that are under way there or wait for them.
    public func rerouted(_ isMoved: (PartitionID) -> Bool, now: Instant, into effects: inout [RouterEffect]) {
        handle(now, into: &effects) { rerouted(isMoved, &$0) }
    }

    private func rerouted(_ isMoved: (PartitionID) -> Bool, _ turn: inout Turn) {
        var partitions: [PartitionID] = []
        for number in pending.numbers(upTo: .max) {
            guard let asked = pending[number], asked.request != nil, isMoved(asked.partition) else {
                continue
            }
            if !partitions.contains(asked.partition) { partitions.append(asked.partition) }
            guard !asked.isWaiting else { continue }
            repeated(number)
            enter(number, &turn)
        }
        for partition in partitions {
            waitingRequests[partition]?.service = .served
            askWaiting(partition, &turn)
        }
    }

    /// Counts one more copy: the process that was asked may have carried out the one before.
    func repeated(_ number: UInt64) {
        guard let copies = pending[number]?.copies, copies < .max else { return }
        pending[number]?.copies = copies + 1
    }

    /// A send that no owner has looked at gets a new number: only a copy needs one that its partition may
    /// know.
    private func askAgain(_ number: UInt64, _ turn: inout Turn) {
        guard var asked = pending[number], var request = asked.request else { return }
        // This process slept past the deadline: no owner carries the request out any more.
        guard !asked.deadline.isPast(now: turn.now.monotonic) else { return expire(number, &turn) }
        asked.phase = .asked(at: turn.now.monotonic)
        // No name is left for one more copy: the request waits for its deadline.
        if request.sendKey == nil, asked.copies == .max { return pending[number] = asked }
        if request.sendKey != nil, !asked.isRepeated {
            request.sendKey = nextKey(asked.partition)
            asked.request = request
        }
        if asked.unanswered < .max { asked.unanswered += 1 }
        pending[number] = asked
        let name = request.sendKey == nil ? Router.name(number, copy: asked.copies) : number
        let id = RequestID(gateway: options.gateway, number: name)
        turn.effects.append(.ask(asked.partition, id, request, asked.deadline))
    }

    // MARK: Copies

    public static let copyShift: UInt64 = 56

    /// Each copy of a request that has no key has its own name, so that the router knows which copy a reply
    /// answers.
    private static func name(_ number: UInt64, copy: UInt8) -> UInt64 { number | UInt64(copy) << copyShift }

    /// Whether a reply to the copy of this name still counts.
    public func awaits(_ name: UInt64) -> Bool { settled(name) != nil }

    /// The partition that the request asks; `nil` if a reply to that copy does not count.
    public func partition(ofRequest name: UInt64) -> PartitionID? {
        settled(name).flatMap { pending[$0]?.partition }
    }

    /// The number of a request by the name of any of its copies; `nil` if a reply to that copy does not
    /// count.
    ///
    /// The reply to an earlier copy of a change does not count: the last copy may still be under way, and
    /// would undo what another client does in between. A partition carries out a request with a key once, so
    /// a reply to any copy counts.
    func settled(_ name: UInt64) -> UInt64? {
        let number = name & (1 << Router.copyShift - 1)
        guard let asked = pending[number] else { return nil }
        if asked.request?.sendKey != nil { return number }
        return UInt8(name >> Router.copyShift) == asked.copies ? number : nil
    }
}

/// Requests queued until their partition has a serving owner. One request at a time asks for an owner, and
/// the others follow when an owner has looked at it.
struct WaitingRequests {
    /// The state of the partition's owner, as far as the router knows it.
    enum Service {
        /// Nobody knows whether there is an owner: one request asks, the others wait behind it.
        case unknown
        /// The owner refuses everything now: a new request gets this refusal. A request that an owner may
        /// have carried out waits until the owner can answer, and asks.
        case refusing(PartitionRefusal)
        case served
    }

    /// Requests that an owner may have carried out. In order, those with the lowest numbers are last.
    private var repeated: [UInt64] = []
    private var isInOrder = true
    /// Requests that no owner has looked at.
    private var unseen: Deque<UInt64> = []
    /// When the queue asks next; `nil` if no request waits.
    var due: MonotonicTime?
    var tries: UInt8 = 0
    var service = Service.unknown

    var isServed: Bool { if case .served = service { true } else { false } }
    var isEmpty: Bool { repeated.isEmpty && !hasUnseen }
    var hasUnseen: Bool { !unseen.isEmpty }
    var numbers: [UInt64] { repeated + unseen }

    mutating func add(_ number: UInt64, isRepeated: Bool) {
        if isRepeated {
            repeated.append(number)
            isInOrder = false
        } else {
            unseen.append(number)
        }
    }

    /// Takes the next request out.
    mutating func next(_ sendNumber: (UInt64) -> UInt64) -> UInt64? {
        if !isInOrder { repeated.sort { sendNumber($0) > sendNumber($1) } }
        isInOrder = true
        return repeated.popLast() ?? unseen.popFirst()
    }

    mutating func nextUnseen() -> UInt64? { unseen.popFirst() }
}

extension Request {
    /// The key by which the partition knows a repeat of a send.
    var sendKey: RequestKey? {
        get {
            switch self {
            case .sendToTopic(let key, _, _, _, _), .sendToCondition(let key, _, _, _, _),
                .sendToDevice(let key, _, _):
                key
            default: nil
            }
        }
        set {
            switch self {
            case .sendToTopic(_, let project, let topic, let message, let fanoutsMax):
                self = .sendToTopic(newValue, project: project, topic, message, fanoutsMax: fanoutsMax)
            case .sendToCondition(_, let project, let condition, let message, let fanoutsMax):
                self = .sendToCondition(
                    newValue, project: project, condition, message, fanoutsMax: fanoutsMax)
            case .sendToDevice(_, let registration, let message):
                self = .sendToDevice(newValue, registration, message)
            default: break
            }
        }
    }
}
