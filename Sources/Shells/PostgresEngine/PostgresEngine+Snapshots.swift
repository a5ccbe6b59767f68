import Journal
import Model

// Snapshots lie in the database in chunks, one for each part. The chunks go in first, under a number that no
// row names yet. The row that names them is one statement under the living session that owns the partition.
// Chunks that no row names are of older snapshots, or of an upload that stopped in between. With each part
// that comes in, two of them go.

extension PostgresEngine {
    /// Chunks to delete with each part that comes in.
    private static let chunksDroppedMax = 2
    /// Tries to read a snapshot. If rows vanish during a try, a newer snapshot was written, and the engine
    /// begins again.
    private static let readTriesMax = 4

    /// The session lives and owns the partition, until the statement is over.
    private static let owning = """
        WITH living AS MATERIALIZED (
            SELECT id FROM tidecast.session WHERE id = $1::int8 AND alive FOR SHARE),
        mine AS MATERIALIZED (
            SELECT p.id, p.floor FROM tidecast.partition AS p, living
            WHERE p.id = $2::int4 AND p.owner = living.id FOR SHARE OF p)
        """

    public func writeSnapshot(
        session: SessionID, partition: PartitionID, covering: Sequence, part: SnapshotPart
    ) throws(EngineError) -> UInt64 {
        try EngineRules.check(part)
        guard covering <= EngineRules.sequenceMax else {
            throw .refused("a snapshot covers durable records only")
        }
        let key = [Parameter.uint(session.rawValue), .partition(partition)]
        let upload = try write(part, key)
        if let end = part.end {
            try name(
                key + [
                    .uint(covering.rawValue), .int(upload), .int(Int64(end.parts)),
                    .int(Int64(end.length)), .uint(end.digest),
                ])
        }
        // Chunks that are left over cost only room, and the next part tries again.
        _ = try? drop(chunksBut: upload, key)
        return UInt64(bitPattern: upload)
    }

    private func write(_ part: SnapshotPart, _ key: [Parameter]) throws(EngineError) -> Int64 {
        let upload = part.number > 0 ? Int64(bitPattern: part.upload ?? 0) : 0
        return try ask { connection throws(Fault) in
            let reply = try connection.run(
                PostgresEngine.owning + """
                    , upload AS MATERIALIZED (
                        SELECT CASE WHEN $4::int8 = 0 THEN nextval('tidecast.upload') ELSE $3::int8 END
                        AS number FROM mine)
                    INSERT INTO tidecast.chunk (partition, upload, number, bytes)
                    SELECT mine.id, upload.number, $4::int8::int4, $5::bytea FROM mine, upload
                    ON CONFLICT (partition, upload, number) DO UPDATE SET bytes = excluded.bytes
                    RETURNING upload
                    """, key + [.int(upload), .int(Int64(part.number)), .bytes(part.bytes[...])])
            guard reply.count == 1 else { throw .engine(.fenced) }
            return try reply.int(0, 0)
        }
    }

    private func drop(chunksBut upload: Int64, _ key: [Parameter]) throws(EngineError) {
        try ask { connection throws(Fault) in
            _ = try connection.run(
                PostgresEngine.owning + """
                    , doomed AS MATERIALIZED (
                        SELECT c.upload, c.number FROM mine, tidecast.chunk AS c
                        WHERE c.partition = $2 AND c.upload <> $3::int8 AND NOT EXISTS (
                            SELECT FROM tidecast.snapshot AS s
                            WHERE s.partition = c.partition AND s.upload = c.upload)
                        ORDER BY c.upload, c.number LIMIT \(PostgresEngine.chunksDroppedMax))
                    DELETE FROM tidecast.chunk AS c USING doomed
                    WHERE c.partition = $2 AND c.upload = doomed.upload AND c.number = doomed.number
                    """, key + [.int(upload)])
        }
    }

    /// Names the snapshot and drops snapshots beyond the number to keep. The new snapshot counts if it is
    /// among the newest, and is never dropped itself.
    private func name(_ parameters: [Parameter]) throws(EngineError) {
        try ask { connection throws(Fault) in
            let reply = try connection.run(
                PostgresEngine.owning + """
                    , named AS (
                        INSERT INTO tidecast.snapshot (
                            partition, covering, upload, chunks, length, checksum)
                        SELECT mine.id, $3::int8, $4::int8, $5::int8::int4, $6::int8, $7::int8 FROM mine
                        WHERE $3 <= greatest(mine.floor - 1, (
                            SELECT max(sequence) FROM tidecast.journal WHERE partition = $2))
                        ON CONFLICT (partition, covering) DO UPDATE SET upload = excluded.upload,
                            chunks = excluded.chunks, length = excluded.length, checksum = excluded.checksum
                        RETURNING partition),
                    dropped AS (
                        DELETE FROM tidecast.snapshot AS s USING named
                        WHERE s.partition = named.partition AND s.covering <> $3
                        AND \(EngineRules.snapshotsKept) <= ($3 > s.covering)::int4 + (
                            SELECT count(*) FROM tidecast.snapshot AS newer
                            WHERE newer.partition = s.partition AND newer.covering > s.covering
                            AND newer.covering <> $3))
                    SELECT EXISTS (SELECT FROM mine), EXISTS (SELECT FROM named)
                    """, parameters)
            guard reply.count == 1, try reply.bool(0, 0) else { throw .engine(.fenced) }
            guard try reply.bool(0, 1) else {
                throw .engine(.refused("a snapshot covers durable records only"))
            }
        }
    }

    public func snapshots(_ partition: PartitionID) throws(EngineError) -> [SnapshotRow] {
        try ask { connection throws(Fault) in
            let reply = try connection.run(
                """
                SELECT covering FROM tidecast.snapshot
                WHERE partition = $1::int4 ORDER BY covering DESC
                """, [.partition(partition)])
            var rows: [SnapshotRow] = []
            for index in reply.rows {
                let covering = Sequence(try reply.uint(index, 0))
                rows.append(
                    SnapshotRow(covering: covering, name: "\(partition.rawValue)-\(covering.rawValue)"))
            }
            return rows
        }
    }

    public func readSnapshot(_ partition: PartitionID, covering: Sequence) throws(EngineError) -> [UInt8] {
        for _ in 0..<PostgresEngine.readTriesMax {
            if let bytes = try readOnce(partition, covering) { return bytes }
        }
        throw .refused(
            "the snapshot of partition \(partition.rawValue) up to \(covering.rawValue) is written over and"
                + " over")
    }

    /// `nil` if the snapshot was replaced meanwhile.
    private func readOnce(_ partition: PartitionID, _ covering: Sequence) throws(EngineError) -> [UInt8]? {
        let label = "the snapshot of partition \(partition.rawValue) up to \(covering.rawValue)"
        guard let head = try head(partition, covering) else {
            throw .refused("partition \(partition.rawValue) has no snapshot up to \(covering.rawValue)")
        }
        guard (0...EngineRules.snapshotBytesMax).contains(head.length) else {
            throw .corrupt("\(label) has another length")
        }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(head.length)
        var digest = SnapshotDigest(partition, covering: covering)
        for number in 0..<max(0, head.chunks) {
            let chunk = try ask { connection throws(Fault) in
                let reply = try connection.run(
                    """
                    SELECT bytes FROM tidecast.chunk
                    WHERE partition = $1::int4 AND upload = $2::int8 AND number = $3::int8
                    """, [.partition(partition), .int(head.upload), .int(Int64(number))])
                return reply.count == 1 ? try reply.bytes(0, 0) : nil
            }
            guard let chunk, bytes.count + chunk.count <= head.length else { break }
            bytes += chunk
            digest.add(chunk)
        }
        if bytes.count == head.length, digest.value == head.checksum { return bytes }
        guard try self.head(partition, covering) != head else { throw .corrupt("\(label) is damaged") }
        return nil
    }

    private struct Head: Equatable {
        var upload: Int64
        var chunks: Int
        var length: Int
        var checksum: UInt64
    }

    private func head(_ partition: PartitionID, _ covering: Sequence) throws(EngineError) -> Head? {
        try ask { connection throws(Fault) in
            let reply = try connection.run(
                """
                SELECT upload, chunks, length, checksum FROM tidecast.snapshot
                WHERE partition = $1::int4 AND covering = $2::int8
                """, [.partition(partition), .uint(covering.rawValue)])
            guard reply.count == 1 else { return nil }
            return Head(
                upload: try reply.int(0, 0), chunks: Int(try reply.int(0, 1)),
                length: Int(try reply.int(0, 2)), checksum: try reply.uint(0, 3))
        }
    }

    public func trim(
        session: SessionID, partition: PartitionID, below: Sequence, keeping: [Sequence], limit: Int
    ) throws(EngineError) -> Int {
        let below = min(below, EngineRules.sequenceMax)
        let limit = Int64(max(0, min(limit, Int(Int32.max))))
        return try ask { connection throws(Fault) in
            let reply = try connection.run(
                PostgresEngine.owning + """
                    , bound AS (
                        SELECT least($3::int8, min(covering) + 1) AS value FROM tidecast.snapshot
                        WHERE partition = $2 HAVING count(*) >= \(EngineRules.snapshotsKept)),
                    moved AS (
                        UPDATE tidecast.partition AS p SET floor = bound.value FROM mine, bound
                        WHERE p.id = mine.id AND p.floor < bound.value),
                    doomed AS MATERIALIZED (
                        SELECT j.sequence FROM mine, bound, tidecast.journal AS j
                        WHERE j.partition = $2 AND j.sequence < bound.value AND NOT EXISTS (
                            SELECT FROM unnest($4::int8[]) AS k (sequence) WHERE k.sequence = j.sequence)
                        ORDER BY j.sequence LIMIT $5::int8 * 2),
                    deleted AS (
                        DELETE FROM tidecast.journal AS j
                        USING (SELECT sequence FROM doomed ORDER BY sequence LIMIT $5) AS d
                        WHERE j.partition = $2 AND j.sequence = d.sequence)
                    SELECT (SELECT count(*) FROM mine), (SELECT count(*) FROM doomed)
                    """,
                [
                    .uint(session.rawValue), .partition(partition), .uint(below.rawValue),
                    .ints(keeping.map { Int64(bitPattern: $0.rawValue) }), .int(limit),
                ])
            guard reply.count == 1, try reply.int(0, 0) == 1 else { throw .engine(.fenced) }
            return Int(max(0, try reply.int(0, 1) - limit))
        }
    }
}
