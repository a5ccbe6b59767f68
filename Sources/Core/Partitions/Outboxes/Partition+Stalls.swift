import Model

// An outbox is stalled if its first durable entry waits longer than `outboxStallMax` though the receiver has
// an owner (rule: outboxes-move), and so does a condition for which a partition does not answer. The machine
// looks at each retry, so to within `outboxRetry`.

/// What waits first for another partition, and since when it waits while that partition has an owner.
struct StallWatch<Waiting: Equatable> {
    private(set) var first: Waiting
    private(set) var since: MonotonicTime
    /// The operator was notified that nothing moves.
    private(set) var isTold = false

    init(_ first: Waiting, _ now: MonotonicTime) { (self.first, since) = (first, now) }

    /// Whether the operator is to be notified now.
    mutating func stalls(after most: TimeSpan, _ now: MonotonicTime) -> Bool {
        guard !isTold, now.since(since) >= most else { return false }
        isTold = true
        return true
    }
}

extension Partition {
    /// For each receiver with durable entries that it has not acknowledged, the first of them.
    public var waitingEntries: [(receiver: PartitionID, entry: Sequence)] {
        var found: [(receiver: PartitionID, entry: Sequence)] = []
        state.outboxes.forEach { partition, outbox in
            guard let first = outbox.unacknowledged.first, first.number <= pipeline.durable else { return }
            found.append((partition, first.number))
        }
        return found
    }

    /// An entry was not acknowledged within `outboxRetry`. If the outbox is stalled, this notifies the
    /// operator, and asks for the receiver's mark, as a new owner does. The entries are offered again in any
    /// case.
    func noteWait(for partition: PartitionID, by proof: Proof, _ turn: inout Turn) {
        guard let first = state.outboxes[partition]?.unacknowledged.first else { return }
        guard let wait = outboxWaits[partition], wait.first == first.number, !unowned.contains(partition)
        else {
            endWait(for: partition, &turn)
            outboxWaits[partition] = StallWatch(first.number, turn.now.monotonic)
            return
        }
        guard outboxWaits[partition]?.stalls(after: options.outboxStallMax, turn.now.monotonic) ?? false
        else { return }
        turn.effects.append(.notice(.outboxStalls(to: partition)))
        let frame = frame([], to: partition, turn.now)
        turn.effects.append(.offer(to: partition, Proven(frame, restingOn: .zero, by: proof)))
    }

    func endWait(for partition: PartitionID, _ turn: inout Turn) {
        guard let wait = outboxWaits[partition] else { return }
        outboxWaits[partition] = nil
        if wait.isTold { turn.effects.append(.notice(.outboxMoves(to: partition))) }
    }

    // MARK: Conditions

    /// Partitions that have an owner and do not answer the oldest condition for which they are asked. A
    /// partition answers only when the condition's topics' partitions have acknowledged what was under way,
    /// so nobody is to blame while one of these has no owner.
    func lookForStalledConditions(_ turn: inout Turn) {
        // Each condition has its own retry, so the machine wakes more often than it need look.
        let isDue = turn.now.monotonic.since(conditionsLookedAt) >= options.outboxRetry
        guard isDue || resolutions.isEmpty else { return }
        conditionsLookedAt = turn.now.monotonic
        var waiting = PartitionMap<ConditionTicket>()
        let late = resolutions.filter(\.value.isLate)
        for (ticket, resolution) in late.sorted(by: { ConditionTicket.isBefore($0.key, $1.key) }) {
            guard let pending = state.conditions[ticket],
                !pending.condition.topics.contains(where: {
                    unowned.contains(state.home(of: $0, in: pending.project))
                })
            else { continue }
            for partition in awaited(pending) {
                guard resolution.answers[partition] == nil, waiting[partition] == nil,
                    !unowned.contains(partition)
                else { continue }
                waiting[partition] = ticket
            }
        }
        for partition in conditionWaits.keys where conditionWaits[partition]?.first != waiting[partition] {
            endConditionWait(for: partition, &turn)
        }
        waiting.forEach { partition, ticket in
            let now = turn.now.monotonic
            let stalls = conditionWaits[partition, default: StallWatch(ticket, now)]
                .stalls(after: options.outboxStallMax, now)
            if stalls { turn.effects.append(.notice(.conditionStalls(at: partition))) }
        }
    }

    func endConditionWait(for partition: PartitionID, _ turn: inout Turn) {
        guard let wait = conditionWaits[partition] else { return }
        conditionWaits[partition] = nil
        if wait.isTold { turn.effects.append(.notice(.conditionMoves(at: partition))) }
    }
}
