import Journal
import Model

// Snapshots, the floor and trimming: each only under a living session that owns the partition (design 5.1).

extension PostgresEngine {
    /// Bytes of a snapshot in one row.
    static let partBytes = 4 << 20

    /// Holds the session's row and finds it the owner, until the transaction ends.
    private func own(_ partition: PartitionID, _ session: SessionID) throws(EngineError) {
        let found = try query(
            """
            SELECT 1 FROM session JOIN partition ON partition.owner = session.id
            WHERE session.id = $1 AND alive AND partition.id = $2 FOR SHARE OF session
            """, [.int8(session.rawValue), .int4(Int(partition.rawValue))])
        guard found.count > 0 else { throw .fenced }
    }

    public func writeSnapshot(
        session: SessionID, partition: PartitionID, covering: Sequence, bytes: [UInt8]
    ) throws(EngineError) {
        try works()
        guard bytes.count <= EngineRules.snapshotBytesMax else { throw .refused("the snapshot is too large") }
        let place: [Parameter] = [.int4(Int(partition.rawValue)), .int8(covering.rawValue)]
        try database.transaction { () throws(EngineError) in
            try self.own(partition, session)
            guard covering <= (try self.lastSequence(partition)) else {
                throw .refused("a snapshot covers durable records only")
            }
            for table in ["snapshot", "snapshot_part"] {
                _ = try self.query("DELETE FROM \(table) WHERE partition = $1 AND covering = $2", place)
            }
            _ = try self.query(
                "INSERT INTO snapshot VALUES ($1, $2, $3, $4)",
                place + [.int8(UInt64(bytes.count)), .int8(Checksum.of(bytes))])
            var number = 0
            for start in stride(from: 0, to: bytes.count, by: PostgresEngine.partBytes) {
                let part = Array(bytes[start..<min(start + PostgresEngine.partBytes, bytes.count)])
                _ = try self.query(
                    "INSERT INTO snapshot_part VALUES ($1, $2, $3, $4)",
                    place + [.int4(number), .bytea(part)])
                number += 1
            }
            for table in ["snapshot_part", "snapshot"] {
                _ = try self.query(
                    """
                    DELETE FROM \(table) WHERE partition = $1 AND covering NOT IN (
                        SELECT covering FROM snapshot WHERE partition = $1 ORDER BY covering DESC LIMIT $2)
                    """, [.int4(Int(partition.rawValue)), .int8(UInt64(EngineRules.snapshotsKept))])
            }
        }
    }

    public func snapshots(_ partition: PartitionID) throws(EngineError) -> [SnapshotRow] {
        let rows = try query(
            "SELECT covering FROM snapshot WHERE partition = $1 ORDER BY covering DESC",
            [.int4(Int(partition.rawValue))])
        return (0..<rows.count).map {
            let covering = rows.number($0, 0)
            return SnapshotRow(covering: Sequence(covering), name: "\(partition.rawValue)-\(covering)")
        }
    }

    public func readSnapshot(_ partition: PartitionID, covering: Sequence) throws(EngineError) -> [UInt8] {
        try works()
        let place: [Parameter] = [.int4(Int(partition.rawValue)), .int8(covering.rawValue)]
        let head = try query(
            "SELECT length, checksum FROM snapshot WHERE partition = $1 AND covering = $2", place)
        guard head.count == 1 else {
            throw .refused("partition \(partition.rawValue) has no snapshot up to \(covering.rawValue)")
        }
        let length = Int(clamping: head.number(0, 0))
        var bytes: [UInt8] = []
        bytes.reserveCapacity(min(length, EngineRules.snapshotBytesMax))
        var number = 0
        while bytes.count < length {
            let part = try query(
                "SELECT bytes FROM snapshot_part WHERE partition = $1 AND covering = $2 AND number = $3",
                place + [.int4(number)])
            guard part.count == 1 else { break }
            bytes += part.bytes(0, 0)
            number += 1
        }
        guard bytes.count == length, Checksum.of(bytes) == head.number(0, 1) else {
            throw .corrupt("the snapshot of partition \(partition.rawValue) up to \(covering.rawValue)")
        }
        return bytes
    }

    public func trim(
        session: SessionID, partition: PartitionID, below: Sequence, keeping: [Sequence], limit: Int
    ) throws(EngineError) -> Int {
        try works()
        return try database.transaction { () throws(EngineError) in
            try self.own(partition, session)
            let kept = try self.snapshots(partition)
            guard kept.count >= EngineRules.snapshotsKept, let oldest = kept.last else { return 0 }
            let bound = min(below, oldest.covering.next)
            let place: [Parameter] = [.int4(Int(partition.rawValue)), .int8(bound.rawValue)]
            _ = try self.query(
                "UPDATE partition SET floor = $2 WHERE id = $1 AND floor < $2", place)
            let doomed = place + [.int8s(keeping.map(\.rawValue))]
            let gone = try self.query(
                """
                DELETE FROM journal WHERE partition = $1 AND sequence = ANY(ARRAY(
                    SELECT sequence FROM journal
                    WHERE partition = $1 AND sequence < $2 AND NOT sequence = ANY($3::int8[])
                    ORDER BY sequence LIMIT $4))
                """, doomed + [.int8(UInt64(limit))])
            guard gone.changed == limit else { return 0 }
            let left = try self.query(
                """
                SELECT count(*) FROM (SELECT 1 FROM journal
                    WHERE partition = $1 AND sequence < $2 AND NOT sequence = ANY($3::int8[])
                    LIMIT $4) AS rest
                """, doomed + [.int8(UInt64(limit))])
            return Int(left.number(0, 0))
        }
    }

    // MARK: Catalog

    public func put(_ table: CatalogTable, key: String, value: [UInt8]) throws(EngineError) {
        try EngineRules.check(key: key, value: value)
        _ = try query(
            """
            INSERT INTO catalog VALUES ($1, $2, $3)
            ON CONFLICT (kind, key) DO UPDATE SET value = EXCLUDED.value
            """,
            [.text(table.rawValue), .text(key), .bytea(value)])
    }

    public func get(_ table: CatalogTable, key: String) throws(EngineError) -> [UInt8]? {
        let rows = try query(
            "SELECT value FROM catalog WHERE kind = $1 AND key = $2", [.text(table.rawValue), .text(key)])
        return rows.count > 0 ? rows.bytes(0, 0) : nil
    }

    public func remove(_ table: CatalogTable, key: String) throws(EngineError) {
        _ = try query(
            "DELETE FROM catalog WHERE kind = $1 AND key = $2", [.text(table.rawValue), .text(key)])
    }

    public func all(_ table: CatalogTable) throws(EngineError) -> [CatalogEntry] {
        let rows = try query(
            "SELECT key, value FROM catalog WHERE kind = $1 ORDER BY key", [.text(table.rawValue)])
        return (0..<rows.count).map { CatalogEntry(key: rows.text($0, 0), value: rows.bytes($0, 1)) }
    }
}
