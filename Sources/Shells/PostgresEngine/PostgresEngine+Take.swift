import Journal
import Model

// Taking a partition: compare-and-set on its row, together with the barrier.

extension PostgresEngine {
    /// One statement. It locks the partition's row before it writes anything, so the row cannot change any
    /// more. The barrier goes in at a free sequence directly behind the last one, and only then the row
    /// changes. Records of an earlier owner cannot come in between: the statement sees that session dead,
    /// hence it sees everything that the session ever appended.
    private static let takeStatement: StaticString = """
        WITH living AS MATERIALIZED (
            SELECT id FROM tidecast.session WHERE id = $1::int8 AND alive FOR SHARE),
        mine AS MATERIALIZED (
            SELECT id, floor FROM tidecast.partition
            WHERE id = $2::int4 AND owner IS NOT DISTINCT FROM $3::int8 AND epoch = $4::int8 FOR UPDATE),
        barrier AS (
            INSERT INTO tidecast.journal (partition, sequence, batch, payload)
            SELECT mine.id, $5::int8, $6::int8, $7::bytea FROM living, mine
            WHERE $5 - 1 = greatest(
                mine.floor - 1, (SELECT max(sequence) FROM tidecast.journal WHERE partition = $2))
            AND NOT EXISTS (SELECT FROM tidecast.session WHERE id = $3 AND id <> $1 AND alive)
            ON CONFLICT DO NOTHING RETURNING partition)
        UPDATE tidecast.partition AS p SET owner = $1, epoch = $4 + 1
        FROM barrier WHERE p.id = barrier.partition RETURNING p.epoch
        """

    /// Why nothing was taken. The row lock makes this a commit, behind what it saw (see `PostgresEngine`).
    private static let findStatement: StaticString = """
        WITH living AS MATERIALIZED (
            SELECT id FROM tidecast.session WHERE id = $1::int8 AND alive FOR SHARE)
        SELECT EXISTS (SELECT FROM living), p.owner, p.epoch,
            EXISTS (SELECT FROM tidecast.session WHERE id = $3::int8 AND id <> $1 AND alive),
            (SELECT batch FROM tidecast.journal WHERE partition = p.id AND sequence = $4::int8),
            (SELECT max(sequence) FROM tidecast.journal WHERE partition = p.id)
        FROM tidecast.partition AS p WHERE p.id = $2::int4
        """

    public func release(_ partition: PartitionID, by session: SessionID) throws(EngineError) {
        var isRepeat = false
        try ask { connection throws(Fault) in
            defer { isRepeat = true }
            let reply = try connection.run(
                """
                WITH living AS MATERIALIZED (
                    SELECT id FROM tidecast.session WHERE id = $1::int8 AND alive FOR SHARE)
                UPDATE tidecast.partition AS p SET owner = NULL FROM living
                WHERE p.id = $2::int4 AND (p.owner = living.id OR ($3::int4 = 1 AND p.owner IS NULL))
                RETURNING p.id
                """,
                [.uint(session.rawValue), .partition(partition), .short(isRepeat ? 1 : 0)])
            // After a lost answer a row without an owner is the wanted result.
            guard reply.count == 1 else { throw .engine(.fenced) }
        }
    }

    public func takeOver(
        _ partition: PartitionID, from former: PartitionRow, by session: SessionID, barrier: Row
    ) throws(EngineError) -> Epoch? {
        let id = Parameter.partition(partition)
        let owner = Parameter.uint(former.owner?.rawValue)
        let batch = Appender.barrierBatch(of: session)
        return try ask { connection throws(Fault) in
            try PostgresEngine.check(barrier)
            if barrier.partition == partition {
                let reply = try connection.run(
                    PostgresEngine.takeStatement,
                    [
                        .uint(session.rawValue), id, owner, .uint(former.epoch.rawValue),
                        .uint(barrier.sequence.rawValue), .uint(batch.rawValue), .bytes(barrier.payload),
                    ])
                if reply.count == 1 {
                    options.ends.acknowledged([barrier])
                    return Epoch(try reply.uint(0, 0))
                }
            }
            let found = try connection.run(
                PostgresEngine.findStatement,
                [.uint(session.rawValue), id, owner, .uint(barrier.sequence.rawValue)])
            guard found.count == 1 else {
                throw .engine(.refused("no partition \(partition.rawValue)"))
            }
            guard try found.bool(0, 0) else { throw .engine(.fenced) }
            if try found.bool(0, 3) {
                let owner = former.owner?.rawValue ?? 0
                throw .engine(
                    .refused("session \(owner) lives and owns partition \(partition.rawValue)"))
            }
            // An earlier try went in and its reply was lost: nothing is behind its barrier.
            let epoch = Epoch(former.epoch.rawValue + 1)
            guard !found.isNull(0, 1), try found.uint(0, 1) == session.rawValue,
                try found.uint(0, 2) == epoch.rawValue, !found.isNull(0, 4),
                try found.uint(0, 4) == batch.rawValue, try found.uint(0, 5) == barrier.sequence.rawValue
            else { return nil }
            return epoch
        }
    }
}
