import Journal
import Membership
import Model
import Ownership
import Routing

/// The events of a node's control side.
public enum ControlEvent: Sendable {
    /// Gossip begins with these addresses.
    case start(seeds: [String])
    /// An event for ownership, from a loop or from a job of a database.
    case ownership(Ownership.Event)
    case peer(ProcessID, PeerWord)
    /// A connection to or from the process broke.
    case linkReset(ProcessID)
    /// News of a connection that a loop makes to the process.
    case link(ProcessID, loop: Int, LinkReport)
    /// A datagram of this cluster, and its source address.
    case datagram([UInt8], from: String)
    /// The node has read the catalog in this version.
    case catalog(version: UInt64)
    /// This node has changed the small tables.
    case announce
    /// An operator wants the process of the session to leave in order and end.
    case tellToLeave(SessionID)
    /// The node ends its session itself.
    case end

    // Answers of the databases.
    /// The home's tables, as they were read at or after `asked` under a renewed lease.
    case polled(Ownership.Poll, asked: MonotonicTime)
    /// A look at the home's clock.
    case clockRead(ClockReading)
    case tableRead(database: Int, look: UInt64, [PartitionRow])
    case tableFailed(database: Int, look: UInt64, String)
    case fenced(SessionID)
    /// With a reason if the outcome is unknown, and with none if the session's lease has moved.
    case fenceFailed(SessionID, String?)
    /// Whether the session that owned the row lives; the home says so.
    case former(PartitionRow, SessionID, isAlive: Bool)
    case notTaken(PartitionID, String)

    case timer(ControlTimer)
}

public enum LinkReport: Hashable, Sendable {
    case stands
    /// The process does not take the frames for it, so this node ends the connection.
    case cutOff(String)
    /// An open connection has ended.
    case broke
    /// The loop could not make the connection, for this reason.
    case failed(String)
}

public enum ControlTimer: Hashable, Sendable {
    case ownership
    case gossip
    /// A look has waited long enough for the further databases.
    case patience(look: UInt64)
    /// Seeds that have not answered by then are named in the log.
    case seeds
}

/// The effects of the control side.
public enum ControlEffect: Sendable {
    case call(DatabaseCall)

    // Effects for the loops.
    case order(LoopOrder, of: PartitionID)
    case orderAll(LoopOrder)
    /// Sent over the first loop's connections.
    case say(PeerMessage, to: [ProcessID])
    /// The addresses of the other processes. Comes before any frame to them.
    case peers([ProcessID: String])

    case datagram([UInt8], to: String)
    case wake(ControlTimer, at: MonotonicTime)
    /// Why the node takes no traffic; `nil` if it does.
    case notReady(String?)
    case view(ClusterView)
    /// End in order, as on SIGTERM.
    case endInOrder
    /// The session was fenced and everything of it is lost: the process must begin again.
    case stepDown
    /// The node has left the cluster in order, and its process may end.
    case left
    case noted(ControlNote)
}

/// News for operators, in logs and counters.
public enum ControlNote: Sendable {
    case members([String])
    /// A node lives whose description cannot be read.
    case stranger(String, reason: String)
    case status(Ownership.Status)
    case fenced(SessionID)
    case notFenced(SessionID, String)
    case notTaken(PartitionID, String)
    case member(Membership.Member)
    case isolated(Bool)
    case malformedGossip(String)
    /// A datagram of this cluster that this process has seen before, or may have seen.
    case refusedGossip(String)
    case silentSeed(String)
    case linkDown(name: String, address: String, reason: String, isLeaving: Bool)
    case linkCutOff(name: String, reason: String)
    case linkUp(name: String, down: TimeSpan)
    case ready
    case notReady(String)
    /// For no time if it has just gone away. The home is number 0.
    case databaseAway(Int, reason: String, for: TimeSpan)
    case databaseBack(Int, after: TimeSpan)
    /// A look at the home's clock: milliseconds by which the node's clock is ahead.
    case clockCompared(ahead: Int64)
    /// The node's clock and the home's have come apart.
    case clockDiffers(ahead: Int64)
    /// Most nodes find that their clocks and the home's have come apart by about as much.
    case databaseClockDiffers(nodesAhead: Int64)
    case clockAgrees
}

/// The cluster as one node sees it.
public struct ClusterView: Sendable {
    public var members: [Ownership.Member] = []
    public var routes: [Ownership.Route?] = []
    public var own = SessionID(0)
    /// All other nodes that gossip remembers.
    public var gossip: [Membership.Member] = []
    public var localHealth = 0
    /// Numbers of databases that do not answer, never the home's.
    public var away: Set<Int> = []
    /// Since when each database is away, the home included.
    public var awaySince: [Int: MonotonicTime] = [:]
    /// Links that are down.
    public var linksDown: [PeerLinks.Down] = []

    public init() {}

    /// The session's state in gossip; the node's own session is always alive.
    public func state(of session: SessionID) -> Membership.State {
        session == own ? .alive : gossip.first { $0.session == session }?.state ?? .alive
    }
}
