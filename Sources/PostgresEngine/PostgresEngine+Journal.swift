import Journal
import Model

// Appending, looking and reading.

extension PostgresEngine {
    /// The first row says whether the session lives; the rest are those that went in.
    private static let append = """
        WITH s AS MATERIALIZED (SELECT 1 FROM session WHERE id = $1 AND alive FOR SHARE),
        i AS (
            INSERT INTO journal (partition, sequence, batch, payload)
            SELECT r.partition, r.sequence, $2, r.payload
            FROM s, unnest($3::int4[], $4::int8[], $5::bytea[]) AS r(partition, sequence, payload)
            ON CONFLICT DO NOTHING RETURNING partition, sequence)
        SELECT -1, (SELECT count(*) FROM s) UNION ALL SELECT partition, sequence FROM i
        """

    /// Locking the session's row is a change of the database, so an append of no rows is a commit that is
    /// synced and replicated like any other, and says that all before it were.
    public func append(session: SessionID, batch: BatchID, rows: [Row]) -> AppendOutcome {
        if let failure { return .unknown(failure) }
        let found: Rows
        do throws(StatementFailure) {
            found = try database.run(
                PostgresEngine.append,
                [
                    .int8(session.rawValue), .int8(batch.rawValue),
                    .int4s(rows.map { Int($0.partition.rawValue) }),
                    .int8s(rows.map(\.sequence.rawValue)), .byteas(rows.map(\.payload)),
                ])
        } catch {
            switch error {
            case .refused(let state, let message): return .refused("\(message) (\(state))")
            case .broken(let reason): return .unknown(reason)
            }
        }
        var isAlive = false
        var went: Set<Place> = []
        for row in 0..<found.count {
            if found.number(row, 0) == UInt64.max {
                isAlive = found.number(row, 1) > 0
            } else {
                went.insert(
                    Place(partition: found.number(row, 0), sequence: found.number(row, 1)))
            }
        }
        guard isAlive else {
            return .rows(Array(repeating: .fenced, count: max(1, rows.count)))
        }
        if rows.isEmpty { return .rows([.appended]) }
        return .rows(
            rows.map { row in
                let place = Place(partition: UInt64(row.partition.rawValue), sequence: row.sequence.rawValue)
                return went.contains(place) ? .appended : .taken
            })
    }

    private struct Place: Hashable {
        var partition: UInt64
        var sequence: UInt64
    }

    public func look(_ partition: PartitionID, _ sequence: Sequence) throws(EngineError) -> BatchID? {
        let rows = try query(
            "SELECT batch FROM journal WHERE partition = $1 AND sequence = $2",
            [.int4(Int(partition.rawValue)), .int8(sequence.rawValue)])
        return rows.count > 0 ? BatchID(rows.number(0, 0)) : nil
    }

    public func read(
        _ partition: PartitionID, from: Sequence, bytesMax: Int
    ) throws(EngineError) -> [Row] {
        let rows = try query(
            """
            SELECT sequence, payload FROM (
                SELECT sequence, payload,
                    sum(octet_length(payload)) OVER (ORDER BY sequence) AS upto,
                    row_number() OVER (ORDER BY sequence) AS number
                FROM (SELECT sequence, payload FROM journal WHERE partition = $1 AND sequence >= $2
                    ORDER BY sequence LIMIT 4096) AS next) AS summed
            WHERE upto <= $3 OR number = 1 ORDER BY sequence
            """, [.int4(Int(partition.rawValue)), .int8(from.rawValue), .int8(UInt64(max(0, bytesMax)))])
        return try verified(rows, partition)
    }

    public func read(_ partition: PartitionID, rows: [Sequence]) throws(EngineError) -> [Row] {
        let found = try query(
            "SELECT sequence, payload FROM journal WHERE partition = $1 AND sequence = ANY($2::int8[]) ORDER BY sequence",
            [.int4(Int(partition.rawValue)), .int8s(rows.map(\.rawValue))])
        return try verified(found, partition)
    }

    private func verified(_ found: Rows, _ partition: PartitionID) throws(EngineError) -> [Row] {
        let rows = (0..<found.count).map {
            Row(partition: partition, sequence: Sequence(found.number($0, 0)), payload: found.bytes($0, 1))
        }
        for row in rows { try EngineRules.verify(row) }
        return rows
    }
}
