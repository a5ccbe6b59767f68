import Model
import Partitions

// In a cluster the owner of a partition changes. A request that did not reach one, or of which nobody knows
// whether it did, is asked again under its own number: sends carry a key by which a partition knows a
// repeat, everything else may be done twice.

extension Router {
    static let retryMin: UInt64 = .milliseconds(10)
    static let retryMax: UInt64 = .milliseconds(250)

    /// Nobody owns the partition at the moment, or not who was asked.
    func wait(_ number: UInt64, _ now: Instant, _ effects: inout [RouterEffect]) {
        guard var asked = pending[number] else { return }
        asked.tries = asked.tries == .max ? .max : asked.tries + 1
        pending[number] = asked
        moved.append(number)
        let step = min(Router.retryMax, Router.retryMin << UInt64(min(asked.tries, 5)))
        let delay = step / 2 + random.next(upperBound: step / 2 + 1)
        let at = now.monotonic.advanced(by: delay)
        guard retryAt.map({ at < $0 }) ?? true else { return }
        retryAt = at
        effects.append(.wakeRetry(at: at))
    }

    public func retryMoved(now: Instant, into effects: inout [RouterEffect]) {
        guard let at = retryAt, at <= now.monotonic else { return }
        retryAt = nil
        let numbers = moved
        moved = []
        for number in numbers { askAgain(number, &effects) }
    }

    /// These partitions have another owner, or the way to it was broken: whatever is under way there is asked
    /// again.
    public func rerouted(_ isMoved: (PartitionID) -> Bool, into effects: inout [RouterEffect]) {
        moved.removeAll { pending[$0].map { isMoved($0.partition) } ?? true }
        for number in pending.numbers(upTo: .max) {
            if let asked = pending[number], isMoved(asked.partition) { askAgain(number, &effects) }
        }
    }

    private func askAgain(_ number: UInt64, _ effects: inout [RouterEffect]) {
        guard let asked = pending[number], let request = asked.request else { return }
        if !asked.isRepeated { pending[number]?.isRepeated = true }
        effects.append(.ask(asked.partition, RequestID(gateway: options.gateway, number: number), request))
    }
}
