import Model

// What happens if a receiver's mark does not fit the sender's outbox (rule: denied-marks). In one cluster it
// always fits. It does not if an owner of another cluster, such as a copy of this one, has offered entries or
// has acknowledged some. Without the rule the receiver takes new entries for repeats, or waits for ever for
// entries that the sender has let go of.

/// A receiver sent this mark. The partition denies it as soon as `record` is durable.
struct Denial {
    var mark: ToldMark
    /// The partition began this record after the receiver had sent the mark. When the record is durable, the
    /// partition was the owner then, and had made no entry of the mark's number.
    var record: Sequence
}

extension Partition {
    /// Up to here the receiver has acknowledged everything.
    func floor(of outbox: Outbox, to partition: PartitionID) -> Sequence {
        max(outbox.unacknowledged.first?.predecessor ?? outbox.last, acknowledged[partition] ?? .zero)
    }

    // MARK: The sender

    /// Whether no entry that this partition has offered gives the receiver such a mark. A mark of an earlier
    /// generation is counted by `reached`, and a mark below the floor is late.
    func isStrange(_ said: OutboxAcknowledgement) -> Bool {
        #if DEBUG
            if options.planted.contains(.denyNothing) { return false }
        #endif
        // A receiver without a mark sends history 0.
        guard said.history == history else { return said.history != History(0) }
        guard said.generation == state.generation else { return said.generation > state.generation }
        let outbox = state.outboxes[said.from] ?? Outbox()
        guard said.mark > floor(of: outbox, to: said.from) else { return false }
        return said.mark > pipeline.durable || !outbox.unacknowledged.contains { $0.number == said.mark }
    }

    /// The next frames deny the mark. A record shows first that this partition is still the owner.
    func deny(_ said: OutboxAcknowledgement) {
        let mark = ToldMark(history: said.history, generation: said.generation, number: said.mark)
        guard denied[said.from]?.mark != mark else { return }
        propose(
            .acknowledge([OutboxMark(partition: said.from, number: acknowledged[said.from] ?? .zero)]))
        denied[said.from] = Denial(mark: mark, record: pipeline.openSequence)
        offered[said.from]?.upTo = .zero
        pipeline.gated.touched.insert(said.from)
        pipeline.isUrgent = true
    }

    func deniedMark(of partition: PartitionID) -> ToldMark? {
        denied[partition].flatMap { $0.record <= pipeline.durable ? $0.mark : nil }
    }

    // MARK: The receiver

    /// Whether the frame proves that the mark is none of the sender's outbox: the sender denies the mark, or
    /// the sender knows of a later durable mark in the same generation.
    func isMisfit(_ mark: InboxMark?, _ frame: OutboxFrame) -> Bool {
        #if DEBUG
            if options.planted.contains(.denyNothing) { return false }
        #endif
        if let mark, let denied = frame.denied {
            let told = ToldMark(history: mark.history, generation: mark.generation, number: mark.number)
            if denied == told { return true }
        }
        guard mark?.history ?? frame.history == frame.history, frame.generation >= state.generation else {
            return false
        }
        return frame.generation == mark?.generation ?? 0 && frame.floor > mark?.number ?? .zero
    }

    /// Goes on from what the sender still has. The pair's members are sent again, because the fingerprints
    /// differ.
    func mend(_ frame: OutboxFrame) {
        propose(
            .rebase(
                from: frame.from, history: frame.history, generation: frame.generation, number: frame.floor))
        // What was durable is ahead of the mark now, and must not be acknowledged again.
        durableMarks[frame.from] = nil
        pipeline.forgetMarks(of: frame.from)
        pipeline.gated.notices.append(.markMended(of: frame.from))
    }

    /// Whether the mark `number` is of the sender's outbox, as far as the next entry shows. Above the floor
    /// each mark is an entry's number, and the next entry names it.
    func isOfOutbox(_ number: Sequence, before entry: OutboxEntry, in frame: OutboxFrame) -> Bool {
        #if DEBUG
            if options.planted.contains(.denyNothing) { return true }
        #endif
        return number <= frame.floor || entry.predecessor == number
    }
}
