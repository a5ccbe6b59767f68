import Model

/// When a loop makes the text of the metrics: once for all who ask within `apart`, and never before they have
/// asked, so that whoever did something first sees it.
struct ScrapePace {
    /// Between two texts of a loop. One costs some hundred microseconds.
    static let apart: UInt64 = .milliseconds(100)

    private var last: MonotonicTime?
    private var isDue = false

    /// Somebody asks. In how many nanoseconds the text is to be made; `nil` where that was said before.
    mutating func ask(now: MonotonicTime) -> UInt64? {
        guard !isDue else { return nil }
        isDue = true
        guard let last, now < last.advanced(by: ScrapePace.apart) else { return 0 }
        return last.advanced(by: ScrapePace.apart).since(now)
    }

    /// The text is made, for all who have asked.
    mutating func made(now: MonotonicTime) {
        isDue = false
        last = now
    }
}
