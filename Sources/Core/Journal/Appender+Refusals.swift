import Model

// Records that the engine refused are not in. The appender keeps them and appends them again, so a disk that
// is full for a minute costs a minute and nothing else (rule: refusals-cost-time).

extension Appender {
    /// A partition of which the engine refused a record: that record, and everything behind it.
    struct Refused: Sendable {
        /// In order, without the rows that are in flight again.
        var rows: [Row] = []
        var tries: UInt64 = 0
        var triedAt = MonotonicTime.zero
        var due = MonotonicTime.zero

        mutating func wasRefused(at now: MonotonicTime, _ options: JournalOptions) {
            due = now.advanced(by: min(options.retryMax, options.retryMin.doubled(times: min(tries, 10))))
            tries += 1
            triedAt = now
        }
    }

    /// When the appender tries refused rows again; `nil` if none wait.
    public var retryAt: MonotonicTime? { refused.values.lazy.filter { !$0.rows.isEmpty }.map(\.due).min() }

    var refusedRows: Int { refused.isEmpty ? 0 : refused.values.reduce(0) { $0 + $1.rows.count } }
    var refusedBytes: Int {
        refused.isEmpty ? 0 : refused.values.reduce(0) { $0 + $1.rows.reduce(0) { $0 + $1.payload.count } }
    }

    /// None of these rows is in. The appender drops rows of partitions that are being given up. It keeps the
    /// others in their order, in front of the rows that wait behind them.
    mutating func refuse(_ rows: [Row], _ reason: String, resolved: inout [Resolved]) {
        var partitions: [PartitionID] = []
        var again: [PartitionID: [Row]] = [:]
        for row in rows {
            var result = Resolved(row, .refused(reason))
            if case .closed = tails[row.partition] {
                resolved.append(result)
                continue
            }
            if again[row.partition] == nil {
                partitions.append(row.partition)
                result.resolution = .postponed(reason)
                resolved.append(result)
            }
            again[row.partition, default: []].append(row)
        }
        for row in waiting.remove(where: { again[$0.partition] != nil }) {
            again[row.partition, default: []].append(row)
        }
        for partition in partitions {
            var entry = refused[partition] ?? Refused()
            entry.rows = (again[partition] ?? []) + entry.rows
            entry.wasRefused(at: now, options)
            refused[partition] = entry
        }
    }

    /// The rows to try again now, of whole partitions if they fit. Each try takes fewer partitions, so a
    /// record that cannot go in holds up only its own partition in the end.
    mutating func takeDue() -> [Row] {
        let due = refused.filter { $0.value.due <= now && !$0.value.rows.isEmpty }
            .sorted { ($0.value.due, $0.key) < ($1.value.due, $1.key) }
        guard let tries = due.first?.value.tries else { return [] }
        var taken: [Row] = []
        var bytes = 0
        for (partition, entry) in due.prefix(max(1, options.batchRowsMax >> Int(min(tries, 32)))) {
            var count = 0
            for row in entry.rows {
                guard taken.count < options.batchRowsMax,
                    taken.isEmpty || bytes + row.payload.count <= options.batchBytesMax
                else { break }
                taken.append(row)
                bytes += row.payload.count
                count += 1
            }
            refused[partition]?.rows.removeFirst(count)
            if count < entry.rows.count { break }
        }
        return taken
    }

    /// Records of these partitions went in. The rest of their rows moves to `waiting` again, and other
    /// refused partitions are tried sooner (`retrySoon`).
    mutating func wasTaken(_ rows: [Row]) {
        guard !refused.isEmpty else { return }
        for row in rows {
            for left in refused.removeValue(forKey: row.partition)?.rows ?? [] { waiting.append(left) }
        }
        for partition in refused.keys {
            guard let entry = refused[partition] else { continue }
            let soon = max(now, entry.triedAt.advanced(by: options.retrySoon))
            refused[partition]?.due = min(entry.due, soon)
        }
    }

    /// Takes out all waiting rows of the partitions that fit, refused or not yet tried.
    mutating func removeWaiting(of fits: (PartitionID) -> Bool) -> [Row] {
        var removed = waiting.remove { fits($0.partition) }
        for partition in refused.keys.filter(fits).sorted() {
            removed += refused.removeValue(forKey: partition)?.rows ?? []
        }
        return removed
    }
}
