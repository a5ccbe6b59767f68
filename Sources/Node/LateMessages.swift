import Logging
import Model
import Ownership
import Synchronization

/// Counts the messages that came to their devices' partition after their end, and tells of them at most once
/// a minute.
final class LateMessages: Sendable {
    private struct Counts {
        var all = 0
        var told = 0
        var limit = LogLimit<Bool>()
    }
    private let counts = Mutex(Counts())

    var all: Int { counts.withLock(\.all) }

    func add(_ more: Int, now: MonotonicTime, _ log: Logger) {
        let untold = counts.withLock { counts -> Int? in
            counts.all += more
            guard counts.limit.pass(true, now: now) != nil else { return nil }
            defer { counts.told = counts.all }
            return counts.all - counts.told
        }
        guard let untold else { return }
        log.warning(
            "messages came to their devices' partition after their time to live: streams do not get them",
            metadata: ["messages": "\(untold)"])
    }
}
