import Logging
import Model
import Partitions
import Synchronization

extension NodeCounters {
    /// Counts and logs what a partition reports to the operator.
    func note(_ notice: PartitionNotice, of partition: PartitionID, _ log: Logger) {
        let metadata: Logger.Metadata = ["partition": "\(partition.rawValue)"]
        switch notice {
        case .bodiesGone(let count):
            bodiesGone.add(count, ordering: .relaxed)
            log.error(
                "the journal lacks the bodies of \(count) waiting messages; their devices are told",
                metadata: metadata)
        case .markMended(let other):
            marksMended.add(1, ordering: .relaxed)
            log.error(
                "the mark of another partition's outbox did not fit it, and was set right",
                metadata: ["partition": "\(partition.rawValue)", "outbox": "\(other.rawValue)"])
        case .cameLate(let count): cameLate.add(count, now: Clock.monotonic(), log)
        case .undecided(_, let partitions, isOver: true):
            undecided.add(partitions.count, now: Clock.monotonic(), log)
        case .undecided(_, let partitions, isOver: false):
            answeredUndecided.add(partitions.count, ordering: .relaxed)
        case .dropped(let drops): add(drops)
        case .pushesEnded(let counts):
            for (kind, count) in counts { pushes.note(.expired, of: kind, count) }
        case .pushedAgain: pushedAgain.add(1, now: Clock.monotonic(), log)
        case .deviceEnds(.unseen): unseenEnded.add(1, now: Clock.monotonic(), log)
        case .deviceEnds(.unreachable): unreachableEnded.add(1, now: Clock.monotonic(), log)
        case .goneHeld(let project, let kind):
            pushes.note(.doubted, of: kind)
            log.warning(
                "too many of a project's devices would be gone in a day: their messages are held",
                metadata: metadata.merging([
                    "project": "\(project.rawValue)", "service": "\(kind.word)",
                ]) { $1 })
        case .clockLeapt(let milliseconds):
            clockLeaps.add(1, ordering: .relaxed)
            log.error(
                "the wall clock is \(milliseconds) ms ahead of the monotonic clock: nothing expires now",
                metadata: metadata)
        case .journalRefuses, .journalTakes, .outboxStalls, .outboxMoves, .conditionStalls, .conditionMoves:
            break
        case .clockAgrees:
            log.notice("the wall clock agrees with the monotonic clock again", metadata: metadata)
        }
    }
}
