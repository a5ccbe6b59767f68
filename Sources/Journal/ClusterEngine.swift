import Model

/// A session as all nodes of a cluster see it.
public struct SessionRow: Hashable, Sendable {
    public var id: SessionID
    public var node: String
    /// Moves while the session's node renews it. A time it is not: each observer looks on its own clock for
    /// how long it has stood still.
    public var counter: UInt64
    /// What the node says of itself, at most `ClusterRules.infoBytesMax` bytes.
    public var info: [UInt8]

    public init(id: SessionID, node: String, counter: UInt64, info: [UInt8]) {
        self.id = id
        self.node = node
        self.counter = counter
        self.info = info
    }
}

/// Tells one past of a database from another: a failover or a restored copy begins a new one, and what was
/// acknowledged at the end of the old one may not be in it (rule: lost-ends-raise-the-generation).
public struct EnginePast: Hashable, Sendable {
    /// Of the database cluster; copies of it have the same.
    public var system: UInt64
    /// Rises with each failover.
    public var timeline: UInt32
    /// Whether another machine has all that is acknowledged, so that a failover loses nothing.
    public var isReplicated: Bool
    /// Of which life of the server somebody saw that it had gone back, though nothing else says so: its disk
    /// was that of an earlier moment. 0 for none.
    public var lossSeen: UInt64

    public init(system: UInt64, timeline: UInt32, isReplicated: Bool, lossSeen: UInt64 = 0) {
        self.system = system
        self.timeline = timeline
        self.isReplicated = isReplicated
        self.lossSeen = lossSeen
    }

    /// Whether what was acknowledged in `former` may be missing here.
    public func mayLack(_ former: EnginePast) -> Bool {
        system != former.system || timeline < former.timeline
            || (timeline > former.timeline && !former.isReplicated) || lossSeen != former.lossSeen
    }
}

public enum ClusterRules {
    public static let infoBytesMax = 1024
}

/// What the engine of a cluster offers besides: leases, and leaving a partition to another.
///
/// A lease grants nothing. It only says who seems to be there; what may write is the session alone.
public protocol ClusterEngine: Engine {
    /// Moves the session's counter on and writes what its node says of itself. `fenced` where it is dead.
    func renewLease(_ session: SessionID, info: [UInt8]) throws(EngineError)
    /// Fences the session where its counter is still this one, in the home. `false` where it has moved, or
    /// nothing is known of the session: whoever watched it stand still may have stood still since.
    func fence(_ session: SessionID, at counter: UInt64) throws(EngineError) -> Bool
    /// The living sessions by rising id.
    func sessions() throws(EngineError) -> [SessionRow]
    /// Which past the database is in; `nil` for engines that have one only.
    func past() throws(EngineError) -> EnginePast?
    /// What time it is for the database; `nil` for engines that have no clock of their own.
    func wallClock() throws(EngineError) -> WallTime?
    /// In a database that is not the home of its cluster: makes a session known that was begun in the home,
    /// and marks all former ones of the node dead. Nothing where it is known and lives; `fenced` where it is
    /// dead here; `refused` where it is another node's, which only a home that went back can bring about.
    func register(_ session: SessionID, node: String) throws(EngineError)
    /// The highest session that was ever known here; 0 for none.
    func lastSession() throws(EngineError) -> SessionID
    /// In the home: sessions that begin from now on are higher than this one. A home that was restored from
    /// an old copy alone would otherwise give out numbers that the other databases know as somebody's.
    func skipSessions(through last: SessionID) throws(EngineError)
    /// Gives a partition up: its row has no owner any more. Everything of this session is in before.
    func release(_ partition: PartitionID, by session: SessionID) throws(EngineError)
}

extension ClusterEngine {
    public func wallClock() throws(EngineError) -> WallTime? { nil }
    public func past() throws(EngineError) -> EnginePast? { nil }
}
