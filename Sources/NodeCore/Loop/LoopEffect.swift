import Journal
import Model
import Partitions
import Quotas
import Routing

/// What a loop's core wants done. The shell carries effects out in their order; those that have an answer
/// name the message in which it comes.
public enum LoopEffect: Sendable {
    // To clients.
    case finish(ticket: UInt64, Outcome)
    case levels([BucketLevel], question: UInt64)

    // To other loops and processes.
    /// Messages for another loop wait: fetch them with `takeMessages`.
    case post(toLoop: Int)
    /// One frame for another process. Answered by `sent`.
    case send([UInt8], to: UInt32)

    // To the engine of the partition's database.
    case open(PartitionID, next: Sequence)
    /// Drop what waits of the partition, and settle what is in flight. Answered by `.closed`.
    case close(PartitionID)
    case append([Row])
    /// Whether this session lives. Answered by `.confirmed` to the partition, by `.lost`, or by
    /// `.confirmFailed`.
    case confirm(PartitionID, token: UInt64)
    /// Answered by `.records` to the partition, or by `.readFailed`.
    case readRecords(PartitionID, [Sequence], bytesMax: Int, token: UInt64)
    /// A part of one. Answered by `.snapshotPart` or `.snapshotFailed` to the partition.
    case writeSnapshot(PartitionID, covering: Sequence, SnapshotPart, token: UInt64)
    /// Delete a slice. Answered by `.trimmed` or `.trimFailed`.
    case trim(PartitionID, below: Sequence, keeping: [Sequence])
    /// Read the partition behind the mark, or whole, and in a cluster what its owner of the epoch before left
    /// in the buckets. Answered by `.loaded` or `.loadFailed`.
    case load(PartitionID, Epoch, behind: StoredPartition.Mark?)

    // To the node's control side.
    /// The partition's machine could not go on.
    case lost(PartitionID)
    /// The partition was read and serves.
    case serving(PartitionID)
    /// The partition's machine has ended, nothing of it is in flight, and this is left in the buckets of its
    /// projects.
    case gaveUp(PartitionID, Epoch, left: [ProjectNumber: [UInt64]])
    /// The partition was read while another process owns it.
    case followed(PartitionID)
    /// Something is missing here that the tables may have: look at them.
    case look

    /// Answered by `.timer`.
    case wake(LoopTimer, at: MonotonicTime)
    case noted(LoopNote)
}

/// What operators are told, in logs and in counters.
public enum LoopNote: Sendable {
    /// A request was dropped unread, past its deadline.
    case requestLate
    /// A client's request or stream was refused before anything happened: whoever would have it is behind.
    case refusedBehind
    /// Something that is said again anyway was not said to a loop that is full.
    case leftOut
    /// A frame could not be handed to a connection.
    case frameLost(to: UInt32)
    case partitionLost(PartitionID, reason: String)
    /// What was read of the partition cannot be folded. It is not served here, and kept for a look.
    case quarantined(PartitionID, reason: String)
    /// The partition is another's now.
    case dropped(PartitionID)
    case fingerprintsDiffer(PartitionID, with: PartitionID)
    /// Whether the loop, or a partition on it, doubts the clock on the wall now.
    case clockDoubted(Bool)
    /// What a partition has to say to the operator.
    case partition(PartitionID, PartitionNotice)
}
