import Model

// An outbox stands still where its first durable entry waits longer than `outboxStallMax` though the receiver
// has an owner (rule: outboxes-move). The machine looks at each retry, so to within `outboxRetry`.

/// The entry that is the first of an outbox, and since when it waits for a receiver that has an owner.
struct OutboxWait {
    var entry: Sequence
    var since: MonotonicTime
    /// The operator was told that the outbox stands still.
    var isTold = false
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

    /// An entry was not acknowledged within `outboxRetry`. Where the outbox stands still, this tells the
    /// operator, and asks for the receiver's mark, as a new owner does. The entries are offered again in any
    /// case.
    func noteWait(for partition: PartitionID, by proof: Proof, _ turn: inout Turn) {
        guard let first = state.outboxes[partition]?.unacknowledged.first else { return }
        guard let wait = outboxWaits[partition], wait.entry == first.number, !unowned.contains(partition)
        else {
            endWait(for: partition, &turn)
            outboxWaits[partition] = OutboxWait(entry: first.number, since: turn.now.monotonic)
            return
        }
        guard !wait.isTold, turn.now.monotonic.since(wait.since) >= options.outboxStallMax else { return }
        outboxWaits[partition]?.isTold = true
        turn.effects.append(.notice(.outboxStalls(to: partition)))
        let frame = frame([], to: partition, turn.now)
        turn.effects.append(.offer(to: partition, Proven(frame, restingOn: .zero, by: proof)))
    }

    func endWait(for partition: PartitionID, _ turn: inout Turn) {
        guard let wait = outboxWaits[partition] else { return }
        outboxWaits[partition] = nil
        if wait.isTold { turn.effects.append(.notice(.outboxMoves(to: partition))) }
    }
}
