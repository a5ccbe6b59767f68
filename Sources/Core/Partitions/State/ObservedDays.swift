import Model

/// The days that a partition's facts have shown, as far as the ends of devices need them (rule:
/// wall-time-is-a-witness).
///
/// A time in which no process served the partition is no absence of its devices. It may also be no time at
/// all: a clock was wrong before, or is now. So after such a rest each device has its whole time again.
struct ObservedDays: Equatable {
    /// The day of the newest fact; day 0 if there is none.
    private(set) var newest = Day(0)
    /// The first day after the newest rest.
    private(set) var since = Day(0)

    init() {}
    init(newest: Day, since: Day) { (self.newest, self.since) = (newest, since) }

    mutating func observe(_ day: Day) {
        since = since(on: day)
        newest = day
    }

    /// The first day after the newest rest, if a fact of `today` were the next one. It is never later than
    /// today: a clock that was ahead for a time keeps no device for years.
    func since(on today: Day) -> Day {
        Int(today.rawValue) - Int(newest.rawValue) > Int(StoredRules.restDaysMax) ? today : min(since, today)
    }
}
