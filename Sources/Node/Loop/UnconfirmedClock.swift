import Logging
import Synchronization

/// What loops report of a wall clock that is far from the last known time. The node serves, and nothing
/// expires.
final class UnconfirmedClock: Sendable {
    /// Milliseconds by which the clock is ahead of the last known time, by loop.
    private let loops = Mutex<[Int: Int64]>([:])

    func tell(_ ahead: Int64?, loop: Int, _ log: Logger) {
        let (was, now) = loops.withLock { loops in
            let was = loops.isEmpty
            loops[loop] = ahead
            return (was, loops.isEmpty)
        }
        if was, let ahead {
            log.error(
                "the wall clock is far from the last known time: nothing expires until it is confirmed",
                metadata: ["aheadSeconds": "\(ahead / 1000)"])
        } else if !was, now {
            log.notice("the wall clock is confirmed")
        }
    }

    /// For the answer of `/readyz`.
    var word: String? {
        guard let ahead = loops.withLock(\.values.first) else { return nil }
        let hours = ahead.magnitude / 3_600_000
        return "a wall clock that is \(hours) hours \(ahead > 0 ? "ahead of" : "behind") the last known time:"
            + " nothing expires until it is confirmed"
    }
}
