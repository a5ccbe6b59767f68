import Journal
import Model

// Sessions and partitions: which session may write (rule: sessions-never-return).

extension PostgresEngine {
    /// If two processes begin a session of one node simultaneously, the second one collides and tries again.
    /// A try fails only if another process wins the race, so the number of tries bounds the number of
    /// competing processes.
    private static let beginTriesMax = 64
    /// A batch's id holds 24 bits of its session's id.
    private static let sessionMax: UInt64 = 1 << 24

    public func beginSession(node: String) throws(EngineError) -> SessionID {
        try PostgresEngine.check(key: node, value: [])
        guard options.share.isHome else { throw .refused("sessions begin in the cluster's home database") }
        _ = try settings()
        for _ in 0..<PostgresEngine.beginTriesMax {
            let id = try ask { connection throws(Fault) -> UInt64? in
                do throws(Fault) {
                    return try PostgresEngine.insertSession(node, connection)
                } catch {
                    guard case .rejected(State.uniqueViolation, _) = error else { throw error }
                    return nil
                }
            }
            guard let id else { continue }
            guard id > 0, id < PostgresEngine.sessionMax else {
                throw .refused("the database has no numbers left for sessions")
            }
            return SessionID(id)
        }
        throw .refused("other processes keep starting as node \(node): give each process a --node of its own")
    }

    /// Fences the node's earlier sessions and creates the new one in one statement. The statement also
    /// deletes the leases of sessions that were dead already, so that the table of leases stays small.
    private static func insertSession(_ node: String, _ connection: PostgresConnection) throws(Fault)
        -> UInt64?
    {
        let reply = try connection.run(
            """
            WITH fenced AS (
                UPDATE tidecast.session SET alive = false WHERE node = $1::text AND alive RETURNING id),
            removed AS (
                DELETE FROM tidecast.lease l USING tidecast.session s
                WHERE s.id = l.session AND s.node = $1 AND NOT s.alive),
            born AS (
                INSERT INTO tidecast.session (node, alive)
                SELECT $1, true FROM (SELECT count(*) FROM fenced) AS done RETURNING id)
            INSERT INTO tidecast.lease (session, counter, info) SELECT id, 0, '' FROM born RETURNING session
            """, [.text(node)])
        return reply.count == 1 ? try reply.uint(0, 0) : nil
    }

    /// The statement writes also if the session is dead already. So the answer means that the session is
    /// dead for good, whatever fails over.
    public func fence(_ session: SessionID) throws(EngineError) {
        guard options.share.isHome else { return try markDead(session) }
        _ = try ask { connection throws(Fault) in
            try connection.run(
                "UPDATE tidecast.session SET alive = false WHERE id = $1::int8", [.uint(session.rawValue)])
        }
    }

    public func isAlive(_ session: SessionID) throws(EngineError) -> Bool {
        try ask { connection throws(Fault) in
            let reply = try connection.run(
                "SELECT id FROM tidecast.session WHERE id = $1::int8 AND alive FOR SHARE",
                [.uint(session.rawValue)])
            return reply.count == 1
        }
    }

    public func createPartitions(count: Int, histories: [History]) throws(EngineError) {
        try ask { connection throws(Fault) in
            if try hasPartitions(count, histories, connection: connection) { return }
            // One statement: of two concurrent processes, the one that makes the first row makes all rows.
            _ = try connection.run(
                """
                WITH wanted AS MATERIALIZED (
                    SELECT (number - 1)::int4 AS id, history
                    FROM unnest($1::int8[]) WITH ORDINALITY AS h (history, number)
                    WHERE (number - 1) % $2::int8 = $3::int8),
                first AS (
                    INSERT INTO tidecast.partition (id, history, owner, epoch, floor)
                    SELECT id, history, NULL, 0, 1 FROM wanted ORDER BY id LIMIT 1
                    ON CONFLICT DO NOTHING RETURNING id)
                INSERT INTO tidecast.partition (id, history, owner, epoch, floor)
                SELECT wanted.id, wanted.history, NULL, 0, 1 FROM first, wanted WHERE wanted.id > first.id
                """,
                [
                    .ints(histories.map { Int64(bitPattern: $0.rawValue) }),
                    .int(Int64(options.share.count)), .int(Int64(options.share.number)),
                ])
            guard try hasPartitions(count, histories, connection: connection) else {
                throw .engine(.refused("the partitions were not made: try again"))
            }
        }
    }

    private func hasPartitions(
        _ count: Int, _ histories: [History], connection: PostgresConnection
    ) throws(Fault) -> Bool {
        let rows = Int(try connection.run("SELECT count(*) FROM tidecast.partition").int(0, 0))
        let share = options.share
        do throws(EngineError) {
            let existing = rows == share.size(of: count) && rows > 0 ? count : rows * share.count
            try EngineRules.check(count: count, histories: histories, existing: existing)
            guard share.size(of: count) > 0 else {
                throw .refused("\(count) partitions cannot be spread over \(share.count) databases")
            }
        } catch {
            throw .engine(error)
        }
        return rows > 0
    }

    public func partitions() throws(EngineError) -> [PartitionRow] {
        let share = options.share
        return try ask { connection throws(Fault) in
            let reply = try connection.run(
                "SELECT id, history, owner, epoch, floor FROM tidecast.partition ORDER BY id")
            var rows: [PartitionRow] = []
            for index in reply.rows {
                let id = share.partition(at: index)
                guard try reply.int(index, 0) == id, id < PartitionID.countMax else {
                    throw .engine(.corrupt("the row of partition \(id) is missing"))
                }
                rows.append(
                    PartitionRow(
                        id: PartitionID(UInt16(id)), history: History(try reply.uint(index, 1)),
                        owner: reply.isNull(index, 2) ? nil : SessionID(try reply.uint(index, 2)),
                        epoch: Epoch(try reply.uint(index, 3)), floor: Sequence(try reply.uint(index, 4))))
            }
            return rows
        }
    }
}
