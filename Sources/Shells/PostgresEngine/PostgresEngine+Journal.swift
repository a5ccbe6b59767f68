import Journal
import Model

// Appending and reading.

extension PostgresEngine {
    /// Most rows of a single read statement, and most bytes of their payloads.
    private static let pageRows = 4096
    private static let pageBytes = 8 << 20

    /// The first row of the answer says that the session lives; a dead session gets no rows. The other rows
    /// name the sequences that went in. A negative sequence names a row of a partition that the session does
    /// not own, or a row below the floor: a late copy of an append would put back what was trimmed.
    private static let appendStatement: StaticString = """
        WITH living AS MATERIALIZED (
            SELECT id FROM tidecast.session WHERE id = $1::int8 AND alive FOR SHARE),
        owned AS MATERIALIZED (
            SELECT p.id, p.floor FROM living JOIN tidecast.partition AS p ON p.owner = living.id
            WHERE p.id = ANY ($3::int4[])),
        added AS (
            INSERT INTO tidecast.journal (partition, sequence, batch, payload)
            SELECT r.partition, r.sequence, $2::int8, r.payload
            FROM unnest($3::int4[], $4::int8[], $5::bytea[]) AS r (partition, sequence, payload)
            JOIN owned ON owned.id = r.partition AND owned.floor <= r.sequence
            ON CONFLICT DO NOTHING RETURNING partition, sequence)
        SELECT NULL::int4, NULL::int8 FROM living UNION ALL SELECT partition, sequence FROM added
        UNION ALL SELECT r.partition, -r.sequence
        FROM living, unnest($3::int4[], $4::int8[]) AS r (partition, sequence)
        WHERE NOT EXISTS (SELECT FROM owned WHERE owned.id = r.partition AND owned.floor <= r.sequence)
        """

    public func append(session: SessionID, batch: BatchID, rows: [Row]) -> AppendOutcome {
        do throws(Fault) {
            for row in rows { try PostgresEngine.check(row) }
            let reply = try connection().run(
                PostgresEngine.appendStatement,
                [
                    .uint(session.rawValue), .uint(batch.rawValue),
                    .shorts(rows.map { Int32($0.partition.rawValue) }),
                    .ints(rows.map { Int64(bitPattern: $0.sequence.rawValue) }),
                    .byteStrings(rows.map(\.payload)),
                ])
            let outcomes = try PostgresEngine.outcomes(of: rows, reply)
            options.ends.acknowledged(zip(rows, outcomes).lazy.filter { $1 == .appended }.map { $0.0 })
            return .rows(outcomes)
        } catch {
            settle(error)
            if let failure { return .unknown(failure) }
            switch error {
            case .lost(let reason), .unconfirmed(let reason): return .unknown(reason)
            case .unsent(let reason): return .refused(reason)
            case .rejected(let state, let message): return .refused(State.sentence(state, message))
            case .engine(.refused(let reason)): return .refused(reason)
            case .engine(let error): return .unknown("\(error)")
            }
        }
    }

    private struct RowKey: Hashable {
        var partition: UInt16
        var sequence: UInt64
    }

    private static func outcomes(of rows: [Row], _ reply: Reply) throws(Fault) -> [RowOutcome] {
        guard reply.count > 0 else { return Array(repeating: .fenced, count: max(1, rows.count)) }
        guard reply.count > 1 else {
            return Array(repeating: rows.isEmpty ? .appended : .taken, count: max(1, rows.count))
        }
        var appended: Set<RowKey> = []
        var unowned: Set<RowKey> = []
        for index in reply.rows where !reply.isNull(index, 0) {
            let partition = UInt16(truncatingIfNeeded: try reply.int(index, 0))
            let sequence = try reply.int(index, 1)
            if sequence < 0 {
                unowned.insert(RowKey(partition: partition, sequence: sequence.magnitude))
            } else {
                appended.insert(RowKey(partition: partition, sequence: sequence.magnitude))
            }
        }
        if unowned.isEmpty, appended.count == rows.count {
            return Array(repeating: .appended, count: rows.count)
        }
        // Of two rows of a batch with one sequence the first went in.
        return rows.map { row in
            let key = RowKey(partition: row.partition.rawValue, sequence: row.sequence.rawValue)
            if unowned.contains(key) { return .unowned }
            return appended.remove(key) == nil ? .taken : .appended
        }
    }

    public func look(_ partition: PartitionID, _ sequence: Sequence) throws(EngineError) -> BatchID? {
        try ask { connection throws(Fault) in
            let reply = try connection.run(
                "SELECT batch FROM tidecast.journal WHERE partition = $1::int4 AND sequence = $2::int8",
                [.partition(partition), .uint(sequence.rawValue)])
            return reply.count == 1 ? BatchID(try reply.uint(0, 0)) : nil
        }
    }

    public func lastSequence(_ partition: PartitionID) throws(EngineError) -> Sequence {
        try ask { connection throws(Fault) in
            // All records may be trimmed; the floor still shows how far the journal had come.
            let reply = try connection.run(
                """
                SELECT greatest(p.floor - 1, (
                    SELECT max(sequence) FROM tidecast.journal WHERE partition = p.id))
                FROM tidecast.partition AS p WHERE p.id = $1::int4
                """, [.partition(partition)])
            guard reply.count == 1 else { throw .engine(.refused("no partition \(partition.rawValue)")) }
            return Sequence(try reply.uint(0, 0))
        }
    }

    public func read(
        _ partition: PartitionID, from: Sequence, bytesMax: Int
    ) throws(EngineError) -> [Row] {
        var rows: [Row] = []
        var bytes = 0
        var next = from
        while next <= EngineRules.sequenceMax {
            let page = try page(
                partition, from: next, bytesMax: min(bytesMax - bytes, PostgresEngine.pageBytes))
            for row in page {
                bytes += row.payload.count
                if !rows.isEmpty, bytes > bytesMax { return rows }
                try EngineRules.verify(row)
                rows.append(row)
            }
            guard let last = page.last, bytes < bytesMax else { return rows }
            next = last.sequence.next
        }
        return rows
    }

    /// The next rows, up to `bytesMax` bytes of payload, but at least one.
    private func page(
        _ partition: PartitionID, from: Sequence, bytesMax: Int
    ) throws(EngineError) -> [Row] {
        try ask { connection throws(Fault) in
            let reply = try connection.run(
                """
                SELECT sequence, payload FROM (
                    SELECT sequence, payload, row_number() OVER place AS number,
                        sum(octet_length(payload)) OVER place AS bytes
                    FROM (
                        SELECT sequence, payload FROM tidecast.journal
                        WHERE partition = $1::int4 AND sequence >= $2::int8 ORDER BY sequence LIMIT $4::int8
                    ) AS next
                    WINDOW place AS (ORDER BY sequence ROWS UNBOUNDED PRECEDING)
                ) AS counted
                WHERE number = 1 OR bytes <= $3::int8 ORDER BY sequence
                """,
                [
                    .partition(partition), .uint(from.rawValue), .int(Int64(max(0, bytesMax))),
                    .int(Int64(PostgresEngine.pageRows)),
                ])
            return try PostgresEngine.rows(of: partition, reply)
        }
    }

    public func read(
        _ partition: PartitionID, rows: [Sequence], bytesMax: Int
    ) throws(EngineError) -> [Row] {
        let wanted = Set(rows).sorted().filter { $0 <= EngineRules.sequenceMax }
        var found: [Row] = []
        var left = bytesMax
        for start in stride(from: 0, to: wanted.count, by: PostgresEngine.pageRows) where left > 0 {
            let some = wanted[start..<min(wanted.count, start + PostgresEngine.pageRows)]
            let page = try ask { connection throws(Fault) in
                let reply = try connection.run(
                    """
                    SELECT sequence, payload FROM (
                        SELECT sequence, payload, sum(octet_length(payload)) OVER (
                            ORDER BY sequence ROWS UNBOUNDED PRECEDING) - octet_length(payload) AS before
                        FROM tidecast.journal
                        WHERE partition = $1::int4 AND sequence = ANY ($2::int8[])) AS counted
                    WHERE before < $3::int8 ORDER BY sequence
                    """,
                    [
                        .partition(partition),
                        .ints(some.map { Int64(bitPattern: $0.rawValue) }), .int(Int64(left)),
                    ])
                return try PostgresEngine.rows(of: partition, reply)
            }
            left -= page.reduce(0) { $0 + $1.payload.count }
            found += page
        }
        for row in found { try EngineRules.verify(row) }
        return found
    }

    private static func rows(of partition: PartitionID, _ reply: Reply) throws(Fault) -> [Row] {
        var rows: [Row] = []
        rows.reserveCapacity(reply.count)
        for index in reply.rows {
            rows.append(
                Row(
                    partition: partition, sequence: Sequence(try reply.uint(index, 0)),
                    payload: try reply.bytes(index, 1)))
        }
        return rows
    }
}
