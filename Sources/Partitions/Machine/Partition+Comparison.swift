import Model

// What happens when a database may have lost its end (rule: lost-ends-raise-the-generation). Where all
// partitions are in one, all went back to one moment, at which they fitted together. Of several, one may lose
// its end alone: a receiver then lacks what its sender has forgotten long ago, or has what its sender will
// never say; and neither notices, because numbers are given anew. So numbers mean something only within a
// generation, a frame says what is left of former ones, and every two partitions of different databases are
// compared once in a new one.

/// Partitions that are to be compared with this one, and when they were last asked.
struct Comparison {
    var left: [PartitionID]
    var at: MonotonicTime
}

extension OutboxEntry {
    /// Whether there is no entry between the mark and this one.
    func follows(_ mark: Sequence) -> Bool { predecessor <= mark && mark < number }
}

extension Partition {
    /// It may tell of a generation that does not rest on a durable record yet. That is safe: an owner that
    /// comes after this one begins it with a later record, and none in between has an entry, so what a
    /// receiver keeps by the earlier one is the same.
    func frame(_ entries: [OutboxEntry], to partition: PartitionID) -> OutboxFrame {
        let outbox = state.outboxes[partition] ?? Outbox()
        let floor = outbox.unacknowledged.first?.predecessor ?? outbox.last
        let cuts = state.formerGenerations.map { former in
            OutboxFrame.Cut(
                generation: former.next, kept: state.kept(of: Sequence(.max), in: former.next - 1))
        }
        return OutboxFrame(
            from: id, history: history, generation: state.generation, cuts: cuts,
            floor: max(floor, acknowledged[partition] ?? .zero), entries: entries)
    }

    /// Where a frame goes on, in words of the sender's generation; `nil` where they are known.
    ///
    /// The sender may have lost what was applied here: of that it knows nothing, and gives the numbers anew.
    /// Or this partition has lost what it told the sender to have: nobody has it any more.
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

    /// The mark that a receiver tells, in words of this generation: of what this partition has lost nothing
    /// counts.
    func reached(_ said: OutboxAcknowledgement, _ outbox: Outbox) -> Sequence {
        guard state.generation > 0 else { return said.mark }
        let kept = state.kept(of: said.mark, in: said.generation)
        // A number at which nothing was sent: the newest before it.
        let began = state.formerGenerations.last?.before ?? .zero
        return kept < began ? min(kept, outbox.last) : kept
    }

    // MARK: Comparing

    func beginComparison(_ now: Instant, _ effects: inout [PartitionEffect]) {
        guard options.databaseCount > 1, state.comparedGeneration < state.generation else { return }
        #if DEBUG
            if options.planted.contains(.skipComparison) { return }
        #endif
        let others = (0..<UInt16(options.partitionCount)).filter {
            Int($0) % options.databaseCount != Int(id.rawValue) % options.databaseCount
        }
        comparison = Comparison(left: others.map(PartitionID.init), at: now.monotonic)
        compare(&effects)
    }

    func isBeingCompared(_ partition: PartitionID) -> Bool {
        comparison?.left.contains(partition) ?? false
    }

    /// Asks those that have not answered since the last time, some at once.
    func retryComparison(_ now: Instant, _ effects: inout [PartitionEffect]) {
        guard let comparison, now.monotonic.since(comparison.at) >= options.outboxRetry else { return }
        self.comparison?.at = now.monotonic
        compare(&effects)
    }

    /// Asks some of those that are left for their marks, and others the next time: many may be away.
    private func compare(_ effects: inout [PartitionEffect]) {
        guard let left = comparison?.left else { return }
        let proof = ledger.confirmed()
        let asked = left.prefix(options.comparedAtOnce)
        comparison?.left = Array(left[asked.endIndex...] + asked)
        for partition in asked {
            effects.append(
                .offer(to: partition, Proven(frame([], to: partition), restingOn: .zero, by: proof)))
        }
    }

    func wasCompared(_ partition: PartitionID) {
        comparison?.left.removeAll { $0 == partition }
        guard comparison?.left.isEmpty ?? false else { return }
        comparison = nil
        propose(.compared(generation: state.generation))
    }
}
