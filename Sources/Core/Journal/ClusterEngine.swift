import Model

/// A session as all nodes of a cluster see it.
public struct SessionRow: Hashable, Sendable {
    public var id: SessionID
    public var node: String
    /// Rises while the session's node renews its lease. Not a time: each observer measures on its own clock
    /// how long the counter has not moved.
    public var counter: UInt64
    /// The node's description of itself, at most `ClusterRules.infoBytesMax` bytes.
    public var info: [UInt8]

    public init(id: SessionID, node: String, counter: UInt64, info: [UInt8]) {
        self.id = id
        self.node = node
        self.counter = counter
        self.info = info
    }
}

/// Distinguishes one past of a database from another. A failover or a restored copy begins a new past, which
/// may lack what was acknowledged at the end of the old one (rule: lost-ends-raise-the-generation).
public struct EnginePast: Hashable, Sendable {
    /// The identifier of the database server; copies of its files have the same one.
    public var system: UInt64
    /// The database's number in its server (PostgreSQL, `pg_database.oid`), so that a clone in the same
    /// server is another one. 0 for engines without such a number, and if it is not known.
    public var database: UInt32
    /// Rises with each failover.
    public var timeline: UInt32
    /// Whether another machine has everything that was acknowledged, so that a failover loses nothing.
    public var isReplicated: Bool
    /// The life of the server that a node saw go back to an earlier moment of its disk, if nothing else shows
    /// the loss. 0 for none.
    public var lossSeen: UInt64

    public init(
        system: UInt64, database: UInt32 = 0, timeline: UInt32, isReplicated: Bool, lossSeen: UInt64 = 0
    ) {
        self.system = system
        self.database = database
        self.timeline = timeline
        self.isReplicated = isReplicated
        self.lossSeen = lossSeen
    }

    /// Whether this past may lack what was acknowledged in `former`.
    public func mayLack(_ former: EnginePast) -> Bool {
        system != former.system || (former.database != 0 && database != former.database)
            || timeline < former.timeline
            || (timeline > former.timeline && !former.isReplicated) || lossSeen != former.lossSeen
    }
}

public enum ClusterRules {
    public static let infoBytesMax = 1024
}

/// What the engine of a cluster adds: leases, and giving a partition up.
///
/// A lease grants nothing. It only shows which nodes seem to be there; only a session may write.
public protocol ClusterEngine: Engine {
    /// Raises the session's counter and stores its node's description. `fenced` if the session is dead.
    func renewLease(_ session: SessionID, info: [UInt8]) throws(EngineError)
    /// Fences the session in the home if its counter is still `counter`. `false` if the counter has moved or
    /// the engine knows no lease of the session: the observer itself may have paused since it looked.
    func fence(_ session: SessionID, at counter: UInt64) throws(EngineError) -> Bool
    /// The living sessions by rising id.
    func sessions() throws(EngineError) -> [SessionRow]
    /// Which past the database is in; `nil` for engines that have only one.
    func past() throws(EngineError) -> EnginePast?
    /// The database's wall clock; `nil` for engines without a clock.
    func wallClock() throws(EngineError) -> WallTime?
    /// In a database that is not the home of its cluster: makes a session known that began in the home, and
    /// marks all earlier sessions of the node dead. Does nothing if the session is known and lives. `fenced`
    /// if the session is dead here; `refused` if it is another node's, which only a home that went back can
    /// cause.
    func register(_ session: SessionID, node: String) throws(EngineError)
    /// In the home: sessions that begin from now on are higher than `last`. Otherwise a home that was
    /// restored alone from an old copy would give out numbers that name other sessions in the other
    /// databases.
    func skipSessions(through last: SessionID) throws(EngineError)
    /// Gives a partition up: its row has no owner any more. The caller must have settled all its records
    /// first.
    func release(_ partition: PartitionID, by session: SessionID) throws(EngineError)
}

extension ClusterEngine {
    public func wallClock() throws(EngineError) -> WallTime? { nil }
    public func past() throws(EngineError) -> EnginePast? { nil }
}
