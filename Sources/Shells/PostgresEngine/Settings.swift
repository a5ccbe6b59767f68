import Journal

/// How far a commit must have come before it is acknowledged, weakest first (PostgreSQL,
/// `synchronous_commit`). Without a synchronous standby all values mean this server's disk. The engine never
/// accepts `off`.
public enum SynchronousCommit: String, CaseIterable, Comparable, Sendable {
    /// On this server's disk, with or without standbys.
    case local
    /// Also written, but not synced, by the standby.
    case remoteWrite = "remote_write"
    /// Also on the standby's disk.
    case on
    /// Also visible on the standby.
    case remoteApply = "remote_apply"

    private var rank: Int { SynchronousCommit.allCases.firstIndex(of: self) ?? 0 }
    public static func < (left: SynchronousCommit, right: SynchronousCommit) -> Bool {
        left.rank < right.rank
    }
}

/// The settings and the identity that the database reports.
public struct PostgresSettings: Hashable, Sendable {
    /// As the server reports it, for example "on".
    public var synchronousCommit: String
    public var fsync: Bool
    /// Empty if commits wait for no standby.
    public var synchronousStandbyNames: String
    /// Rises with each failover.
    public var timeline: UInt32
    /// The identifier of the database server; copies of its files have the same one.
    public var systemIdentifier: UInt64
    /// The database's number in its server, which a clone in the same server does not have.
    public var database: UInt32
    /// As the server counts: 150018 is 15.18.
    public var serverVersion: Int
    public var isInRecovery: Bool

    /// Columns of a statement, in the order in which `init` reads them. A promoted standby writes its new
    /// timeline to its control file only with its next checkpoint; the name of its current log file has it at
    /// once.
    static let columns = """
        current_setting('synchronous_commit'), current_setting('fsync') = 'on', \
        current_setting('synchronous_standby_names'), \
        CASE WHEN pg_is_in_recovery() THEN (SELECT timeline_id::int8 FROM pg_control_checkpoint()) \
        ELSE ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int8 END, \
        (SELECT system_identifier FROM pg_control_system()), \
        (SELECT oid::int8 FROM pg_database WHERE datname = current_database()), \
        current_setting('server_version_num')::int4, pg_is_in_recovery()
        """

    /// Why commits are less durable than asked for, or `nil` (rule: durability-is-verified).
    func weakness(asked options: PostgresEngine.Options) -> String? {
        guard !options.allowsVolatile else { return nil }
        let commit = SynchronousCommit(rawValue: synchronousCommit)
        guard let commit, commit >= options.synchronousCommit else {
            return "commits are not durable: synchronous_commit is \(synchronousCommit), and must be at"
                + " least \(options.synchronousCommit.rawValue)"
        }
        guard fsync else { return "commits are not durable: the database runs with fsync = off" }
        if options.demandsStandby, synchronousStandbyNames.isEmpty {
            return "commits are not replicated: synchronous_standby_names is empty"
        }
        return nil
    }

    /// The note of a loss is in the tables, not among the settings.
    func past(lossSeen: UInt64) -> EnginePast {
        EnginePast(
            system: systemIdentifier, database: database, timeline: timeline,
            isReplicated: !synchronousStandbyNames.isEmpty, lossSeen: lossSeen)
    }

    /// Why these settings cannot follow the earlier ones, or `nil` (rule: lost-ends-raise-the-generation).
    func contradiction(to before: PostgresSettings) -> String? {
        guard systemIdentifier == before.systemIdentifier else {
            return "another database answers: its system identifier is \(systemIdentifier), and was"
                + " \(before.systemIdentifier)"
        }
        guard database == before.database else {
            return "another database of the same server answers: its number is \(database), and was"
                + " \(before.database)"
        }
        if timeline > before.timeline, past(lossSeen: 0).mayLack(before.past(lossSeen: 0)) {
            return "the database has failed over (timeline \(before.timeline) to \(timeline)) and no"
                + " synchronous standby was configured: its last records may be lost, so the node reads"
                + " everything again"
        }
        guard timeline >= before.timeline else {
            return "the database's history went back: its timeline is \(timeline), and was \(before.timeline)"
        }
        return nil
    }
}

extension PostgresSettings {
    init(_ reply: Reply, from column: Int) throws(Fault) {
        synchronousCommit = try reply.text(0, column)
        fsync = try reply.bool(0, column + 1)
        synchronousStandbyNames = try reply.text(0, column + 2)
        timeline = UInt32(truncatingIfNeeded: try reply.int(0, column + 3))
        systemIdentifier = try reply.uint(0, column + 4)
        database = UInt32(truncatingIfNeeded: try reply.int(0, column + 5))
        serverVersion = Int(try reply.int(0, column + 6))
        isInRecovery = try reply.bool(0, column + 7)
    }
}
