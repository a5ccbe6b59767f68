import Model

// What happens when a database may have lost its end (rule: lost-ends-raise-the-generation). If all
// partitions are in one database, all went back to one moment, at which they fitted together. Of several
// databases one may lose its end alone: a receiver then lacks entries that its sender has forgotten long ago,
// or has entries that its sender will never send. Neither notices, because the sender gives the numbers
// again. So numbers mean something only within a generation, and a frame says what is left of earlier
// generations. Every two partitions of different databases are compared once in a new generation.

/// Partitions that are still to be compared with this partition, and when it last asked some of them.
struct Comparison {
    var left: [PartitionID]
    var at: MonotonicTime
}

extension OutboxEntry {
    /// Whether no entry lies between the mark and this entry.
    func follows(_ mark: Sequence) -> Bool { predecessor <= mark && mark < number }
}

extension Partition {
    /// The frame may name a generation that does not rest on a durable record yet. That is safe: a next owner
    /// begins the generation with a later record, and no record in between has an entry. So the receiver
    /// keeps the same entries by both records.
    func frame(_ entries: [OutboxEntry], to partition: PartitionID, _ now: Instant) -> OutboxFrame {
        let outbox = state.outboxes[partition] ?? Outbox()
        let floor = floor(of: outbox, to: partition)
        let cuts = state.formerGenerations.map { former in
            let kept = state.kept(of: Sequence(.max), in: former.next - 1)
            // Perhaps no entry has this number. Then the newest entry before it counts.
            let newest = outbox.unacknowledged.last { $0.number <= kept }?.number
            return OutboxFrame.Cut(generation: former.next, kept: min(kept, newest ?? floor))
        }
        return OutboxFrame(
            from: id, history: history, generation: state.generation, cuts: cuts, floor: floor,
            denied: deniedMark(of: partition), clock: now.wall, underWaySince: now.monotonic,
            entries: entries)
    }

    /// The mark from which a frame goes on, in the sender's generation; `nil` if that is known here.
    ///
    /// The sender may have lost entries that were applied here: it knows nothing of them, and gives the
    /// numbers again. Or this partition has lost entries that it acknowledged: nobody has them any more.
    func base(for frame: OutboxFrame, _ mark: InboxMark?) -> Sequence? {
        let known = mark?.generation ?? 0
        guard frame.generation > known else { return nil }
        let number = mark?.number ?? .zero
        #if DEBUG
            if options.planted.contains(.keepNumbers) { return number }
        #endif
        let kept = frame.cuts.first { $0.generation > known }?.kept ?? number
        return max(min(number, kept), frame.floor)
    }

    /// The mark that a receiver sends, as this generation counts: what this partition has lost does not
    /// count.
    func reached(_ said: OutboxAcknowledgement, _ outbox: Outbox) -> Sequence {
        guard state.generation > 0 else { return said.mark }
        let kept = state.kept(of: said.mark, in: said.generation)
        // Perhaps no entry has this number. Then the newest entry before it counts.
        let began = state.formerGenerations.last?.before ?? .zero
        return kept < began ? min(kept, outbox.last) : kept
    }

    // MARK: Comparing

    func beginComparison(_ turn: inout Turn) {
        guard options.databaseCount > 1, state.comparedGeneration < state.generation else { return }
        #if DEBUG
            if options.planted.contains(.skipComparison) { return }
        #endif
        let database = id.database(of: options.databaseCount)
        let others = (0..<UInt16(options.partitionCount)).map(PartitionID.init).filter {
            $0.database(of: options.databaseCount) != database
        }
        comparison = Comparison(left: others, at: turn.now.monotonic)
        compare(&turn)
    }

    func isBeingCompared(_ partition: PartitionID) -> Bool {
        comparison?.left.contains(partition) ?? false
    }

    /// Asks the partitions that have not answered, some at once.
    func retryComparison(_ turn: inout Turn) {
        guard let comparison, turn.now.monotonic.since(comparison.at) >= options.outboxRetry else { return }
        self.comparison?.at = turn.now.monotonic
        compare(&turn)
    }

    /// Asks some of the partitions that are left for their marks, and others the next time: many may be away.
    private func compare(_ turn: inout Turn) {
        guard let left = comparison?.left else { return }
        let proof = pipeline.confirmed()
        let asked = left.prefix(options.comparedAtOnce)
        comparison?.left = Array(left[asked.endIndex...] + asked)
        for partition in asked {
            let frame = frame([], to: partition, turn.now)
            turn.effects.append(.offer(to: partition, Proven(frame, restingOn: .zero, by: proof)))
        }
    }

    func wasCompared(_ partition: PartitionID) {
        comparison?.left.removeAll { $0 == partition }
        guard comparison?.left.isEmpty ?? false else { return }
        comparison = nil
        propose(.compared(generation: state.generation))
    }
}
