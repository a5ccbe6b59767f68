import Model
import Partitions

// In a cluster the owner of a partition changes. A request that did not reach one, or of which nobody knows
// whether it did, is asked again under its own number: sends carry a key by which a partition knows a
// repeat, everything else may be done twice (rule: numbers-for-copies-only).
//
// A link that breaks is told of on the side that wrote into it, and a reply may be lost on its way while the
// way of the requests stands: when its sender does not know this process yet, or could not connect to it. So
// what is not answered for a while is asked again as well, a few times within its deadline.

extension Router {
    // MARK: Waiting

    /// Nobody owns the partition at the moment, or not who was asked.
    func wait(_ number: UInt64, _ now: Instant, _ effects: inout [RouterEffect]) {
        if let partition = pending[number]?.partition { lanes[partition]?.service = .unknown }
        enter(number, now, &effects)
    }

    /// The partition's owner refuses everything now, and somebody else may have accepted this send: it waits.
    /// It asks for all others, which get the refusal at once: were they asked, their numbers would go far
    /// beyond its own, and nobody could tell any more.
    func waitAlone(
        _ number: UInt64, _ refusal: PartitionRefusal, _ now: Instant, _ effects: inout [RouterEffect]
    ) {
        guard let partition = pending[number]?.partition else { return }
        enter(number, now, &effects)
        lanes[partition]?.service = .refusing(refusal)
        while let waiting = lanes[partition]?.nextUnseen() {
            if pending[waiting]?.isWaiting ?? false { settle(waiting, .refused(refusal), now, &effects) }
        }
    }

    /// A new request to a partition for which others wait stands behind them, whose numbers are lower, or
    /// gets the refusal that is known already. Whether it was one of both.
    func waits(
        _ number: UInt64, for partition: PartitionID, _ now: Instant, _ effects: inout [RouterEffect]
    ) -> Bool {
        guard let lane = lanes[partition], !lane.isEmpty else { return false }
        guard case .refusing(let refusal) = lane.service else {
            pending[number]?.unanswered = 0
            enter(number, now, &effects)
            return true
        }
        if let key = pending[number]?.request?.sendKey { takeBack(key, of: partition) }
        settle(number, .refused(refusal), now, &effects)
        return true
    }

    func enter(_ number: UInt64, _ now: Instant, _ effects: inout [RouterEffect]) {
        guard let asked = pending[number], !asked.isWaiting else { return }
        pending[number]?.isWaiting = true
        var lane = lanes.removeValue(forKey: asked.partition) ?? WaitingLane()
        lane.add(number, isRepeated: asked.isRepeated)
        if lane.due == nil { lane.due = due(&lane, now) }
        lane.due.map { wakeRetry(at: $0, &effects) }
        lanes[asked.partition] = lane
    }

    private func due(_ lane: inout WaitingLane, _ now: Instant) -> MonotonicTime {
        lane.tries = lane.tries == .max ? .max : lane.tries + 1
        let step = min(options.bounds.retryMax, options.bounds.retryMin << UInt64(min(lane.tries, 5)))
        return now.monotonic.advanced(by: step / 2 + random.next(upperBound: step / 2 + 1))
    }

    private func wakeRetry(at: MonotonicTime, _ effects: inout [RouterEffect]) {
        guard retryAt.map({ at < $0 }) ?? true else { return }
        retryAt = at
        effects.append(.wakeRetry(at: at))
    }

    func listenForSilence(_ now: Instant, _ effects: inout [RouterEffect]) {
        guard retryAt == nil else { return }
        wakeRetry(at: now.monotonic.advanced(by: options.bounds.silenceStep), &effects)
    }

    public func retryMoved(now: Instant, into effects: inout [RouterEffect]) {
        defer { checkInvariants() }
        guard let at = retryAt, at <= now.monotonic else { return }
        retryAt = nil
        for partition in lanes.keys.sorted() {
            guard let due = lanes[partition]?.due, due <= now.monotonic else { continue }
            askWaiting(partition, now, &effects)
        }
        if let next = lanes.values.compactMap(\.due).min() { wakeRetry(at: next, &effects) }
        askTheSilent(now, &effects)
        if pending.count > 0 { listenForSilence(now, &effects) }
    }

    /// The partition's owner has looked at a request: who waits for it need not wait for the next try.
    func heard(from partition: PartitionID, _ now: Instant, _ effects: inout [RouterEffect]) {
        guard let lane = lanes[partition], !lane.isServed else { return }
        lanes[partition]?.service = .served
        askWaiting(partition, now, &effects)
    }

    /// Asks the first of a lane: those that somebody may have done, in the order of their numbers, and then
    /// those that nobody has looked at, in the order in which they came. So a partition meets no number that
    /// is far below one that it knows.
    private func askWaiting(_ partition: PartitionID, _ now: Instant, _ effects: inout [RouterEffect]) {
        guard var lane = lanes.removeValue(forKey: partition) else { return }
        var due: [UInt64] = []
        let limit = lane.isServed ? options.bounds.retriesAtOnce : 1
        while due.count < limit, let number = lane.next(sendNumber) {
            if pending[number]?.isWaiting ?? false { due.append(number) }
        }
        if lane.isEmpty {
            lane.due = nil
        } else if lane.isServed {
            lane.due = now.monotonic.advanced(by: options.bounds.retryPause)
        } else {
            lane.due = self.due(&lane, now)
        }
        // An empty lane stays until its partition is heard of, so that the pause between two tries grows.
        if !lane.isEmpty || !lane.isServed { lanes[partition] = lane }
        lane.due.map { wakeRetry(at: $0, &effects) }
        for number in due { askAgain(number, now, &effects) }
    }

    private func sendNumber(_ number: UInt64) -> UInt64 { pending[number]?.request?.sendKey?.number ?? 0 }

    private func askTheSilent(_ now: Instant, _ effects: inout [RouterEffect]) {
        for number in pending.numbers(upTo: .max) {
            guard var asked = pending[number], let request = asked.request, !asked.isWaiting,
                now.monotonic.since(asked.asked) >= options.bounds.silenceMin << UInt64(min(asked.repeats, 8))
            else { continue }
            if let key = request.sendKey,
                sendNumbers[Int(asked.partition.rawValue)] - key.number > UInt64(options.requestWindow / 2)
            {
                continue
            }
            asked.repeats = asked.repeats == .max ? .max : asked.repeats + 1
            pending[number] = asked
            repeated(number)
            askAgain(number, now, &effects)
        }
    }

    /// These partitions have another owner, or the way to it was broken: whatever is under way there is asked
    /// again, together with what waits for them.
    public func rerouted(
        _ isMoved: (PartitionID) -> Bool, now: Instant, into effects: inout [RouterEffect]
    ) {
        defer { checkInvariants() }
        var partitions: [PartitionID] = []
        for number in pending.numbers(upTo: .max) {
            guard let asked = pending[number], asked.request != nil, isMoved(asked.partition) else {
                continue
            }
            if !partitions.contains(asked.partition) { partitions.append(asked.partition) }
            guard !asked.isWaiting else { continue }
            repeated(number)
            enter(number, now, &effects)
        }
        for partition in partitions {
            lanes[partition]?.service = .served
            askWaiting(partition, now, &effects)
        }
    }

    /// One who was asked may have done it.
    func repeated(_ number: UInt64) {
        guard let copies = pending[number]?.copies, copies < .max else { return }
        pending[number]?.copies = copies + 1
    }

    /// What nobody has looked at gets a new number: only copies need one that their partition may know.
    private func askAgain(_ number: UInt64, _ now: Instant, _ effects: inout [RouterEffect]) {
        guard var asked = pending[number], var request = asked.request else { return }
        // This process slept: nobody carries it out any more.
        guard !asked.deadline.isPast(now: now.monotonic) else { return expire(number, &effects) }
        asked.asked = now.monotonic
        asked.isWaiting = false
        // There is no other name for one more copy: it is left alone until its deadline.
        if request.sendKey == nil, asked.copies == .max { return pending[number] = asked }
        if request.sendKey != nil, !asked.isRepeated {
            request.sendKey = nextKey(asked.partition)
            asked.request = request
        }
        if asked.unanswered < .max { asked.unanswered += 1 }
        pending[number] = asked
        let name = request.sendKey == nil ? Router.name(number, copy: asked.copies) : number
        let id = RequestID(gateway: options.gateway, number: name)
        effects.append(.ask(asked.partition, id, request, asked.deadline))
    }

    // MARK: Copies

    public static let copyShift: UInt64 = 56

    /// Each copy of a request that has no key has a name of its own, so that it is known which of them is
    /// answered.
    private static func name(_ number: UInt64, copy: UInt8) -> UInt64 { number | UInt64(copy) << copyShift }

    /// Whether a reply to the copy of this name is still an answer.
    public func awaits(_ name: UInt64) -> Bool { settled(name) != nil }

    /// The number of a request by the name of any of its copies; `nil` where that answer does not count.
    ///
    /// The answer to a former copy of a change is no answer: the last copy may still be under way, and would
    /// undo what somebody else does in between. What a partition knows by its key is done once, so any copy
    /// tells.
    func settled(_ name: UInt64) -> UInt64? {
        let number = name & (1 << Router.copyShift - 1)
        guard let asked = pending[number] else { return nil }
        if asked.request?.sendKey != nil { return number }
        return UInt8(name >> Router.copyShift) == asked.copies ? number : nil
    }
}

/// What waits for a partition that has no owner, or none that serves it. One request at a time asks whether
/// there is one again, and the others follow when it was looked at.
struct WaitingLane {
    /// What is known of the partition's owner.
    enum Service {
        /// Whether there is one: one request asks, the others wait behind it.
        case unknown
        /// It takes nothing now, and says so: what is new gets this answer. What somebody may have done
        /// waits until the owner can tell, and asks.
        case refusing(PartitionRefusal)
        case served
    }

    /// Somebody may have done them. Those with the lowest numbers last, where they are in order.
    private var repeated: [UInt64] = []
    private var isInOrder = true
    /// Nobody has looked at them.
    private var unseen: [UInt64] = []
    /// How many of the latter are gone already.
    private var head = 0
    /// When the next is asked; `nil` where none waits.
    var due: MonotonicTime?
    var tries: UInt8 = 0
    var service = Service.unknown

    var isServed: Bool { if case .served = service { true } else { false } }
    var isEmpty: Bool { repeated.isEmpty && !hasUnseen }
    var hasUnseen: Bool { head < unseen.count }
    var numbers: [UInt64] { repeated + unseen[head...] }

    mutating func add(_ number: UInt64, isRepeated: Bool) {
        if isRepeated {
            repeated.append(number)
            isInOrder = false
        } else {
            unseen.append(number)
        }
    }

    /// Takes the next one out.
    mutating func next(_ sendNumber: (UInt64) -> UInt64) -> UInt64? {
        if !isInOrder { repeated.sort { sendNumber($0) > sendNumber($1) } }
        isInOrder = true
        return repeated.popLast() ?? nextUnseen()
    }

    mutating func nextUnseen() -> UInt64? {
        guard hasUnseen else { return nil }
        head += 1
        if head == unseen.count {
            defer { (unseen, head) = ([], 0) }
            return unseen[head - 1]
        }
        return unseen[head - 1]
    }
}

extension Request {
    /// The number by which the partition knows a repeat of a send.
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
