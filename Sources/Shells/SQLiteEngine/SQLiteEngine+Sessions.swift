import Bytes
import Journal
import Model

// Sessions and partitions: which session may write.

extension SQLiteEngine {
    public func beginSession(node: String) throws(EngineError) -> SessionID {
        try EngineRules.check(key: node, value: [])
        try verifyDurability()
        return try database.transaction { () throws(EngineError) in
            try database.statement("UPDATE session SET alive = 0 WHERE node = ?1 AND alive = 1").bind(1, node)
                .run()
            let insert = try database.statement(
                "INSERT INTO session (node, alive) VALUES (?1, 1) RETURNING id")
            insert.bind(1, node)
            defer { insert.reset() }
            guard try insert.step() else { throw .refused("no session was made") }
            let id = insert.uint(0)
            while try insert.step() {}
            return SessionID(id)
        }
    }

    public func fence(_ session: SessionID) throws(EngineError) {
        try database.transaction { () throws(EngineError) in
            try database.statement("UPDATE session SET alive = 0 WHERE id = ?1").bind(1, session.rawValue)
                .run()
        }
    }

    public func isAlive(_ session: SessionID) throws(EngineError) -> Bool {
        let statement = try database.statement("SELECT alive FROM session WHERE id = ?1")
        statement.bind(1, session.rawValue)
        defer { statement.reset() }
        return try statement.step() && statement.int(0) == 1
    }

    public func createPartitions(count: Int, histories: [History]) throws(EngineError) {
        try database.transaction { () throws(EngineError) in
            let existing = Int(try database.number("SELECT count(*) FROM partition"))
            try EngineRules.check(count: count, histories: histories, existing: existing)
            guard existing == 0 else { return }
            for (index, history) in histories.enumerated() {
                try store(
                    PartitionRow(
                        id: PartitionID(UInt16(index)), history: history, owner: nil, epoch: Epoch(0),
                        floor: Sequence(1)))
            }
        }
    }

    public func partitions() throws(EngineError) -> [PartitionRow] {
        let statement = try database.statement(
            "SELECT id, history, owner, epoch, floor, checksum FROM partition ORDER BY id")
        defer { statement.reset() }
        var rows: [PartitionRow] = []
        while try statement.step() { rows.append(try partitionRow(statement)) }
        for (index, row) in rows.enumerated() where Int(row.id.rawValue) != index {
            throw .corrupt("the row of partition \(index) is missing")
        }
        return rows
    }

    func partitionRow(_ id: PartitionID) throws(EngineError) -> PartitionRow {
        let statement = try database.statement(
            "SELECT id, history, owner, epoch, floor, checksum FROM partition WHERE id = ?1")
        statement.bind(1, UInt64(id.rawValue))
        defer { statement.reset() }
        guard try statement.step() else { throw .refused("no partition \(id.rawValue)") }
        return try partitionRow(statement)
    }

    private func partitionRow(_ statement: Statement) throws(EngineError) -> PartitionRow {
        let id = statement.uint(0)
        guard id < UInt64(PartitionID.countMax) else { throw .corrupt("there is a partition \(id)") }
        let row = PartitionRow(
            id: PartitionID(UInt16(id)), history: History(statement.uint(1)),
            owner: statement.isNull(2) ? nil : SessionID(statement.uint(2)), epoch: Epoch(statement.uint(3)),
            floor: Sequence(statement.uint(4)))
        guard statement.uint(5) == SQLiteEngine.checksum(of: row) else {
            throw .corrupt("the row of partition \(id) is damaged")
        }
        return row
    }

    /// Inserts or replaces the row; inside a transaction only.
    func store(_ row: PartitionRow) throws(EngineError) {
        owners[row.id] = nil
        try database.statement("INSERT OR REPLACE INTO partition VALUES (?1, ?2, ?3, ?4, ?5, ?6)")
            .bind(1, UInt64(row.id.rawValue)).bind(2, row.history.rawValue).bind(3, row.owner?.rawValue)
            .bind(4, row.epoch.rawValue).bind(5, row.floor.rawValue).bind(6, SQLiteEngine.checksum(of: row))
            .run()
    }

    private static func checksum(of row: PartitionRow) -> UInt64 {
        var writer = ByteWriter(capacity: 40)
        writer.u16(row.id.rawValue)
        writer.u64(row.history.rawValue)
        writer.u8(row.owner == nil ? 0 : 1)
        writer.u64(row.owner?.rawValue ?? 0)
        writer.u64(row.epoch.rawValue)
        writer.u64(row.floor.rawValue)
        return Checksum.of(writer.bytes)
    }

    public func takeOver(
        _ partition: PartitionID, from former: PartitionRow, by session: SessionID, barrier: Row
    ) throws(EngineError) -> Epoch? {
        try SQLiteEngine.check(barrier.sequence)
        return try database.transaction { () throws(EngineError) in
            guard try isAlive(session) else { throw .fenced }
            if let owner = former.owner, owner != session, try isAlive(owner) {
                throw .refused("session \(owner.rawValue) lives and owns partition \(partition.rawValue)")
            }
            var row = try partitionRow(partition)
            guard row.owner == former.owner, row.epoch == former.epoch, barrier.partition == partition,
                barrier.sequence == (try lastSequence(partition, floor: row.floor)).next
            else { return nil }
            row.owner = session
            row.epoch = Epoch(row.epoch.rawValue + 1)
            try store(row)
            guard try insert(barrier, batch: Appender.barrierBatch(of: session)) else {
                throw .corrupt("a record stands behind the last one of partition \(partition.rawValue)")
            }
            return row.epoch
        }
    }

    /// The partition's row, if the session lives and owns the partition; inside a transaction only.
    func owned(_ partition: PartitionID, by session: SessionID) throws(EngineError) -> PartitionRow {
        guard try isAlive(session) else { throw .fenced }
        let row = try partitionRow(partition)
        guard row.owner == session else { throw .fenced }
        return row
    }
}
