import Journal
import Model
import Ownership
import Partitions
import Quotas
import Routing

/// What comes to a loop: from its own node's loops, from other processes, from the engines, from the node's
/// control side, and from its timers.
public enum LoopMessage: Sendable {
    /// Anything but a request.
    case partition(PartitionID, PartitionEvent)
    case request(PartitionID, RequestID, Request, Mandate)
    case reply(RequestID, Reply)
    case stream(from: PartitionID, StreamFrame)
    /// The same from another process; believed only while that process owns the partition.
    case peerStream(life: UInt32, from: PartitionID, StreamFrame)
    /// From a spender to the owner of its project's buckets, and back.
    case quotaRequest(QuotaRequest)
    case quotaGrant(QuotaGrant)
    /// A send to one device passed the device's own limit.
    case quotaRefusal(RequestID, QuotaRefusal)
    /// What became of a record.
    case resolved(Resolved)
    /// The journal is lost to this partition's machine: another is made from what is durable.
    case lost(PartitionID, mayHaveAppended: Bool, reason: String)
    /// On a node without a cluster: the partition is read again, so its streams end.
    case endStreams(of: PartitionID)
    /// What is in a project's buckets, asked by a loop under a number of its own; and the answer.
    case levelsAsked(ProjectNumber, by: Int, question: UInt64)
    case levels([BucketLevel], question: UInt64)
    case engine(EngineAnswer)
    case order(LoopOrder)
    /// The connection to or from a process broke: what was under way may be lost.
    case linkReset(UInt32)
    /// A process has lost something that it was told by this one, or would have told it.
    case missed(by: UInt32)
    case timer(LoopTimer)
}

/// What is in one bucket, by the name of its limit.
public struct BucketLevel: Hashable, Sendable {
    public var name: String
    public var tokens: UInt64
}

/// What became of a job of a partition's engine, where the partition's machine is not told itself.
public enum EngineAnswer: Sendable {
    /// The bodies could not be read; the streams that wait for them hear nothing else until they are.
    case readFailed(PartitionID, [Sequence], bytesMax: Int, token: UInt64)
    /// A slice was deleted; so many rows are left to delete.
    case trimmed(PartitionID, left: Int)
    case trimFailed(PartitionID)
    /// Nothing of the partition is in flight or in doubt any more.
    case closed(PartitionID)
    /// Read for serving it since the epoch, with what its former owner left in the buckets of its projects.
    case loaded(StoredPartition, Epoch, quotas: [ProjectNumber: [UInt64]])
    /// It could not be read: what is stored is damaged, or the engine did not answer.
    case loadFailed(PartitionID, Epoch, isDamaged: Bool, reason: String)
    /// Nobody knows whether the session lives: the engine did not say.
    case confirmFailed(PartitionID, token: UInt64)
    /// Read while another process owns it.
    case followed(StoredPartition)
}

/// What the node's control side tells a loop.
public enum LoopOrder: Sendable {
    /// This node owns the partition since the epoch: load it, and serve it. Its former owner may grant tokens
    /// until then.
    case serve(PartitionID, Epoch, grantsAfter: MonotonicTime? = nil)
    /// Take no more work for the partition; when nothing of it is in flight, give it up.
    case release(PartitionID)
    /// The partition is another's: throw its machine away.
    case drop(PartitionID)
    /// The partition was not inherited: throw away what was read of it.
    case unfollow(PartitionID)
    /// Where partitions are served now, and which of them live in databases that do not answer.
    case places(PartitionPlaces, away: Set<PartitionID>)
    /// The sessions that live now, and the processes of those that did before and do not any more.
    case members(living: Set<SessionID>, gone: Set<UInt32>)
    /// A database's clock was asked: it agrees with this reading of the node's clocks, or with none. Either
    /// way the loop looks at its own, however little it has to do.
    case clockCompared(Instant?)
    case say(PeerMessage, to: [UInt32])
}

/// What a loop waits for.
public enum LoopTimer: Sendable {
    /// What it was set for.
    case partition(PartitionID, MonotonicTime)
    case deadlines
    case retryMoved
    case quotas
    case readAgain(PartitionID, [Sequence], bytesMax: Int, token: UInt64)
    case loadAgain(PartitionID)
    case confirmAgain(PartitionID, token: UInt64)
    /// A process to which something could not be handed over.
    case unreachable(UInt32)
    case reattach(PartitionID)
    /// While the clock on the wall is doubted.
    case clock
}
