import Journal
import Model
import Partitions
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
    case call(DatabaseCall)

    // To the node's control side.
    /// The partition's machine could not go on.
    case lost(PartitionID)
    /// The loop has read the partition and serves it, or has quarantined it.
    case serving(PartitionID)
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
    /// A newer snapshot cannot be read: an older one and the records behind it are all that is there.
    case snapshotUnreadable(PartitionID, reason: String)
    /// The loop has thrown the partition's machine away: this process does not serve it any more.
    case dropped(PartitionID)
    case fingerprintsDiffer(PartitionID, with: PartitionID)
    /// Whether the loop, or a partition on it, doubts the wall clock now.
    case clockDoubted(Bool)
    /// An earlier run contradicts the wall clock by so many milliseconds; `nil`: not any more.
    case clockUnconfirmed(ahead: Int64?)
    /// A push service has answered.
    case pushed(Transport.Kind, PushOutcome)
    /// A push service answers for many devices in a row that they are gone: its circuit opens.
    case doubtedDevices(PushOrigin)
    /// A partition's notice to operators.
    case partition(PartitionID, PartitionNotice)
}
