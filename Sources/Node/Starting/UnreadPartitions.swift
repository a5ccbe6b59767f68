import Model
import Partitions
import Synchronization

/// Partitions that a lone server could not read as it started. No other node owns them, so the server is not
/// ready while it reads them again. If a part of the data folder is missing, as in a copy without snapshots,
/// it stays so: to serve would make the copy the data.
final class UnreadPartitions: Sendable {
    private struct Unread {
        var reason: String
        var isIncomplete: Bool
    }
    private let partitions = Mutex<[PartitionID: Unread]>([:])

    func add(_ partition: PartitionID, _ error: any Error) {
        var isIncomplete = false
        switch error as? RecoveryError {
        case .gap(_, _, _, let isFirst): isIncomplete = isFirst
        case .snapshots: isIncomplete = true
        case .epoch, nil: break
        }
        let unread = Unread(reason: "\(error)", isIncomplete: isIncomplete)
        partitions.withLock { $0[partition] = unread }
    }

    func forget(_ partition: PartitionID) { partitions.withLock { $0[partition] = nil } }

    /// The partition is not read again.
    func quarantined(_ partition: PartitionID) {
        partitions.withLock { if $0[partition]?.isIncomplete == false { $0[partition] = nil } }
    }

    /// Why the server is not ready: the first partition with its reason, and the numbers of all.
    var reason: String? {
        let unread = partitions.withLock { $0 }
        guard let first = unread.min(by: { $0.key < $1.key }) else { return nil }
        let numbers = NodeShared.list(unread.keys.sorted())
        return "partitions that cannot be read: \(numbers) (\(first.value.reason))"
    }
}
