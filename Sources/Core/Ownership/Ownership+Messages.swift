import Journal
import Model

// The events that ownership takes, and the effects that it returns.

extension Ownership {
    /// The epoch in which this node owns the partition; `nil` if it does not, or is still taking it.
    public func epoch(of partition: PartitionID) -> Epoch? { holdings[partition]?.epoch }

    #if DEBUG
        /// The session's counter in the last look, for a planted bug.
        public func counter(of session: SessionID) -> UInt64? { seen[session]?.counter }
    #endif

    public struct Options: Sendable {
        /// The time between two polls.
        public var pollInterval: TimeSpan = .milliseconds(500)
        /// How long a lease's counter may stay unchanged.
        public var lease: TimeSpan = .milliseconds(1500)
        /// After this many leases a node counts as gone even if gossip does not hold it dead.
        public var leasesWithoutGossip: UInt64 = 3
        /// How long the candidates must stay the same before a partition leaves a living owner.
        /// An owner that leaves, or is cut off, does not wait.
        public var stability: TimeSpan = .seconds(3)
        /// How many partitions this node takes at once, and how many it gives up at once.
        public var takesAtOnce = 16
        public var releasesAtOnce = 8
        /// How long an owner lets its heir read before it gives up all the same.
        public var followingMax: TimeSpan = .seconds(3)
        /// How many partitions this node reads for their owners at once, and for how long it
        /// keeps what it has read.
        public var followsAtOnce = 64
        public var followedFor: TimeSpan = .seconds(20)
        public init() {}

        /// The first invariant of the options that does not hold; `nil` if all do.
        public var mistake: String? {
            if pollInterval == .zero { return "`pollInterval` must be longer than zero" }
            // The next renewal makes up for one that is late or lost.
            if lease < pollInterval * 2 { return "`lease` must be at least two poll intervals" }
            if leasesWithoutGossip < 2 { return "`leasesWithoutGossip` must be at least 2" }
            if followedFor < followingMax { return "`followedFor` must be at least `followingMax`" }
            let counts = [takesAtOnce, releasesAtOnce, followsAtOnce]
            return counts.contains { $0 < 1 }
                ? "`takesAtOnce`, `releasesAtOnce` and `followsAtOnce` must each be at least 1" : nil
        }
    }

    /// A node's description of itself, which it writes with its lease.
    public struct NodeInfo: Hashable, Sendable {
        public var isShard: Bool
        public var isGateway: Bool
        public var isLeaving: Bool
        /// The node sees less than half of the others, or its certificate is refused: it gives its partitions
        /// up and gets none.
        public var isCutOff: Bool
        public var weight: UInt8
        /// The address for other nodes, `HOST:PORT`.
        public var peer: String
        /// The address for gossip; empty for none.
        public var gossip: String
        public var zone: String
        public var build: String
        /// Outboxes of the node's partitions without progress.
        public var stalled = Stalled()
        /// The certificate that the node shows to other nodes; `nil` without TLS.
        public var certificate: CertificateFingerprint?
        /// Conditions of the node's partitions for which another partition does not answer.
        public var stalledConditions = Stalled()
        /// The ids of the secrets keys that the node was given.
        public var secretsKeys: [UInt64] = []

        public struct Stalled: Hashable, Sendable {
            /// How many there are, and the first `listedMax` of them, by sender and then by receiver.
            public var count: UInt32 = 0
            public var first: [Pair] = []
            public static let listedMax = 16

            public struct Pair: Hashable, Sendable {
                public var from: PartitionID
                public var to: PartitionID
                public init(from: PartitionID, to: PartitionID) { (self.from, self.to) = (from, to) }
            }
            public init() {}
            public init(_ all: [Pair]) {
                count = UInt32(clamping: all.count)
                first = Array(all.prefix(Stalled.listedMax))
            }
        }
    }

    public struct Member: Hashable, Sendable {
        public var session: SessionID
        public var name: String
        public var info: NodeInfo
    }

    /// The session that owns a partition, and the epoch of that ownership.
    public struct Route: Hashable, Sendable {
        public var session: SessionID
        public var epoch: Epoch
        public init(session: SessionID, epoch: Epoch) {
            self.session = session
            self.epoch = epoch
        }
    }

    /// One look at the engine's tables, under a renewed lease.
    public struct Poll: Sendable {
        public var sessions: [SessionRow]
        public var partitions: [PartitionRow]
        /// Partitions whose database has not answered this look. Their rows are as they were read last, and
        /// this node neither takes these partitions nor gives them up.
        public var old: Set<PartitionID>
        /// The partitions of `old` whose database is away: nothing waits for them.
        public var away: Set<PartitionID>
        public init(
            sessions: [SessionRow], partitions: [PartitionRow], old: Set<PartitionID> = [],
            away: Set<PartitionID> = []
        ) {
            self.sessions = sessions
            self.partitions = partitions
            self.old = old.union(away)
            self.away = away
        }

        /// Renews the lease, then looks; on the engine's thread. A renewal that waited behind a fence may go
        /// through after it: the sessions, which are read later, then lack this one
        /// (rule: heirs-of-buckets-wait).
        public init(
            renewing session: SessionID, info: NodeInfo, of engine: any ClusterEngine
        ) throws(EngineError) {
            try engine.renewLease(session, info: info.encoded)
            let sessions = try engine.sessions()
            guard sessions.contains(where: { $0.id == session }) else { throw .fenced }
            self.init(sessions: sessions, partitions: try engine.partitions())
        }
    }

    public enum Event: Sendable {
        /// The tables as they were read at or after `asked`.
        case polled(Poll, asked: MonotonicTime)
        case pollFailed(String)
        /// This node's session is dead.
        case sessionDead
        /// The engine has marked another session dead: its partitions are free.
        case fenced(SessionID)
        /// The fence of another session did not go through, or the session's counter has moved: the next look
        /// decides.
        case fenceFailed(SessionID)
        /// `nil`: another node was faster.
        case taken(PartitionID, Epoch?)
        case takeOverFailed(PartitionID)
        /// The loop has read the partition and serves it, or has quarantined it.
        case serving(PartitionID)
        /// The partition's machine has ended and its row has no owner.
        case released(PartitionID)
        case releaseFailed(PartitionID)
        /// The partition's machine could not go on, though the session lives.
        case lost(PartitionID)
        /// Another owner is about to give the partition to this node, and asks this node to read it.
        case offered(PartitionID, by: SessionID)
        /// This node has read the partition as an heir, or could not.
        case followed(PartitionID)
        case followFailed(PartitionID)
        /// The heir has read the partition.
        case isFollowed(PartitionID, by: SessionID)
        /// Gossip holds the session dead (true), or no longer (false).
        case suspected(SessionID, Bool)
        /// Gossip receives from no other node (true), or from one again (false).
        case isolated(Bool)
        /// The other nodes refuse this node's certificate (true), or no longer (false).
        case certificateRefused(Bool)
        /// Gossip names the partition's owner and epoch, maybe sooner than the table did.
        case heard(PartitionID, Route)
        /// Another node, or this process, says that the tables have changed.
        case nudged
        /// This node is to end in order.
        case leave
        case woke
    }

    public enum Effect: Hashable, Sendable {
        /// Renew the lease with this description, then read the tables.
        case poll(NodeInfo)
        /// Mark the session dead, if its counter is still this one.
        case fence(SessionID, at: UInt64)
        case takeOver(PartitionRow)
        /// This node owns the partition since this epoch: read it and serve it. The previous owner may grant
        /// tokens until `grantsAfter`.
        case load(PartitionID, Epoch, grantsAfter: MonotonicTime?)
        /// End the partition's machine when nothing of it is in flight, then clear the owner in its row.
        case release(PartitionID)
        /// Notify the heir that it is about to inherit the partition.
        case offer(PartitionID, to: SessionID)
        /// Read the partition while another node owns it, and keep what was read for `load`, which reads the
        /// rest.
        case follow(PartitionID)
        case tellFollowed(PartitionID, to: SessionID)
        /// This node has not inherited the partition: throw away what was read.
        case unfollow(PartitionID)
        /// Another node owns the partition: throw its machine away.
        case drop(PartitionID)
        /// By partition number; `nil` if no living session owns the partition.
        case routes([Route?])
        case members([Member])
        /// Living nodes whose descriptions cannot be read, by name, with the reason. They are no members.
        case strangers([String: String])
        /// Notify all others that the tables have changed.
        case nudge
        /// The session is fenced and everything of it is lost: the process must begin again with a new
        /// session.
        case stepDown
        case status(Status)
        /// A node that leaves may end: it holds no partition in a database that is in reach, or no node could
        /// take one.
        case left
        case wake(at: MonotonicTime)
    }

    /// The node's state, for readiness checks.
    public enum Status: Hashable, Sendable {
        case joining
        case serving
        case unreachable(String)
        case leaving
        /// Less than half of the nodes are in reach.
        case cutOff
        /// The other nodes refuse this node's certificate.
        case refused

        /// For operators.
        public var sentence: String {
            switch self {
            case .joining: "joining the cluster"
            case .serving: "serving"
            case .unreachable(let reason): reason
            case .leaving: "leaving the cluster"
            case .cutOff: "cut off: less than half of the other nodes are heard"
            case .refused:
                "cut off: the cluster refuses this node's certificate; give the node another one, or"
                    + " `tidecast cluster accept` it"
            }
        }
    }
}
