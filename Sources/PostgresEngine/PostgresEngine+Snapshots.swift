import Journal
import Model

// Snapshots lie in the database in chunks. The chunks go in first, under a number that nothing names yet; the
// row that names them is one statement under the living session that owns the partition. Chunks that no row
// names are left by whoever stopped in between, and go with the partition's next snapshot.

extension PostgresEngine {
    static let chunkBytesMax = 8 << 20
    /// Rows that vanish while they are read: a newer snapshot was written meanwhile. Then from the beginning.
    private static let readTriesMax = 4

    /// The session lives and owns the partition, and will until the statement is over.
    private static let owning = """
        WITH living AS MATERIALIZED (
            SELECT id FROM tidecast.session WHERE id = $1::int8 AND alive FOR SHARE),
        mine AS MATERIALIZED (
            SELECT p.id, p.floor FROM tidecast.partition AS p, living
            WHERE p.id = $2::int4 AND p.owner = living.id FOR SHARE OF p)
        """

    public func writeSnapshot(
        session: SessionID, partition: PartitionID, covering: Sequence, bytes: [UInt8]
    ) throws(EngineError) {
        guard bytes.count <= EngineRules.snapshotBytesMax else {
            throw .refused("a snapshot of \(bytes.count) bytes; at most \(EngineRules.snapshotBytesMax)")
        }
        guard covering <= EngineRules.sequenceMax else {
            throw .refused("a snapshot covers durable records only")
        }
        let place = [Parameter.uint(session.rawValue), .partition(partition)]
        let upload = try ask { connection throws(Fault) in
            let reply = try connection.run(
                PostgresEngine.owning + " SELECT nextval('tidecast.upload') FROM mine", place)
            guard reply.count == 1 else { throw .engine(.fenced) }
            return try reply.int(0, 0)
        }
        var chunks: Int64 = 0
        for start in stride(from: 0, to: bytes.count, by: PostgresEngine.chunkBytesMax) {
            let chunk = bytes[start..<min(bytes.count, start + PostgresEngine.chunkBytesMax)]
            try write(chunk, [.int(upload), .int(chunks)], place)
            chunks += 1
        }
        let sum = PostgresEngine.checksum(of: bytes, partition: partition, covering: covering)
        try name(
            place + [
                .uint(covering.rawValue), .int(upload), .int(chunks), .int(Int64(bytes.count)), .uint(sum),
            ])
        // What is left over costs room only, and the next snapshot tries again.
        _ = try? ask { connection throws(Fault) in
            try connection.run(
                PostgresEngine.owning + """
                     DELETE FROM tidecast.chunk AS c USING mine WHERE c.partition = mine.id
                    AND NOT EXISTS (
                        SELECT FROM tidecast.snapshot AS s
                        WHERE s.partition = c.partition AND s.upload = c.upload)
                    """, place)
        }
    }

    private func write(
        _ chunk: ArraySlice<UInt8>, _ number: [Parameter], _ place: [Parameter]
    ) throws(EngineError) {
        try ask { connection throws(Fault) in
            let reply = try connection.run(
                PostgresEngine.owning + """
                     INSERT INTO tidecast.chunk (partition, upload, number, bytes)
                    SELECT mine.id, $3::int8, $4::int8::int4, $5::bytea FROM mine
                    ON CONFLICT (partition, upload, number) DO UPDATE SET bytes = excluded.bytes
                    RETURNING number
                    """, place + number + [.bytes(chunk)])
            guard reply.count == 1 else { throw .engine(.fenced) }
        }
    }

    /// Names the snapshot and drops those that are now too many. The new one counts among the newest where it
    /// is one, and is never dropped.
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

    /// Seeded with what says which snapshot it is, so that none can stand in another's place.
    private static func checksum(of bytes: [UInt8], partition: PartitionID, covering: Sequence) -> UInt64 {
        var header = ByteWriter(capacity: 18)
        header.u16(partition.rawValue)
        header.u64(covering.rawValue)
        header.u64(UInt64(bytes.count))
        return Checksum.of(bytes, seed: Checksum.of(header.bytes))
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

    /// `nil` where the snapshot was replaced meanwhile.
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
        }
        if bytes.count == head.length,
            PostgresEngine.checksum(of: bytes, partition: partition, covering: covering) == head.checksum
        {
            return bytes
        }
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
