import Journal
import Model
import Ownership
import Partitions
import Quotas
import Routing

/// The messages to a loop: from its own node's loops, from other processes, from the engines, from the node's
/// control side, and from its timers.
public enum LoopMessage: Sendable {
    /// Any event but a request.
    case partition(PartitionID, PartitionEvent)
    case request(PartitionID, RequestID, Request, RequestGuard)
    case reply(RequestID, Reply)
    case stream(from: PartitionID, StreamFrame)
    /// The same from another process; the loop believes it only while that process owns the partition.
    case peerStream(processID: ProcessID, from: PartitionID, StreamFrame)
    /// An event for a partition, in the name of partition `of`, from another process. The loop believes it
    /// only while that process owns `of`.
    case peerEvent(processID: ProcessID, of: PartitionID, to: PartitionID, PartitionEvent)
    /// From a spender to the owner of its project's buckets, and back.
    case quotaRequest(QuotaRequest)
    case quotaGrant(QuotaGrant)
    /// The same from another process; the loop believes it only while that process owns the buckets.
    case peerGrant(processID: ProcessID, QuotaGrant)
    /// A send to one device passed the device's own limit.
    case quotaRefusal(RequestID, QuotaRefusal)
    /// The same from another process; the loop believes it only while that process owns the partition that
    /// the request asks.
    case peerRefusal(processID: ProcessID, RequestID, QuotaRefusal)
    /// The outcome of a record.
    case resolved(Resolved)
    /// The journal is lost to this partition's machine; the next machine begins from the durable records.
    case lost(PartitionID, mayHaveAppended: Bool, reason: String)
    /// On a node without a cluster: the loop reads the partition again, so its streams end.
    case endStreams(of: PartitionID)
    /// A loop asks for the tokens in a project's buckets, under the loop's number; `levels` is the answer.
    case levelsAsked(ProjectNumber, by: Int, question: UInt64)
    case levels([BucketLevel], question: UInt64)
    case engine(EngineAnswer)
    /// A push service's answer to the limiter's message of this number.
    case pushed(UInt64, PushOutcome)
    /// An operator has changed how these projects reach push services. They have these services now.
    case pushesChanged([ProjectNumber: PushServices])
    case order(LoopOrder)
    /// The connection to or from a process broke: frames under way may be lost.
    case linkReset(ProcessID)
    /// A gap notice: frames from that process to this one, or the other way, were lost.
    case gap(from: ProcessID)
    case timer(LoopTimer)
}

/// The tokens in one bucket, by the name of its limit.
public struct BucketLevel: Hashable, Sendable {
    public var name: String
    public var tokens: UInt64
}

/// The outcome of an engine's job for a partition, if the partition's machine does not get it itself.
public enum EngineAnswer: Sendable {
    /// The bodies could not be read; the streams that wait for them get nothing else until they are.
    case readFailed(PartitionID, [Sequence], bytesMax: Int, token: UInt64)
    /// A slice was deleted; `left` rows remain to delete.
    case trimmed(PartitionID, left: Int)
    case trimFailed(PartitionID)
    /// Nothing of the partition is in flight or in doubt any more.
    case closed(PartitionID)
    /// The partition was read to be served in the epoch, with the tokens that its previous owner left in the
    /// buckets of its projects.
    case loaded(StoredPartition, Epoch, quotas: [ProjectNumber: [UInt64]])
    /// The partition could not be read: its records are damaged, or the engine did not answer.
    case loadFailed(PartitionID, Epoch, isDamaged: Bool, reason: String)
    /// The engine did not say whether the session lives.
    case confirmFailed(PartitionID, token: UInt64)
    /// The partition was read while another process owns it.
    case followed(StoredPartition)
}

/// An order of the node's control side to a loop.
public enum LoopOrder: Sendable {
    /// This node owns the partition since the epoch: load it, and serve it. Its previous owner may grant
    /// tokens until `grantsAfter`.
    case serve(PartitionID, Epoch, grantsAfter: MonotonicTime? = nil)
    /// Take no more work for the partition; when nothing of it is in flight, give it up.
    case release(PartitionID)
    /// Another node owns the partition: throw its machine away.
    case drop(PartitionID)
    /// This node has not inherited the partition: throw away what the loop has of it.
    case unfollow(PartitionID)
    /// The places of partitions now, and which of them live in databases that do not answer.
    case places(PartitionPlaces, away: Set<PartitionID>)
    /// Whether the home database is away. Then the owners of quotas grant nothing.
    case home(isAway: Bool)
    /// The sessions that live now, and the processes of sessions that have died since the last such order.
    case members(living: Set<SessionID>, gone: Set<ProcessID>)
    /// A database's clock agrees with this reading of the node's clocks, or (`nil`) with none. Either way the
    /// order brings a turn, in which the loop looks at its own clock.
    case clockCompared(Instant?)
    case say(PeerMessage, to: [ProcessID])
}

/// The timers of a loop.
public enum LoopTimer: Sendable {
    /// The time for which the partition set it.
    case partition(PartitionID, MonotonicTime)
    case deadlines
    case retryMoved
    case quotas
    case readAgain(PartitionID, [Sequence], bytesMax: Int, token: UInt64)
    case loadAgain(PartitionID)
    case confirmAgain(PartitionID, token: UInt64)
    /// For a process to which a frame could not be handed over.
    case unreachable(ProcessID)
    case reattach(PartitionID)
    /// For streams up to this number that no partition has accepted.
    case unopened(upTo: UInt64)
    /// For streams that wait for room in the link to their gateway.
    case readOn
    /// Runs while the loop doubts the wall clock.
    case clock
    /// For messages whose push service has not answered.
    case pushes
}
