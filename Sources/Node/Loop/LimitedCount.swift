import Logging
import Model
import Ownership
import Synchronization

/// Counts what users have lost, and reports it with a sentence at most once a minute.
final class LimitedCount: Sendable {
    private struct Counts {
        var all = 0
        var told = 0
        var limit = LogLimit<Bool>()
    }
    private let counts = Mutex(Counts())
    private let sentence: String
    /// The name of what is counted, in the log.
    private let unit: String

    init(_ sentence: String, of unit: String) { (self.sentence, self.unit) = (sentence, unit) }

    var all: Int { counts.withLock(\.all) }

    func add(_ more: Int, now: MonotonicTime, _ log: Logger) {
        let untold = counts.withLock { counts -> Int? in
            counts.all += more
            guard counts.limit.pass(true, now: now) != nil else { return nil }
            defer { counts.told = counts.all }
            return counts.all - counts.told
        }
        guard let untold else { return }
        log.warning("\(sentence)", metadata: ["\(unit)": "\(untold)"])
    }
}
