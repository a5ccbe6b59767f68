import Model

/// What an operator should know of a partition.
public enum PartitionNotice: Hashable, Sendable {
    /// Bodies of this many messages that devices waited for are not in the journal any more.
    case bodiesGone(Int)
    /// This many messages came to this partition when their time to live on streams was over.
    case cameLate(Int)
    /// These partitions have not decided a condition. Its sender is answered without them; if the message's
    /// time is over, their devices do not get the message.
    case undecided(MessageID, at: [PartitionID], isOver: Bool)
    /// The messages that devices have lost by a record.
    case dropped(MessageDrops)
    /// Messages ended at these services before the services took them: one for each device.
    case pushesEnded([Transport.Kind: Int])
    /// A service gets a message that was stored under a former owner, which may have pushed it too.
    case pushedAgain(Transport.Kind)
    /// More addresses of a project would be gone than may be in a day: further words are held.
    case goneHeld(ProjectNumber, Transport.Kind)
    /// A device ends, since nobody has seen it for long, or all its addresses are long gone.
    case deviceEnds(Absence)
    /// The mark of this partition's outbox did not fit the outbox. The machine has set the mark right; what
    /// the outbox has let go of by a false acknowledgement is lost, but for the members of topics.
    case markMended(of: PartitionID)
    /// The outbox to this partition is stalled, or not any more.
    case outboxStalls(to: PartitionID)
    case outboxMoves(to: PartitionID)
    /// Conditions of this partition wait for this partition's answer, or not any more.
    case conditionStalls(at: PartitionID)
    case conditionMoves(at: PartitionID)
    /// The wall clock is this far ahead of the believed time, or behind if negative. Nothing expires and no
    /// device ends until the clock agrees again or another clock vouches for it.
    case clockLeapt(milliseconds: Int64)
    case clockAgrees
    /// The engine refuses the partition's records, which wait. `journalTakes`: the engine takes them again.
    case journalRefuses(String)
    case journalTakes
}

/// Why a device counts as gone without a request to end it.
public enum Absence: String, CaseIterable, Sendable { case unseen, unreachable }
