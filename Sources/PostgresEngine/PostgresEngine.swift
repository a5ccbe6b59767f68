import CPQ
import Glibc
import Journal
import Model

/// Journals in a PostgreSQL database, or in what speaks its protocol: the engine of a cluster.
///
/// An append is one statement: it takes a shared lock on the session's row if that session is alive, and
/// inserts the rows of all waiting partitions at sequences that nobody has taken (design 3.5). Fencing is one
/// row, and waits for the append in flight. No row is updated by an append, so an idle transaction elsewhere
/// costs nothing.
///
/// A connection that breaks is no failure: an append is then `unknown`, anything else refused, and the next
/// call connects again. The engine gives up for good only where the database cannot be trusted.
public final class PostgresEngine: ClusterEngine {
    public struct Options: Sendable {
        /// Acknowledge although the server does not sync its log, or is told not to wait for it. For tests.
        public var allowsVolatile = false
        public init() {}
    }

    public static let schemaVersion = 1
    /// The oldest server that is known to do all that is asked of it.
    public static let serverVersionMin = 130_000

    public private(set) var failure: String?
    let database: Connection
    private let options: Options

    /// Connects, and makes or migrates the schema. `conninfo`: a URI or keywords, as libpq reads them.
    public init(_ conninfo: String, options: Options = Options()) throws(EngineError) {
        self.options = options
        database = Connection(conninfo)
        let allowsVolatile = options.allowsVolatile
        database.onConnected = { (connection: Connection) throws(StatementFailure) in
            try PostgresEngine.check(connection, allowsVolatile)
        }
        try migrate()
    }

    /// What acknowledgements rest on is looked at on each new connection (design 5.11).
    private static func check(_ database: Connection, _ allowsVolatile: Bool) throws(StatementFailure) {
        guard database.serverVersion >= serverVersionMin else {
            throw .refused(
                state: "version",
                message: "the database is PostgreSQL \(database.serverVersion / 10_000); at least"
                    + " \(serverVersionMin / 10_000) is needed")
        }
        guard !allowsVolatile else { return }
        let settings = try database.run(
            "SELECT name, setting FROM pg_settings WHERE name IN ('fsync', 'synchronous_commit', 'full_page_writes')"
        )
        for row in 0..<settings.count {
            let (name, value) = (settings.text(row, 0), settings.text(row, 1))
            guard value == "off" || (name == "synchronous_commit" && value == "local") else { continue }
            throw .refused(
                state: "durability",
                message:
                    "the database has \(name) = \(value): what it acknowledges could be lost; set it to on")
        }
    }

    func works() throws(EngineError) {
        if let failure { throw .ioFailure(failure) }
    }

    /// A question outside of a transaction is asked again when the connection broke: it may have been long
    /// gone, and nobody had noticed.
    func query(_ sql: String, _ parameters: [Parameter] = []) throws(EngineError) -> Rows {
        try works()
        let mayRepeat = sql.hasPrefix("SELECT") && !database.isInTransaction
        return try database.wrap { () throws(StatementFailure) -> Rows in
            do throws(StatementFailure) {
                return try self.database.run(sql, parameters)
            } catch {
                guard mayRepeat, case .broken = error else { throw error }
                return try self.database.run(sql, parameters)
            }
        }
    }

    // MARK: Schema

    private func migrate() throws(EngineError) {
        try database.wrap { () throws(StatementFailure) in
            try self.database.execute("SELECT pg_advisory_lock(7595718147998050661)")
        }
        defer { _ = try? database.run("SELECT pg_advisory_unlock(7595718147998050661)") }
        try database.wrap { () throws(StatementFailure) in
            try self.database.execute(Schema.base)
        }
        let found = try query("SELECT value FROM meta WHERE key = 'schema'")
        guard found.count > 0 else {
            try database.transaction { () throws(EngineError) in
                try self.database.wrap { () throws(StatementFailure) in
                    try self.database.execute(Schema.first)
                }
                _ = try self.query(
                    "INSERT INTO meta VALUES ('schema', $1)", [.text("\(PostgresEngine.schemaVersion)")])
            }
            return
        }
        guard let version = Int(found.text(0, 0)), version <= PostgresEngine.schemaVersion else {
            throw .refused(
                "the database's schema is \(found.text(0, 0)), written by a newer tidecast; this one knows"
                    + " \(PostgresEngine.schemaVersion)")
        }
    }

    // MARK: Sessions

    public func beginSession(node: String) throws(EngineError) -> SessionID {
        try works()
        guard node.utf8.count <= EngineRules.keyBytesMax else {
            throw .refused("the node's name is too long")
        }
        return try database.transaction { () throws(EngineError) in
            // Two incarnations that begin at once wait for each other here.
            _ = try self.query("SELECT pg_advisory_xact_lock(hashtextextended($1, 1))", [.text(node)])
            _ = try self.query("UPDATE session SET alive = false WHERE node = $1 AND alive", [.text(node)])
            let made = try self.query(
                "INSERT INTO session (node, alive) VALUES ($1, true) RETURNING id", [.text(node)])
            let id = made.number(0, 0)
            _ = try self.query("INSERT INTO lease VALUES ($1, 0, '')", [.int8(id)])
            return SessionID(id)
        }
    }

    public func fence(_ session: SessionID) throws(EngineError) {
        _ = try query("UPDATE session SET alive = false WHERE id = $1 AND alive", [.int8(session.rawValue)])
    }

    public func isAlive(_ session: SessionID) throws(EngineError) -> Bool {
        try query("SELECT 1 FROM session WHERE id = $1 AND alive", [.int8(session.rawValue)]).count > 0
    }

    public func renewLease(_ session: SessionID, info: [UInt8]) throws(EngineError) {
        guard info.count <= ClusterRules.infoBytesMax else {
            throw .refused("a node says too much of itself")
        }
        let moved = try query(
            """
            UPDATE lease SET counter = counter + 1, info = $2
            WHERE session = $1 AND EXISTS (SELECT 1 FROM session WHERE id = $1 AND alive)
            """, [.int8(session.rawValue), .bytea(info)])
        guard moved.changed == 1 else { throw .fenced }
    }

    public func sessions() throws(EngineError) -> [SessionRow] {
        let rows = try query(
            """
            SELECT id, node, counter, info FROM session JOIN lease ON lease.session = session.id
            WHERE alive ORDER BY id
            """)
        return (0..<rows.count).map {
            SessionRow(
                id: SessionID(rows.number($0, 0)), node: rows.text($0, 1), counter: rows.number($0, 2),
                info: rows.bytes($0, 3))
        }
    }

    public func exclusively<Result>(_ body: () throws -> Result) throws -> Result {
        _ = try query("SELECT pg_advisory_lock(7595718147998050662)")
        defer { _ = try? database.run("SELECT pg_advisory_unlock(7595718147998050662)") }
        return try body()
    }

    // MARK: Partitions

    public func createPartitions(count: Int, histories: [History]) throws(EngineError) {
        try works()
        try database.transaction { () throws(EngineError) in
            _ = try self.query("LOCK TABLE partition IN EXCLUSIVE MODE")
            let existing = Int(try self.query("SELECT count(*) FROM partition").number(0, 0))
            try EngineRules.check(count: count, histories: histories, existing: existing)
            guard existing == 0 else { return }
            _ = try self.query(
                """
                INSERT INTO partition (id, history, owner, epoch, floor)
                SELECT ordinality - 1, history, NULL, 0, 1
                FROM unnest($1::int8[]) WITH ORDINALITY AS r(history, ordinality)
                """, [.int8s(histories.map(\.rawValue))])
        }
    }

    public func partitions() throws(EngineError) -> [PartitionRow] {
        let rows = try query("SELECT id, history, owner, epoch, floor FROM partition ORDER BY id")
        return (0..<rows.count).map {
            PartitionRow(
                id: PartitionID(UInt16(truncatingIfNeeded: rows.number($0, 0))),
                history: History(rows.number($0, 1)),
                owner: rows.optional($0, 2).map { SessionID($0) }, epoch: Epoch(rows.number($0, 3)),
                floor: Sequence(rows.number($0, 4)))
        }
    }

    public func take(
        _ partition: PartitionID, from former: PartitionRow, by session: SessionID, barrier: Row
    ) throws(EngineError) -> Epoch? {
        try works()
        return try database.transaction { () throws(EngineError) -> Epoch? in
            let alive = try self.query(
                "SELECT 1 FROM session WHERE id = $1 AND alive FOR SHARE", [.int8(session.rawValue)])
            guard alive.count > 0 else { throw .fenced }
            if let owner = former.owner, owner != session, try self.isAlive(owner) {
                throw .refused("session \(owner.rawValue) lives and owns partition \(partition.rawValue)")
            }
            let moved = try self.query(
                """
                UPDATE partition SET owner = $2, epoch = epoch + 1
                WHERE id = $1 AND epoch = $3 AND owner IS NOT DISTINCT FROM $4 RETURNING epoch
                """,
                [
                    .int4(Int(partition.rawValue)), .int8(session.rawValue), .int8(former.epoch.rawValue),
                    .int8(former.owner?.rawValue),
                ])
            guard moved.count == 1, try self.lastSequence(partition).next == barrier.sequence else {
                throw Faster.error
            }
            let stood = try self.query(
                "INSERT INTO journal VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
                [
                    .int4(Int(partition.rawValue)), .int8(barrier.sequence.rawValue),
                    .int8(Appender.barrierBatch(of: session).rawValue), .bytea(barrier.payload),
                ])
            guard stood.changed == 1 else { throw Faster.error }
            return Epoch(moved.number(0, 0))
        } onFaster: {
            nil
        }
    }

    public func release(_ partition: PartitionID, by session: SessionID) throws(EngineError) {
        let moved = try query(
            """
            WITH s AS (SELECT 1 FROM session WHERE id = $2 AND alive FOR SHARE)
            UPDATE partition SET owner = NULL FROM s WHERE id = $1 AND owner = $2
            """, [.int4(Int(partition.rawValue)), .int8(session.rawValue)])
        guard moved.changed == 1 else { throw .fenced }
    }

    public func lastSequence(_ partition: PartitionID) throws(EngineError) -> Sequence {
        let rows = try query(
            """
            SELECT coalesce((SELECT max(sequence) FROM journal WHERE partition = $1), floor - 1)
            FROM partition WHERE id = $1
            """, [.int4(Int(partition.rawValue))])
        guard rows.count == 1 else { throw .refused("no partition \(partition.rawValue)") }
        return Sequence(rows.number(0, 0))
    }
}

/// Somebody was faster: no error, but the transaction is to be rolled back.
enum Faster {
    static let error = EngineError.refused("somebody was faster")
}

extension Connection {
    func transaction<Result>(
        _ body: () throws(EngineError) -> Result, onFaster: () -> Result
    ) throws(EngineError) -> Result {
        do throws(EngineError) {
            return try transaction(body)
        } catch {
            guard error == Faster.error else { throw error }
            return onFaster()
        }
    }
}
