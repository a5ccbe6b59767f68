import Model

/// Lets at most `linesMax` log lines a minute through for each key.
public struct LogLimit<Key: Hashable & Sendable>: Sendable {
    private struct Minute {
        var began: MonotonicTime
        var lines = 0
        var withheld = 0
    }

    private static var minute: TimeSpan { .seconds(60) }
    /// Keys may come from other machines. At this bound the limit forgets the keys whose minute is over; if
    /// it can forget none, no line of a new key passes.
    private static var keysMax: Int { 4096 }

    private let linesMax: Int
    private var minutes: [Key: Minute] = [:]

    public init(linesMax: Int = 1) { self.linesMax = linesMax }

    /// How many lines of this key were withheld since the last line that passed; `nil` if this line is
    /// withheld too.
    public mutating func pass(_ key: Key, now: MonotonicTime) -> Int? {
        if minutes[key] == nil, minutes.count >= LogLimit.keysMax {
            minutes = minutes.filter { now.since($0.value.began) < LogLimit.minute }
            guard minutes.count < LogLimit.keysMax else { return nil }
        }
        var minute = minutes[key] ?? Minute(began: now)
        let withheld = minute.withheld
        if now.since(minute.began) >= LogLimit.minute { minute = Minute(began: now, withheld: withheld) }
        guard minute.lines < linesMax else {
            minute.withheld += 1
            minutes[key] = minute
            return nil
        }
        minute.lines += 1
        minute.withheld = 0
        minutes[key] = minute
        return withheld
    }
}
