import Logging
import Model
import Ownership
import Synchronization

/// Partitions whose records their engine refuses at the moment, for operators.
final class JournalRefusals: Sendable {
    struct Refusal: Sendable {
        var partition: PartitionID
        var since: MonotonicTime
        var reason: String
    }
    private struct Known {
        var refusals: [PartitionID: Refusal] = [:]
        /// A full disk refuses every partition for the same reason, and one line is enough for all.
        var told = LogLimit<String>()
    }
    private let known = Mutex(Known())

    /// The node's status shows a refusal only after this long.
    static let lasting: TimeSpan = .seconds(5)

    func begin(_ partition: PartitionID, _ reason: String, now: MonotonicTime, log: Logger) {
        let withheld = known.withLock { known in
            known.refusals[partition, default: Refusal(partition: partition, since: now, reason: reason)]
                .reason = reason
            return known.told.pass(reason, now: now)
        }
        guard let withheld else { return }
        log.warning(
            "the engine refuses records: they wait, and are appended again",
            metadata: JournalRefusals.metadata(partition, withheld).merging(["reason": "\(reason)"]) { $1 })
    }

    func end(_ partition: PartitionID, now: MonotonicTime, _ log: Logger) {
        let (refusal, withheld) = known.withLock { known in
            let refusal = known.refusals.removeValue(forKey: partition)
            return (refusal, refusal == nil ? nil : known.told.pass("", now: now))
        }
        guard let refusal, let withheld else { return }
        var metadata = JournalRefusals.metadata(partition, withheld)
        metadata["milliseconds"] = "\(now.since(refusal.since).milliseconds)"
        log.notice("the engine takes records again", metadata: metadata)
    }

    /// The partition's machine is gone, and the records that waited with it.
    func forget(_ partition: PartitionID) { known.withLock { $0.refusals[partition] = nil } }

    var count: Int { known.withLock { $0.refusals.count } }

    /// The refusals that have lasted long enough to be reported.
    func lasting(now: MonotonicTime) -> [Refusal] {
        known.withLock { Array($0.refusals.values) }
            .filter { now.since($0.since) >= JournalRefusals.lasting }.sorted { $0.partition < $1.partition }
    }

    private static func metadata(_ partition: PartitionID, _ withheld: Int) -> Logger.Metadata {
        var metadata: Logger.Metadata = ["partition": "\(partition.rawValue)"]
        if withheld > 0 { metadata["withheld"] = "\(withheld)" }
        return metadata
    }
}

extension NodeShared {
    /// The answer of `/readyz` while the node is ready.
    var readyWord: String {
        let refusals = refusals.lasting(now: Clock.monotonic())
        var words: [String] = []
        if !quarantined.isEmpty {
            let reason = quarantined.first.map { " (\($0.reason))" } ?? ""
            words.append("quarantined partitions: \(NodeShared.list(quarantined.map(\.partition)))\(reason)")
        }
        if let first = refusals.min(by: { $0.since < $1.since }) {
            let seconds = Clock.monotonic().since(first.since).seconds
            words.append(
                "partitions whose records the engine refuses: \(NodeShared.list(refusals.map(\.partition)))"
                    + " (for \(seconds) s: \(first.reason))")
        }
        if let word = unconfirmedClock.word { words.append(word) }
        return words.isEmpty ? "ready" : "ready, but for " + words.joined(separator: "; for ")
    }

    private static let listed = 16

    static func list(_ partitions: [PartitionID]) -> String {
        let numbers = partitions.prefix(listed).map { "\($0.rawValue)" }.joined(separator: ", ")
        return partitions.count > listed ? "\(numbers) and \(partitions.count - listed) more" : numbers
    }
}
