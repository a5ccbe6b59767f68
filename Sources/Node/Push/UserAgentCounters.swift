import FCMAPI
import Synchronization

/// What user agents of projects that are push services did.
final class UserAgentCounters: Sendable {
    /// What became of messages, with the words of the metrics.
    static let outcomes: [(word: String, note: PushServiceNote)] =
        PushServiceNote.Fate.allCases.map { ($0.rawValue, .acknowledged($0)) }
        + [("complained", .complained), ("lost", .lost), ("skipped", .skipped)]

    let open = Atomic<Int>(0)
    private let counts = Mutex<[PushServiceNote: Int]>([:])

    func note(_ note: PushServiceNote) { counts.withLock { $0[note, default: 0] += 1 } }
    func count(_ note: PushServiceNote) -> Int { counts.withLock { $0[note] ?? 0 } }
}
