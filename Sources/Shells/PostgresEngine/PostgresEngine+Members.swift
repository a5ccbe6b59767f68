import Journal
import Model

// Leases, and the database's report on itself, for ownership.

extension PostgresEngine {
    /// Raises the session's counter and returns it. Throws `fenced` for a dead session. Each renewal reads
    /// the database's settings back; if commits are less durable than asked for, the engine gives up
    /// (rule: durability-is-verified).
    public func renewLease(_ session: SessionID) throws(EngineError) -> UInt64 {
        try renew(session, info: nil)
    }

    public func renewLease(_ session: SessionID, info: [UInt8]) throws(EngineError) {
        guard info.count <= ClusterRules.infoBytesMax else {
            throw .refused("what a lease says of its node has at most \(ClusterRules.infoBytesMax) bytes")
        }
        _ = try renew(session, info: info)
    }

    private func renew(_ session: SessionID, info: [UInt8]?) throws(EngineError) -> UInt64 {
        try ask { connection throws(Fault) in
            let reply = try connection.run(
                """
                UPDATE tidecast.lease SET counter = counter + 1, info = coalesce($2::bytea, info)
                WHERE session = $1::int8 AND EXISTS (
                    SELECT FROM tidecast.session WHERE id = $1 AND alive)
                RETURNING counter, \(PostgresSettings.columns)
                """, [.uint(session.rawValue), info.map { .bytes($0) } ?? .null])
            guard reply.count == 1 else { throw .engine(.fenced) }
            try accept(try PostgresSettings(reply, from: 1))
            let counter = try reply.uint(0, 0)
            if let last = lastRenewal, last.session == session, counter <= last.counter {
                try noteLoss(connection)
                throw distrust(
                    "the database went back: this session's lease was \(last.counter) and is \(counter) after"
                        + " one more renewal; an old copy was restored")
            }
            lastRenewal = (session, counter)
            return counter
        }
    }

    /// The fence waits for a renewal under way: the renewal holds the lease's row, and `FOR SHARE` then sees
    /// the new counter. The fence locks the session's row first, behind appends that hold it, in the same
    /// order as all other statements. If the counter has moved already it takes no lock, so that a node that
    /// is there waits for nothing.
    public func fence(_ session: SessionID, at counter: UInt64) throws(EngineError) -> Bool {
        try ask { connection throws(Fault) in
            let reply = try connection.run(
                """
                WITH held AS MATERIALIZED (
                    SELECT id FROM tidecast.session
                    WHERE id = $1::int8 AND EXISTS (
                        SELECT FROM tidecast.lease WHERE session = $1 AND counter = $2::int8)
                    FOR UPDATE),
                still AS MATERIALIZED (
                    SELECT session FROM tidecast.lease
                    WHERE session = (SELECT id FROM held) AND counter = $2 FOR SHARE)
                UPDATE tidecast.session SET alive = false WHERE id = (SELECT session FROM still) RETURNING id
                """, [.uint(session.rawValue), .uint(counter)])
            return reply.count == 1
        }
    }

    public func past() throws(EngineError) -> EnginePast? {
        let settings = try settings()
        return settings.past(lossSeen: try ask { connection throws(Fault) in try lossSeen(connection) })
    }

    public func wallClock() throws(EngineError) -> WallTime? {
        try ask { connection throws(Fault) in
            let reply = try connection.run("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::int8")
            return WallTime(milliseconds: try reply.int(0, 0))
        }
    }

    public func sessions() throws(EngineError) -> [SessionRow] {
        try ask { connection throws(Fault) in try sessions(connection) }
    }

    func sessions(_ connection: PostgresConnection) throws(Fault) -> [SessionRow] {
        let reply = try connection.run(
            """
            SELECT s.id, s.node, l.counter, l.info
            FROM tidecast.session AS s JOIN tidecast.lease AS l ON l.session = s.id
            WHERE s.alive ORDER BY s.id
            """)
        var rows: [SessionRow] = []
        for index in reply.rows {
            rows.append(
                SessionRow(
                    id: SessionID(try reply.uint(index, 0)), node: try reply.text(index, 1),
                    counter: try reply.uint(index, 2), info: try reply.bytes(index, 3)))
        }
        return rows
    }

    /// Reads the database's settings back; gives up if they are not as asked for.
    public func settings() throws(EngineError) -> PostgresSettings {
        try ask { connection throws(Fault) in
            let settings = try readSettings(connection)
            try accept(settings)
            return settings
        }
    }

    private func accept(_ settings: PostgresSettings) throws(Fault) {
        if let lastSettings, let reason = settings.contradiction(to: lastSettings) { throw distrust(reason) }
        if let reason = settings.weakness(asked: options) { throw distrust(reason) }
        lastSettings = settings
    }
}
