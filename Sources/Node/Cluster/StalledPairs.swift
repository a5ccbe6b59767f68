import Logging
import Model
import Ownership
import Synchronization

/// Stalled outboxes of this node's partitions, or conditions, for operators (rule: outboxes-move).
final class StalledPairs: Sendable {
    typealias Pair = Ownership.NodeInfo.Stalled.Pair
    enum Kind {
        case outboxes
        case conditions

        fileprivate var begins: Logger.Message {
            switch self {
            case .outboxes: "an outbox stands still: its receiver has an owner and takes nothing"
            case .conditions: "a condition stands still: a partition that has an owner does not answer"
            }
        }
        fileprivate var ends: Logger.Message {
            switch self {
            case .outboxes: "no outbox stands still any more"
            case .conditions: "no condition stands still any more"
            }
        }
    }
    private let kind: Kind
    private let pairs = Mutex<Set<Pair>>([])

    init(_ kind: Kind) { self.kind = kind }

    var count: Int { pairs.withLock(\.count) }
    /// Ascending by sender, then by receiver.
    var all: [Pair] { pairs.withLock { $0.sorted { ($0.from, $0.to) < ($1.from, $1.to) } } }

    /// One line reports the first of them: if a partition takes nothing, all its senders stall.
    func begin(_ from: PartitionID, to: PartitionID, _ log: Logger) {
        let isFirst = pairs.withLock { pairs in
            let isFirst = pairs.isEmpty
            pairs.insert(Pair(from: from, to: to))
            return isFirst
        }
        guard isFirst else { return }
        log.warning(
            kind.begins, metadata: ["partition": "\(from.rawValue)", "to": "\(to.rawValue)"])
    }

    func end(_ from: PartitionID, to: PartitionID, _ log: Logger) {
        remove(log) { $0.remove(Pair(from: from, to: to)) }
    }

    /// The partition's machine is gone; the next one looks by itself.
    func forget(_ from: PartitionID, _ log: Logger) {
        remove(log) { pairs in pairs = pairs.filter { $0.from != from } }
    }

    private func remove(_ log: Logger, _ change: (inout Set<Pair>) -> Void) {
        let isLast = pairs.withLock { pairs in
            let before = pairs.count
            if before > 0 { change(&pairs) }
            return pairs.isEmpty && before > 0
        }
        if isLast { log.notice(kind.ends) }
    }
}
