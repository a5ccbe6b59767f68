import Model
import Partitions

// In a cluster the owner of a partition changes. A request that did not reach one, or of which nobody knows
// whether it did, is asked again under its own number: sends carry a key by which a partition knows a
// repeat, everything else may be done twice.
//
// A link that breaks is told of on the side that wrote into it, and a reply may be lost on its way while the
// way of the requests stands: when its sender does not know this process yet, or could not connect to it. So
// what is not answered for a while is asked again as well, a few times within its deadline.

extension Router {
    static let retryMin: UInt64 = .milliseconds(10)
    static let retryMax: UInt64 = .milliseconds(250)
    /// Requests that are asked again in one go, and nanoseconds between two: however many wait, asking again
    /// leaves time for what is new.
    static let retriesAtOnce = 1024
    static let retryPause: UInt64 = .milliseconds(5)
    /// Nanoseconds after which a request that nothing was heard of is asked again; then twice as long.
    static let silenceMin: UInt64 = .seconds(2)
    /// Nanoseconds between two looks for such requests.
    static let silenceStep: UInt64 = .seconds(1)
    /// A partition knows a repeat by its number among the last 1,024. One that is so far behind is left
    /// alone: "too old to tell" would be worse than waiting.
    static let repeatableNumbers: UInt64 = 512

    /// Nobody owns the partition at the moment, or not who was asked.
    func wait(_ number: UInt64, _ now: Instant, _ effects: inout [RouterEffect]) {
        guard var asked = pending[number] else { return }
        asked.tries = asked.tries == .max ? .max : asked.tries + 1
        pending[number] = asked
        let step = min(Router.retryMax, Router.retryMin << UInt64(min(asked.tries, 5)))
        let due = now.monotonic.advanced(by: step / 2 + random.next(upperBound: step / 2 + 1))
        moved.append((number, due))
        wakeRetry(at: due, &effects)
    }

    private func wakeRetry(at: MonotonicTime, _ effects: inout [RouterEffect]) {
        guard retryAt.map({ at < $0 }) ?? true else { return }
        retryAt = at
        effects.append(.wakeRetry(at: at))
    }

    func listenForSilence(_ now: Instant, _ effects: inout [RouterEffect]) {
        guard retryAt == nil else { return }
        wakeRetry(at: now.monotonic.advanced(by: Router.silenceStep), &effects)
    }

    public func retryMoved(now: Instant, into effects: inout [RouterEffect]) {
        guard let at = retryAt, at <= now.monotonic else { return }
        retryAt = nil
        var due: [UInt64] = []
        moved.removeAll { waiting in
            guard waiting.due <= now.monotonic, due.count < Router.retriesAtOnce else { return false }
            due.append(waiting.number)
            return true
        }
        for number in due { askAgain(number, now, &effects) }
        if let next = moved.map(\.due).min() {
            wakeRetry(at: max(next, now.monotonic.advanced(by: Router.retryPause)), &effects)
        }
        askTheSilent(now, &effects)
        if pending.count > 0 { listenForSilence(now, &effects) }
    }

    private func askTheSilent(_ now: Instant, _ effects: inout [RouterEffect]) {
        for number in pending.numbers(upTo: .max) {
            guard var asked = pending[number], let request = asked.request,
                now.monotonic.since(asked.asked) >= Router.silenceMin << UInt64(min(asked.repeats, 8))
            else { continue }
            if let key = request.sendKey,
                sendNumbers[Int(asked.partition.rawValue)] - key.number > Router.repeatableNumbers
            {
                continue
            }
            asked.repeats = asked.repeats == .max ? .max : asked.repeats + 1
            pending[number] = asked
            askAgain(number, now, &effects)
        }
    }

    /// These partitions have another owner, or the way to it was broken: whatever is under way there is asked
    /// again.
    public func rerouted(
        _ isMoved: (PartitionID) -> Bool, now: Instant, into effects: inout [RouterEffect]
    ) {
        moved.removeAll { pending[$0.number].map { isMoved($0.partition) } ?? true }
        for number in pending.numbers(upTo: .max) {
            if let asked = pending[number], isMoved(asked.partition) { askAgain(number, now, &effects) }
        }
    }

    private func askAgain(_ number: UInt64, _ now: Instant, _ effects: inout [RouterEffect]) {
        guard var asked = pending[number], let request = asked.request else { return }
        asked.asked = now.monotonic
        if asked.copies < .max { asked.copies += 1 }
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

extension Request {
    /// The number by which the partition knows a repeat of a send.
    fileprivate var sendKey: RequestKey? {
        switch self {
        case .sendToTopic(let key, _, _, _, _), .sendToCondition(let key, _, _, _, _),
            .sendToDevice(let key, _, _):
            key
        default: nil
        }
    }
}
