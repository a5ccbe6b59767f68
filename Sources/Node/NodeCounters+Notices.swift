import Logging
import Model
import Partitions
import Synchronization

extension NodeCounters {
    /// Counts and logs what a partition reports to the operator.
    func note(_ notice: PartitionNotice, of partition: PartitionID, _ log: Logger) {
        let place: Logger.Metadata = ["partition": "\(partition.rawValue)"]
        switch notice {
        case .bodiesGone(let count):
            bodiesGone.add(count, ordering: .relaxed)
            log.error(
                "\(count) messages that devices wait for are not in the journal any more; the devices are told",
                metadata: place)
        case .clockLeapt(let milliseconds):
            clockLeaps.add(1, ordering: .relaxed)
            log.error(
                "the wall clock is \(milliseconds) ms ahead of the monotonic one: nothing expires until they agree",
                metadata: place)
        case .journalRefuses, .journalTakes: break
        case .clockAgrees:
            log.notice("the wall clock agrees with the monotonic one again", metadata: place)
        }
    }
}
