import Journal
import Model
import Partitions
import Quotas
import Routing

/// The effects of a loop's core. The shell carries them out in their order; an effect that has an answer
/// names the message in which the answer comes.
public enum LoopEffect: Sendable {
    // To clients.
    case finish(ticket: UInt64, Outcome)
    case levels([BucketLevel], question: UInt64)

    // To other loops and processes.
    /// Messages wait for another loop: fetch them with `takeMessages`.
    case post(toLoop: Int)
    /// One frame for another process. Answered by `sent`.
    case send([UInt8], to: ProcessID)

    // To push services.
    /// Answered by `.pushed`.
    case push(PushSend)

    // To the engine of the partition's database.
    case open(PartitionID, next: Sequence)
    /// Drop the partition's records that wait, and settle those in flight. Answered by `.closed`.
    case close(PartitionID)
    case append([Row])
    /// Ask whether this session lives. Answered by `.confirmed` to the partition, by `.lost`, or by
    /// `.confirmFailed`.
    case confirm(PartitionID, token: UInt64)
    /// Answered by `.records` to the partition, or by `.readFailed`.
    case readRecords(PartitionID, [Sequence], bytesMax: Int, token: UInt64)
    /// Write a part of a snapshot. Answered by `.snapshotPart` or `.snapshotFailed` to the partition.
    case writeSnapshot(PartitionID, covering: Sequence, SnapshotPart, token: UInt64)
    /// Delete a slice. Answered by `.trimmed` or `.trimFailed`.
    case trim(PartitionID, below: Sequence, keeping: [Sequence])
    /// Read the partition behind the mark, or whole; in a cluster also the tokens that the owner of the epoch
    /// before left in the buckets. Answered by `.loaded` or `.loadFailed`.
    case load(PartitionID, Epoch, behind: StoredPartition.Mark?)

    // To the node's control side.
    /// The partition's machine could not go on.
    case lost(PartitionID)
    /// The loop has read the partition and serves it, or has quarantined it.
    case serving(PartitionID)
    /// The partition's machine has ended and nothing of it is in flight; `left` are the tokens in the buckets
    /// of its projects.
    case gaveUp(PartitionID, Epoch, left: [ProjectNumber: [UInt64]])
    /// The loop has read the partition while another process owns it.
    case followed(PartitionID)
    /// The loop lacks something that the tables may have: look at them.
    case look

    /// Answered by `.timer`.
    case wake(LoopTimer, at: MonotonicTime)
    case noted(LoopNote)
}

/// News for operators, in logs and in counters.
public enum LoopNote: Sendable {
    /// The loop dropped a request unread, past its deadline.
    case requestLate
    /// The loop refused a client's request or stream before anything happened: the partition's owner is
    /// behind.
    case refusedBehind
    /// The loop did not send a message that its protocol repeats anyway: the receiving loop is full.
    case leftOut
    /// The loop did not believe a process that spoke in the name of a partition which it does not own. Who
    /// waits for the partition's word asks again, and an outbox is offered again.
    case wordRefused(of: PartitionID, by: ProcessID)
    /// A frame could not be handed to a connection.
    case frameLost(to: ProcessID)
    case partitionLost(PartitionID, reason: String)
    /// The partition cannot be read, folded or written. The loop keeps it, unserved, for an operator.
    case quarantined(PartitionID, reason: String)
    /// The loop has thrown the partition's machine away: this process does not serve it any more.
    case dropped(PartitionID)
    case fingerprintsDiffer(PartitionID, with: PartitionID)
    /// Whether the loop, or a partition on it, doubts the wall clock now.
    case clockDoubted(Bool)
    /// A former run contradicts the wall clock by so many milliseconds; `nil`: not any more.
    case clockUnconfirmed(ahead: Int64?)
    /// A push service has answered.
    case pushed(Transport.Kind, PushOutcome)
    /// A push service says of many devices in a row that they are gone, and is left alone.
    case doubtedDevices(PushOrigin)
    /// A partition's notice to operators.
    case partition(PartitionID, PartitionNotice)
}
