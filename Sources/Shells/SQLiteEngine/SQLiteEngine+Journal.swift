import Journal
import Model

// Appending, reading and trimming.

extension SQLiteEngine {
    public func append(session: SessionID, batch: BatchID, rows: [Row]) -> AppendOutcome {
        Failpoint.reach("append.before")
        do throws(EngineError) {
            let outcomes = try database.transaction { () throws(EngineError) in
                guard try isAlive(session) else {
                    return [RowOutcome](repeating: .fenced, count: max(1, rows.count))
                }
                // This connection committed and synced everything that it sees: there is nothing to wait for.
                guard !rows.isEmpty else { return [.appended] }
                var outcomes: [RowOutcome] = []
                outcomes.reserveCapacity(rows.count)
                for row in rows {
                    guard try owns(row.partition, session) else {
                        outcomes.append(.unowned)
                        continue
                    }
                    outcomes.append(try insert(row, batch: batch) ? .appended : .taken)
                }
                return outcomes
            }
            Failpoint.reach("append.committed")
            try demandInPlace()
            return .rows(outcomes)
        } catch {
            switch error {
            case .refused(let reason): return .refused(reason)
            case .fenced: return .unknown("the session is dead")
            case .ioFailure(let reason), .corrupt(let reason): return .unknown(reason)
            }
        }
    }

    /// Whether the session owns the partition. No other process writes the folder, so an owner that was read
    /// once holds until this engine changes it.
    private func owns(_ partition: PartitionID, _ session: SessionID) throws(EngineError) -> Bool {
        if let known = owners[partition] { return known == session }
        let owner = try partitionRow(partition).owner
        owners[partition] = owner
        return owner == session
    }

    /// Whether the sequence was free; inside a transaction only.
    func insert(_ row: Row, batch: BatchID) throws(EngineError) -> Bool {
        try SQLiteEngine.check(row.sequence)
        guard row.payload.count <= RecordCodec.payloadBytesMax else {
            throw .refused("a record of \(row.payload.count) bytes")
        }
        let statement = try database.statement(
            "INSERT INTO journal (partition, sequence, batch, payload) VALUES (?1, ?2, ?3, ?4)"
                + " ON CONFLICT DO NOTHING"
        )
        statement.bind(1, UInt64(row.partition.rawValue)).bind(2, row.sequence.rawValue).bind(
            3, batch.rawValue)
        try statement.run(4, borrowing: row.payload)
        return database.changes > 0
    }

    public func look(_ partition: PartitionID, _ sequence: Sequence) throws(EngineError) -> BatchID? {
        let statement = try database.statement(
            "SELECT batch FROM journal WHERE partition = ?1 AND sequence = ?2")
        statement.bind(1, UInt64(partition.rawValue)).bind(2, sequence.rawValue)
        defer { statement.reset() }
        return try statement.step() ? BatchID(statement.uint(0)) : nil
    }

    public func lastSequence(_ partition: PartitionID) throws(EngineError) -> Sequence {
        try lastSequence(partition, floor: try partitionRow(partition).floor)
    }

    func lastSequence(_ partition: PartitionID, floor: Sequence) throws(EngineError) -> Sequence {
        let statement = try database.statement("SELECT max(sequence) FROM journal WHERE partition = ?1")
        statement.bind(1, UInt64(partition.rawValue))
        defer { statement.reset() }
        let last = try statement.step() ? statement.uint(0) : 0
        // All records may be trimmed; the floor still shows how far the journal had come.
        return max(Sequence(last), Sequence(floor.rawValue == 0 ? 0 : floor.rawValue - 1))
    }

    public func read(
        _ partition: PartitionID, from: Sequence, bytesMax: Int
    ) throws(EngineError) -> [Row] {
        let statement = try database.statement(
            "SELECT sequence, payload FROM journal WHERE partition = ?1 AND sequence >= ?2 ORDER BY sequence")
        statement.bind(1, UInt64(partition.rawValue)).bind(2, min(from, EngineRules.sequenceMax).rawValue)
        defer { statement.reset() }
        var rows: [Row] = []
        var bytes = 0
        while try statement.step() {
            let row = Row(
                partition: partition, sequence: Sequence(statement.uint(0)), payload: statement.bytes(1))
            bytes += row.payload.count
            if !rows.isEmpty, bytes > bytesMax { break }
            try EngineRules.verify(row)
            rows.append(row)
        }
        return rows
    }

    public func read(
        _ partition: PartitionID, rows: [Sequence], bytesMax: Int
    ) throws(EngineError) -> [Row] {
        let statement = try database.statement(
            "SELECT payload FROM journal WHERE partition = ?1 AND sequence = ?2")
        var found: [Row] = []
        var bytes = 0
        for sequence in Set(rows).sorted() where bytes < bytesMax {
            statement.bind(1, UInt64(partition.rawValue)).bind(2, sequence.rawValue)
            defer { statement.reset() }
            guard try statement.step() else { continue }
            let row = Row(partition: partition, sequence: sequence, payload: statement.bytes(0))
            try EngineRules.verify(row)
            bytes += row.payload.count
            found.append(row)
        }
        return found
    }

    public func trim(
        session: SessionID, partition: PartitionID, below: Sequence, keeping: [Sequence], limit: Int
    ) throws(EngineError) -> Int {
        try database.transaction { () throws(EngineError) in
            var row = try owned(partition, by: session)
            let snapshots = try snapshots(partition)
            guard snapshots.count >= EngineRules.snapshotsKept, let oldest = snapshots.last else { return 0 }
            let bound = min(below, oldest.covering.next)
            if bound > row.floor {
                row.floor = bound
                try store(row)
            }
            let doomed = try doomed(partition, below: bound, keeping: keeping.sorted(), max: limit * 2)
            let delete = try database.statement("DELETE FROM journal WHERE id = ?1")
            for id in doomed.prefix(limit) { try delete.bind(1, id).run() }
            return max(0, doomed.count - limit)
        }
    }

    /// Row ids to delete, by rising sequence. Reads only the index, so that rows to keep cost little.
    private func doomed(
        _ partition: PartitionID, below: Sequence, keeping: [Sequence], max: Int
    ) throws(EngineError) -> [Int64] {
        let statement = try database.statement(
            "SELECT id, sequence FROM journal WHERE partition = ?1 AND sequence < ?2 ORDER BY sequence")
        statement.bind(1, UInt64(partition.rawValue)).bind(2, below.rawValue)
        defer { statement.reset() }
        var ids: [Int64] = []
        var keep = keeping[...]
        while ids.count < max, try statement.step() {
            let sequence = Sequence(statement.uint(1))
            while let first = keep.first, first < sequence { keep.removeFirst() }
            if keep.first != sequence { ids.append(statement.int(0)) }
        }
        return ids
    }
}
