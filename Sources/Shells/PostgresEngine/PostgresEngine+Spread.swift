import Journal
import Model

// One of several databases of a cluster, and not the home: its sessions begin in the home.
//
// A session's row here grants what it grants in the home: to write in the partitions that live here. The row
// is created after the session began in the home, and marked dead after the session is dead in the home. In
// between a session may live here alone. It keeps its partitions until it is marked dead here as well, and a
// node that takes a partition of this database must do that first.

extension PostgresEngine {
    public func register(_ session: SessionID, node: String) throws(EngineError) {
        guard !options.share.isHome else { throw .refused("in the home a session begins, and is known") }
        try PostgresEngine.check(key: node, value: [])
        if let holder = try holder(of: session) {
            guard holder == node else {
                throw .refused(
                    "session \(session.rawValue) is of node \(holder) here: the cluster's home database went"
                        + " back; start this node again, it then begins a session that is nobody's")
            }
            return
        }
        let parameters = [Parameter.uint(session.rawValue), .text(node)]
        _ = try ask { connection throws(Fault) in
            try connection.run(
                """
                WITH fenced AS (
                    UPDATE tidecast.session SET alive = false
                    WHERE node = $2::text AND alive AND id < $1::int8 RETURNING id)
                DELETE FROM tidecast.lease AS l USING tidecast.session AS s
                WHERE s.id = l.session AND s.node = $2 AND s.id < $1
                """, parameters)
        }
        // A session that was fenced before it was known here stays dead, and so does a session that a later
        // process of its node has superseded.
        _ = try ask { connection throws(Fault) in
            try connection.run(
                """
                WITH born AS (
                    INSERT INTO tidecast.session (id, node, alive) OVERRIDING SYSTEM VALUE
                    VALUES ($1::int8, $2::text, true) ON CONFLICT DO NOTHING RETURNING id)
                INSERT INTO tidecast.lease (session, counter, info) SELECT id, 0, '' FROM born
                ON CONFLICT DO NOTHING
                """, parameters)
        }
        guard try isAlive(session) else { throw .fenced }
    }

    /// The node of a session that lives here.
    private func holder(of session: SessionID) throws(EngineError) -> String? {
        try ask { connection throws(Fault) in
            let reply = try connection.run(
                "SELECT node FROM tidecast.session WHERE id = $1::int8 AND alive", [.uint(session.rawValue)])
            return reply.count == 1 ? try reply.text(0, 0) : nil
        }
    }

    /// The highest session that this database ever knew; 0 for none.
    public func lastSession() throws(EngineError) -> SessionID {
        try ask { connection throws(Fault) in
            let reply = try connection.run("SELECT coalesce(max(id), 0) FROM tidecast.session")
            return SessionID(try reply.uint(0, 0))
        }
    }

    public func skipSessions(through last: SessionID) throws(EngineError) {
        guard options.share.isHome else { throw .refused("sessions begin in the cluster's home database") }
        guard last.rawValue > 0 else { return }
        _ = try ask { connection throws(Fault) in
            // Of two nodes that do this concurrently, the later one must not set the sequence back.
            try connection.run(
                """
                SELECT setval(pg_get_serial_sequence('tidecast.session', 'id'), $1::int8)
                FROM tidecast.session_id_seq WHERE last_value < $1
                """, [.uint(last.rawValue)])
        }
    }

    /// Marks a session dead, also one that this database never knew.
    func markDead(_ session: SessionID) throws(EngineError) {
        _ = try ask { connection throws(Fault) in
            try connection.run(
                """
                INSERT INTO tidecast.session (id, node, alive) OVERRIDING SYSTEM VALUE
                VALUES ($1::int8, '', false) ON CONFLICT (id) DO UPDATE SET alive = false
                """, [.uint(session.rawValue)])
        }
    }

    /// Whether this is the database that the configuration means.
    func checkIdentity(_ connection: PostgresConnection) throws(Fault) {
        guard let identity = options.identity else { return }
        var found: DatabaseIdentity?
        if let value = try get(.setting, DatabaseIdentity.key, connection: connection) {
            do throws(EngineError) {
                found = try DatabaseIdentity(decoding: value)
            } catch {
                throw .engine(error)
            }
        }
        if let mistake = identity.mistake(in: found) { throw .engine(.refused(mistake)) }
    }
}
