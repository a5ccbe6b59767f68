import Model

/// Lets a log line through only so often: at most `linesMax` times a minute for each key.
public struct LogLimit<Key: Hashable & Sendable>: Sendable {
    private struct Minute {
        var began: MonotonicTime
        var lines = 0
        var withheld = 0
    }

    private static var minute: UInt64 { .seconds(60) }
    /// Keys may come from other machines: past so many, those whose minute is over are forgotten, and no
    /// line of a new key passes while there are none.
    private static var keysMax: Int { 4096 }

    private let linesMax: Int
    private var minutes: [Key: Minute] = [:]

    public init(linesMax: Int = 1) { self.linesMax = linesMax }

    /// How many lines of this key were withheld since the last one that passed; `nil` where this one is
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
