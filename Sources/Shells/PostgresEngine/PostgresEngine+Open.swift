import Journal

// Making a connection: how it works, which server answers, and which tables are there.

extension PostgresEngine {
    /// Values in the connection string override these. A peer that vanishes silently is noticed after about
    /// 10 s.
    private static let defaults = [
        ("target_session_attrs", "read-write"), ("connect_timeout", "3"), ("application_name", "tidecast"),
        ("keepalives", "1"), ("keepalives_idle", "4"), ("keepalives_interval", "2"),
        ("keepalives_count", "3"), ("tcp_user_timeout", "10000"),
    ]

    /// The engine leaves no transaction open while it thinks. The server ends one that idles for this long.
    private static let idleTransactionSeconds = 5

    func open() throws(Fault) -> PostgresConnection {
        let connection = try PostgresConnection(
            conninfo, defaults: PostgresEngine.defaults, silenceMax: options.silenceMilliseconds)
        guard connection.serverVersion >= PostgresEngine.serverVersionMin else {
            throw .engine(
                .refused(
                    "the database server is PostgreSQL \(connection.serverVersion / 10_000), and tidecast"
                        + " needs \(PostgresEngine.serverVersionMin / 10_000) or newer: upgrade the server"))
        }
        try configure(connection)
        let settings = try readSettings(connection)
        if let lastSettings, let reason = settings.contradiction(to: lastSettings) { throw distrust(reason) }
        if lastSettings == nil, let known = options.knownPast,
            settings.past(lossSeen: known.lossSeen).mayLack(known)
        {
            throw distrust(
                "the database failed over, was restored or was replaced: its last records may be lost, so the"
                    + " node reads everything again")
        }
        if let reason = settings.weakness(asked: options) {
            // Before the first acknowledgement this is the operator's mistake, later it is a broken promise.
            if lastSettings == nil { throw .engine(.refused(reason)) }
            throw distrust(reason)
        }
        try migrate(connection)
        try checkIdentity(connection)
        try checkClaim(connection, settings)
        try checkEnds(connection)
        try checkLoss(connection)
        lastSettings = settings
        return connection
    }

    /// These settings hold whatever the role's or the database's own settings are. There is no statement
    /// timeout: a commit that is cancelled while it waits for a standby is visible and not replicated. Every
    /// statement finds its rows by an index, also before the database has statistics of a young table.
    private func configure(_ connection: PostgresConnection) throws(Fault) {
        var settings = [
            "lock_timeout = \(max(1, options.lockMilliseconds))",
            "idle_in_transaction_session_timeout = '\(PostgresEngine.idleTransactionSeconds)s'",
            "statement_timeout = 0", "synchronous_commit = \(options.synchronousCommit.rawValue)",
            "default_transaction_isolation = 'read committed'", "search_path = pg_catalog",
            "client_min_messages = warning", "jit = off", "enable_seqscan = off", "enable_bitmapscan = off",
        ]
        if connection.serverVersion >= 140_000 { settings.append("idle_session_timeout = 0") }
        if connection.serverVersion >= 170_000 { settings.append("transaction_timeout = 0") }
        try connection.execute(settings.map { "SET \($0);" }.joined(separator: " "))
    }

    func readSettings(_ connection: PostgresConnection) throws(Fault) -> PostgresSettings {
        let reply = try connection.run("SELECT \(PostgresSettings.columns)")
        guard reply.count == 1 else { throw .engine(.corrupt("the database did not send its settings")) }
        return try PostgresSettings(reply, from: 0)
    }

    // MARK: Tables

    private func migrate(_ connection: PostgresConnection) throws(Fault) {
        if try version(connection) == Schema.version { return }
        let encoding = try connection.run("SELECT current_setting('server_encoding')").text(0, 0)
        guard encoding == "UTF8" else {
            throw .engine(
                .refused("the database's encoding is \(encoding): make one with ENCODING 'UTF8'"))
        }
        // The server carries one message out as one transaction, which waits for nothing of this process,
        // however long this process sleeps. Another node may migrate at the same time: the second one fails
        // at the tables that are there by then, and finds the migration done.
        let former = try version(connection)
        let message =
            [
                "SET LOCAL lock_timeout = '\(Schema.lockSeconds)s'",
                "SELECT pg_advisory_xact_lock(\(Schema.lock))",
            ] + (former > 0 ? ["SELECT 1 / count(*) FROM tidecast.schema WHERE version = \(former)"] : [])
            + Schema.steps[former...] + ["UPDATE tidecast.schema SET version = \(Schema.version)"]
        do throws(Fault) {
            try connection.execute(message.joined(separator: ";\n"))
        } catch {
            guard case .rejected = error, try version(connection) == Schema.version else { throw error }
        }
    }

    /// 0 if there are no tables yet. The catalog's tables answer: functions like `to_regclass` answer from
    /// a cache, which a wait for an advisory lock does not refresh.
    private func version(_ connection: PostgresConnection) throws(Fault) -> Int {
        let found = try connection.run(
            """
            SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'tidecast'), EXISTS (
                SELECT FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
                WHERE n.nspname = 'tidecast' AND c.relname = 'schema')
            """)
        guard try found.bool(0, 0) else { return 0 }
        guard try found.bool(0, 1) else {
            throw .engine(
                .refused(
                    "the database's schema tidecast is another program's: give tidecast a database of"
                        + " its own"
                ))
        }
        let reply = try connection.run("SELECT version FROM tidecast.schema")
        guard reply.count == 1 else { throw .engine(.corrupt("the database has no version of its tables")) }
        let version = try reply.int(0, 0)
        guard (0...Int64(Schema.version)).contains(version) else {
            throw .engine(
                .refused(
                    "the database was written by a newer tidecast: its tables have version \(version), and"
                        + " this one knows \(Schema.version); start a tidecast at least as new as the one"
                        + " that wrote it, or restore a backup from before"))
        }
        return Int(version)
    }
}
