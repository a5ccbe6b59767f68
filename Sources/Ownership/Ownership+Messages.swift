import Journal
import Model

// What ownership hears and says.

extension Ownership {
    /// Since when this node holds the partition; `nil` where it does not.
    public func epoch(of partition: PartitionID) -> Epoch? { holdings[partition]?.epoch }

    #if DEBUG
        /// Of the last look, for a bug that is planted.
        public func counter(of session: SessionID) -> UInt64? { seen[session]?.counter }
    #endif

    public struct Options: Sendable {
        /// Nanoseconds between two polls.
        public var pollInterval: UInt64 = .milliseconds(500)
        /// Nanoseconds for which a counter may stand still.
        public var lease: UInt64 = .milliseconds(1500)
        /// After so many leases a node counts as gone even where nothing else says so.
        public var leasesAlone: UInt64 = 3
        /// For how long the same nodes must have been there before a partition leaves a living owner.
        public var stability: UInt64 = .seconds(3)
        /// Partitions that are being taken, or given up, at once.
        public var takesAtOnce = 16
        public var releasesAtOnce = 8
        /// Nanoseconds for which an heir may read before its owner gives up all the same.
        public var followingMax: UInt64 = .seconds(3)
        /// Partitions that are read for their owners at once, and for how many nanoseconds what was read is
        /// kept.
        public var followsAtOnce = 64
        public var followedFor: UInt64 = .seconds(20)
        public init() {}

        /// What must hold of them, if it does not.
        public var mistake: String? {
            if pollInterval == 0 { return "two polls are some time apart" }
            // One that is late or lost is made up for by the next.
            if lease < pollInterval * 2 { return "a lease is renewed twice in its time" }
            if leasesAlone < 2 { return "who is not suspected has longer than who is" }
            if followedFor < followingMax { return "what was read is kept until it is inherited" }
            let counts = [takesAtOnce, releasesAtOnce, followsAtOnce]
            return counts.contains { $0 < 1 } ? "one is the least of everything" : nil
        }
    }

    /// What a node says of itself with its lease.
    public struct NodeInfo: Hashable, Sendable {
        public var isShard: Bool
        public var isGateway: Bool
        public var isLeaving: Bool
        /// It sees less than half of the others: it gives its partitions up and gets none.
        public var isCutOff: Bool
        /// It proves in its greetings that it has the cluster's key; a former build does not.
        public var provesKey: Bool
        public var weight: UInt8
        /// Where its peers reach it, `HOST:PORT`.
        public var peer: String
        /// Where its gossip is reached; empty for none.
        public var gossip: String
        public var zone: String
        public var build: String
    }

    public struct Member: Hashable, Sendable {
        public var session: SessionID
        public var name: String
        public var info: NodeInfo
    }

    /// Where a partition is.
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
        /// Partitions whose database has not answered this time: their rows are as they were read last, and
        /// they are neither taken nor given up.
        public var old: Set<PartitionID>
        /// Those of them whose database is away: nobody waits for them.
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

        /// Renews the lease, then looks. Runs where the engine does. A renewal that waited behind a fence may
        /// go through after it: what is read later no longer has the session (rule: heirs-of-buckets-wait).
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
        case fenced
        /// `nil`: somebody was faster.
        case taken(PartitionID, Epoch?)
        case takeFailed(PartitionID)
        /// The partition was read and serves.
        case serving(PartitionID)
        /// The partition's machine has ended and its row has no owner.
        case released(PartitionID)
        case releaseFailed(PartitionID)
        /// The partition's machine could not go on, though the session lives.
        case lost(PartitionID)
        /// Another owner is about to give the partition to this node, and asks it to read it.
        case offered(PartitionID, by: SessionID)
        /// It was read, or could not be.
        case followed(PartitionID)
        case followFailed(PartitionID)
        /// The heir has read the partition.
        case isFollowed(PartitionID, by: SessionID)
        /// Gossip holds the node dead, or not any more.
        case suspected(SessionID, Bool)
        /// Nobody at all is heard, or somebody is again.
        case isolated(Bool)
        /// Gossip says who owns the partition since which epoch, maybe sooner than the table did.
        case heard(PartitionID, Route)
        /// Somebody says that the tables have changed.
        case nudged
        /// This node is to end in order.
        case leave
        case woke
    }

    public enum Effect: Hashable, Sendable {
        /// Renew the lease with this, then read the tables.
        case poll(NodeInfo)
        /// Mark the session dead, if its counter is still this one.
        case fence(SessionID, at: UInt64)
        case take(PartitionRow)
        /// Owned since this epoch: read it and serve. The former owner may grant tokens until then.
        case load(PartitionID, Epoch, grantsAfter: MonotonicTime?)
        /// End the partition's machine when nothing of it is in flight, then give its row up.
        case release(PartitionID)
        /// Tell the heir that it is about to inherit the partition.
        case offer(PartitionID, to: SessionID)
        /// Read the partition while another owns it, and keep what was read for `load`, which reads the rest.
        case follow(PartitionID)
        case tellFollowed(PartitionID, to: SessionID)
        /// It was not inherited: throw away what was read.
        case unfollow(PartitionID)
        /// The partition is another's: throw its machine away.
        case drop(PartitionID)
        /// By partition number; `nil` where nobody serves it.
        case routes([Route?])
        case members([Member])
        /// Nodes that live and whose words are not understood, by their names, and why: they count as none.
        case strangers([String: String])
        /// Tell all others that the tables have changed.
        case nudge
        /// Everything of this session is lost; a new one is to begin, with a new machine.
        case stepDown
        case status(Status)
        /// Everything is given up.
        case left
        case wake(at: MonotonicTime)
    }

    /// How the node stands, for whoever asks whether it is ready.
    public enum Status: Hashable, Sendable {
        case joining
        case serving
        case unreachable(String)
        case leaving
        /// Less than half of the nodes are in reach.
        case cutOff
    }
}
