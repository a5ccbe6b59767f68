import Journal
import Membership
import Model
import Ownership
import Partitions
import Routing

/// What the control side of a node hears.
public enum ControlEvent: Sendable {
    /// These addresses are gossiped with first.
    case begin(seeds: [String])
    /// What loops and jobs tell ownership.
    case ownership(Ownership.Event)
    case peer(UInt32, PeerWord)
    /// A connection to or from the process broke.
    case linkReset(UInt32)
    /// What became of a connection that one of the loops makes to the process.
    case link(UInt32, loop: Int, LinkReport)
    /// A datagram of this cluster, and where it came from.
    case datagram([UInt8], from: String)
    /// The catalog was read in this version.
    case catalog(version: UInt64)
    /// The small tables were changed here.
    case announce
    /// An operator wants the process of the session to leave in order and end.
    case tellToLeave(SessionID)
    /// The node ends its session itself.
    case end

    // Answers of the databases.
    /// The home's tables, as they were read at or after `asked` under a renewed lease.
    case polled(Ownership.Poll, asked: MonotonicTime)
    /// The home's clock, and the node's own when the answer came.
    case clockRead(Instant, theirs: WallTime)
    case tableRead(database: Int, look: UInt64, [PartitionRow])
    case tableFailed(database: Int, look: UInt64, String)
    case fenced(SessionID)
    /// With a reason where nobody knows, and none where the session's lease has moved.
    case fenceFailed(SessionID, String?)
    /// Whether the session that owned the row lives, as the home says.
    case former(PartitionRow, SessionID, isAlive: Bool)
    case notTaken(PartitionID, String)

    case timer(ControlTimer)
}

public enum LinkReport: Hashable, Sendable {
    case stands
    /// The process does not take what it is sent, and the connection ends for that.
    case cutOff(String)
    /// A connection that stood has ended.
    case broke
    /// It could not be made; why.
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

/// What the control side wants done.
public enum ControlEffect: Sendable {
    // By the databases. `poll` and `readTable` go over a connection of their own, and wait for no other
    // effect. Between them and the others there is no order: a look may find a change before its answer has
    // come, and `Ownership.reconcile` rests on epochs and on when things were asked, not on order. The others
    // of one database, but for `follow`, are carried out one after the other.
    /// Renew the lease in the home with this, and read the tables. Answered by `polled`, or by ownership's
    /// `pollFailed` or `fenced`.
    case poll(Ownership.NodeInfo)
    /// The same of the partitions of another database, where the session is registered first if it must be.
    /// Answered by `tableRead`, `tableFailed`, or by ownership's `fenced`.
    case readTable(database: Int, look: UInt64, registers: Bool)
    /// End the session in the home, if its counter is still this one. Answered by `fenced` or `fenceFailed`.
    case fence(SessionID, at: UInt64)
    /// The session is dead in the home: mark it so in this database. Nobody waits for that.
    case bury(SessionID, database: Int)
    /// Whether the former owner of the row lives. Answered by `former` or `notTaken`.
    case askFormer(PartitionRow, SessionID)
    /// Take the partition, after marking its former owner dead there. Answered by ownership's `taken`, or by
    /// `notTaken`.
    case take(PartitionRow, burying: SessionID?)
    /// Read a partition of another owner. Answered to its loop by `followed`, or by ownership's
    /// `followFailed`.
    case follow(PartitionID)

    // By the loops.
    case order(LoopOrder, of: PartitionID)
    case orderAll(LoopOrder)
    /// By the first loop's connections.
    case say(PeerMessage, to: [UInt32])
    /// The processes of a former build, which do not prove in their greetings that they have the cluster's
    /// key.
    case formerBuilds(Set<UInt32>)
    /// Where the other processes are reached. Before whatever is said to them.
    case peers([UInt32: String])

    case datagram([UInt8], to: String)
    case wake(ControlTimer, at: MonotonicTime)
    /// Why the node takes no traffic; `nil` where it does.
    case notReady(String?)
    case view(ClusterView)
    /// End in order, as on SIGTERM.
    case endInOrder
    /// The session was fenced: everything of it is lost.
    case stepDown
    /// Everything is given up.
    case left
    case noted(ControlNote)
}

/// What operators are told in logs and counters.
public enum ControlNote: Sendable {
    case members([String])
    /// A node lives whose words of itself are not understood.
    case stranger(String, reason: String)
    case status(Ownership.Status)
    case fenced(SessionID)
    case notFenced(SessionID, String)
    case notTaken(PartitionID, String)
    case member(Membership.Member)
    case isolated(Bool)
    case malformedGossip(String)
    /// A datagram of this cluster that came before, or may have.
    case refusedGossip(String)
    case silentSeed(String)
    case linkDown(name: String, address: String, reason: String, isLeaving: Bool)
    case linkCutOff(name: String, reason: String)
    case linkUp(name: String, nanosecondsDown: UInt64)
    case ready
    case notReady(String)
    case databaseAway(Int, reason: String)
    case databaseBack(Int)
    /// The node's clock and the home's have come apart; milliseconds by which the former is ahead.
    case clockDiffers(ahead: Int64)
}

/// The cluster as one node sees it.
public struct ClusterView: Sendable {
    public var members: [Ownership.Member] = []
    public var routes: [Ownership.Route?] = []
    public var own = SessionID(0)
    /// All others that gossip remembers.
    public var gossip: [Membership.Member] = []
    public var localHealth = 0
    /// Numbers of databases that do not answer, never the home's.
    public var away: Set<Int> = []
    /// Connections that do not stand.
    public var linksDown: [PeerLinks.Down] = []

    public init() {}

    /// How gossip sees the session; of itself a node knows that it is alive.
    public func state(of session: SessionID) -> Membership.State {
        session == own ? .alive : gossip.first { $0.session == session }?.state ?? .alive
    }
}
