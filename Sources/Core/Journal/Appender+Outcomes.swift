import Model

extension Appender {
    mutating func finished(
        _ outcome: AppendOutcome, _ resolved: inout [Resolved], effects: inout [Effect]
    ) {
        guard case .appending(var batch) = state else {
            preconditionFailure("an append finished that was not in flight")
        }
        switch outcome {
        case .rows(let outcomes):
            precondition(outcomes.count == batch.rows.count, "an engine answers for each row")
            settle(batch, outcomes, resolved: &resolved, effects: &effects)
        case .refused(let reason) where !batch.isInDoubt:
            state = .idle
            refuse(batch.rows, reason, resolved: &resolved)
        case .refused, .unknown:
            batch.isInDoubt = true
            launch(batch, &effects)
        }
    }

    private mutating func settle(
        _ batch: Batch, _ outcomes: [RowOutcome], resolved: inout [Resolved], effects: inout [Effect]
    ) {
        let findings = outcomes.map { outcome in
            switch outcome {
            case .appended: Finding.appended
            case .fenced: Finding.fenced
            case .taken: Finding.looking
            case .unowned: Finding.unowned
            }
        }
        conclude(batch, findings, resolved: &resolved, effects: &effects)
        guard case .looking = state else { return }
        for (row, outcome) in zip(batch.rows, outcomes) where outcome == .taken {
            effects.append(.look(row.partition, row.sequence))
        }
    }

    mutating func looked(
        _ partition: PartitionID, _ sequence: Sequence, found: BatchID?, resolved: inout [Resolved],
        effects: inout [Effect]
    ) {
        guard case .looking(let batch, var findings) = state,
            let index = batch.rows.firstIndex(where: { $0.partition == partition && $0.sequence == sequence })
        else { preconditionFailure("a look was answered that was not asked for") }
        if let found {
            findings[index] = found == batch.id ? .mine : .foreign
        } else {
            findings[index] = .absent
        }
        conclude(batch, findings, resolved: &resolved, effects: &effects)
    }

    /// Reports what became of each row, once no look is left to wait for.
    private mutating func conclude(
        _ batch: Batch, _ findings: [Finding], resolved: inout [Resolved], effects: inout [Effect]
    ) {
        if findings.contains(where: { if case .looking = $0 { true } else { false } }) {
            state = .looking(batch, findings)
            return
        }
        if findings.contains(where: { if case .fenced = $0 { true } else { false } }) {
            settleFenced(batch.rows, findings, resolved: &resolved)
            return
        }
        state = .idle
        var again: [Row] = []
        var taken: [Row] = []
        for (row, finding) in zip(batch.rows, findings) {
            var result = Resolved(row, .durable)
            switch finding {
            case .foreign:
                result.resolution = .taken
                resolved.append(result)
                tails[row.partition] = .lost
            case .unowned:
                // An earlier try may have gone in while the partition was still this session's.
                result.resolution = batch.isInDoubt ? .unknown : .taken
                resolved.append(result)
                tails[row.partition] = .lost
            case _ where isLost(row.partition):
                // The partition is lost. Unless the row is certainly out, the next owner may read it.
                let isOut = if case .absent = finding { !batch.isInDoubt } else { false }
                result.resolution = isOut ? .taken : .unknown
                resolved.append(result)
            case .appended, .mine:
                resolved.append(result)
                if !refused.isEmpty { taken.append(row) }
            case .absent, .looking, .fenced: again.append(row)
            }
        }
        dropLost(&resolved)
        wasTaken(taken)
        // The sequence was taken and is empty now: the transaction that held it was rolled back. Our row may
        // still go in.
        if !again.isEmpty { launch(Batch(id: batch.id, rows: again, isInDoubt: true), &effects) }
    }

    // MARK: Giving partitions up

    /// Drops the partition's waiting rows. The appender settles rows in flight or in doubt before
    /// `tellClosed` names the partition (rule: given-up-through-the-writer).
    mutating func close(_ partition: PartitionID, _ resolved: inout [Resolved]) {
        for row in removeWaiting(of: { $0 == partition }) {
            resolved.append(Resolved(row, .refused("the node is giving the partition up")))
        }
        tails[partition] = .closed
        closing.insert(partition)
    }

    /// Reports each closing partition of which nothing is in flight any more.
    mutating func tellClosed(_ effects: inout [Effect]) {
        guard !closing.isEmpty else { return }
        let flying: [Row]
        switch state {
        case .appending(let batch), .looking(let batch, _): flying = batch.rows
        case .idle, .fenced: flying = []
        }
        let held = Set(flying.map(\.partition))
        for partition in closing.subtracting(held).sorted() {
            closing.remove(partition)
            effects.append(.closed(partition))
        }
    }

    private func isLost(_ partition: PartitionID) -> Bool {
        if case .lost = tails[partition] { true } else { false }
    }

    private mutating func dropLost(_ resolved: inout [Resolved]) {
        let lost = Set(tails.compactMap { if case .lost = $0.value { $0.key } else { nil } })
        guard !lost.isEmpty else { return }
        for row in removeWaiting(of: { lost.contains($0) }) {
            resolved.append(Resolved(row, .taken))
        }
    }

    /// The session is dead. Only rows whose own commit was acknowledged before it died are durable.
    private mutating func settleFenced(_ rows: [Row], _ findings: [Finding], resolved: inout [Resolved]) {
        state = .fenced
        for (row, finding) in zip(rows, findings) {
            let isIn = if case .appended = finding { true } else { false }
            resolved.append(Resolved(row, isIn ? .durable : .fenced))
        }
        for row in removeWaiting(of: { _ in true }) {
            resolved.append(Resolved(row, .fenced))
        }
    }
}
