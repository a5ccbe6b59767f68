import Model

/// Bounds log lines about names that strangers can invent, such as hosts below a wildcard: `LogLimit` lets
/// one line through for each name. Of each key the first names of a minute pass, once each; the others are
/// counted.
public struct NameLimit<Key: Hashable & Sendable>: Sendable {
    /// What did not pass since the last line of the key that passed.
    public struct Withheld: Hashable, Sendable {
        public var lines = 0
        /// Names without a line, at most `namesMax`.
        public var names = 0
    }

    private struct Minute {
        var began: MonotonicTime
        var told: Set<String> = []
        var lines = 0
        /// Hashes, because a name may be long.
        var others: Set<Int> = []
    }

    private static var minute: TimeSpan { .seconds(60) }
    private static var toldMax: Int { 4 }
    private static var namesMax: Int { 1000 }
    private var minutes: [Key: Minute] = [:]

    public init() {}

    /// `nil` if this line is withheld too. The number of keys must be bounded.
    public mutating func pass(_ key: Key, name: String, now: MonotonicTime) -> Withheld? {
        var minute = minutes.removeValue(forKey: key) ?? Minute(began: now)
        defer { minutes[key] = minute }
        if now.since(minute.began) >= NameLimit.minute {
            minute.began = now
            minute.told = []
        }
        guard !minute.told.contains(name), minute.told.count < NameLimit.toldMax else {
            minute.lines += 1
            if !minute.told.contains(name), minute.others.count < NameLimit.namesMax {
                minute.others.insert(name.hashValue)
            }
            return nil
        }
        minute.told.insert(name)
        minute.others.remove(name.hashValue)
        let withheld = Withheld(lines: minute.lines, names: minute.others.count)
        (minute.lines, minute.others) = (0, [])
        return withheld
    }
}
