import Model

/// When a loop makes the text of the metrics: once for all clients that ask within `apart`, and never before
/// they ask. So a client that did something first sees its effect.
struct ScrapePace {
    /// The time between two texts of a loop. A text costs some hundred microseconds.
    static let apart: TimeSpan = .milliseconds(100)

    private var last: MonotonicTime?
    private var isDue = false

    /// A client asks. Returns after how long the loop must make the text; `nil` if the loop knows
    /// that already.
    mutating func ask(now: MonotonicTime) -> TimeSpan? {
        guard !isDue else { return nil }
        isDue = true
        guard let last, now < last.advanced(by: ScrapePace.apart) else { return .zero }
        return last.advanced(by: ScrapePace.apart).since(now)
    }

    /// The text is made for all clients that have asked.
    mutating func made(now: MonotonicTime) {
        isDue = false
        last = now
    }
}
