/// A length of time in whole nanoseconds, 0 to 584 years. (Swift's `Duration` counts attoseconds in 128 bits,
/// with a sign, which every timer of a stream would carry.)
///
/// `+`, `-`, `*` and the makers trap if the result does not fit, like those of integers; `/` rounds down. If
/// a length may be the longer one, `MonotonicTime.since` and `reduced(by:)` end at 0.
public struct TimeSpan: Hashable, Comparable, Sendable {
    public let nanoseconds: UInt64

    @inlinable
    public init(nanoseconds: UInt64) { self.nanoseconds = nanoseconds }
    @inlinable
    public static func nanoseconds(_ count: UInt64) -> TimeSpan { TimeSpan(nanoseconds: count) }
    @inlinable
    public static func microseconds(_ count: UInt64) -> TimeSpan { TimeSpan(nanoseconds: count * 1000) }
    @inlinable
    public static func milliseconds(_ count: UInt64) -> TimeSpan { TimeSpan(nanoseconds: count * 1_000_000) }
    @inlinable
    public static func seconds(_ count: UInt64) -> TimeSpan { TimeSpan(nanoseconds: count * 1_000_000_000) }

    public static let zero = TimeSpan(nanoseconds: 0)
    /// Longer than any machine runs.
    public static let max = TimeSpan(nanoseconds: .max)

    /// Whole milliseconds, rounded down.
    @inlinable
    public var milliseconds: UInt64 { nanoseconds / 1_000_000 }
    /// Whole microseconds, rounded down.
    @inlinable
    public var microseconds: UInt64 { nanoseconds / 1000 }
    /// Whole seconds, rounded down.
    @inlinable
    public var seconds: UInt64 { nanoseconds / 1_000_000_000 }

    @inlinable
    public static func < (left: TimeSpan, right: TimeSpan) -> Bool { left.nanoseconds < right.nanoseconds }
    @inlinable
    public static func + (left: TimeSpan, right: TimeSpan) -> TimeSpan {
        TimeSpan(nanoseconds: left.nanoseconds + right.nanoseconds)
    }
    @inlinable
    public static func - (left: TimeSpan, right: TimeSpan) -> TimeSpan {
        TimeSpan(nanoseconds: left.nanoseconds - right.nanoseconds)
    }
    @inlinable
    public static func += (left: inout TimeSpan, right: TimeSpan) { left = left + right }
    @inlinable
    public static func * (left: TimeSpan, right: UInt64) -> TimeSpan {
        TimeSpan(nanoseconds: left.nanoseconds * right)
    }
    @inlinable
    public static func * (left: UInt64, right: TimeSpan) -> TimeSpan { right * left }
    @inlinable
    public static func / (left: TimeSpan, right: UInt64) -> TimeSpan {
        TimeSpan(nanoseconds: left.nanoseconds / right)
    }
    /// How many times the right length goes into the left one.
    @inlinable
    public static func / (left: TimeSpan, right: TimeSpan) -> UInt64 { left.nanoseconds / right.nanoseconds }
    @inlinable
    public static func % (left: TimeSpan, right: TimeSpan) -> TimeSpan {
        TimeSpan(nanoseconds: left.nanoseconds % right.nanoseconds)
    }

    /// The length without `other`; 0 if `other` is longer.
    @inlinable
    public func reduced(by other: TimeSpan) -> TimeSpan {
        self > other ? self - other : TimeSpan(nanoseconds: 0)
    }
    /// The length after so many doublings; `max` if it is longer than that.
    @inlinable
    public func doubled(times count: some BinaryInteger) -> TimeSpan {
        // A count that does not fit into the bits in front of the length would push out a part of it.
        guard nanoseconds > 0, count >= nanoseconds.leadingZeroBitCount + 1 else {
            return TimeSpan(nanoseconds: nanoseconds << count)
        }
        return TimeSpan(nanoseconds: .max)
    }

    /// Draws from the range as `UInt64.random` draws.
    @inlinable
    public static func random(
        in range: ClosedRange<TimeSpan>, using generator: inout some RandomNumberGenerator
    ) -> TimeSpan {
        TimeSpan(
            nanoseconds: .random(
                in: range.lowerBound.nanoseconds...range.upperBound.nanoseconds, using: &generator))
    }
}

extension RandomNumberGenerator {
    /// A length below `bound`, drawn as an integer is.
    @inlinable
    public mutating func next(upperBound bound: TimeSpan) -> TimeSpan {
        TimeSpan(nanoseconds: next(upperBound: bound.nanoseconds))
    }
}

/// A point on a monotonic clock with an arbitrary zero. Leases, quotas and deadlines run on it.
public struct MonotonicTime: Hashable, Comparable, Sendable {
    /// Since the clock's zero.
    public let nanoseconds: UInt64
    public init(nanoseconds: UInt64) { self.nanoseconds = nanoseconds }
    /// The time at which the clock shows `sinceZero`.
    public init(_ sinceZero: TimeSpan) { nanoseconds = sinceZero.nanoseconds }
    public static let zero = MonotonicTime(nanoseconds: 0)
    /// After every time that a clock shows.
    public static let max = MonotonicTime(nanoseconds: .max)
    public static func < (left: MonotonicTime, right: MonotonicTime) -> Bool {
        left.nanoseconds < right.nanoseconds
    }
    public func advanced(by length: TimeSpan) -> MonotonicTime {
        MonotonicTime(nanoseconds: nanoseconds &+ length.nanoseconds)
    }
    public static func + (left: MonotonicTime, right: TimeSpan) -> MonotonicTime { left.advanced(by: right) }
    /// The time `length` earlier; the clock's zero if that is less than `length` ago.
    public func rewound(by length: TimeSpan) -> MonotonicTime {
        MonotonicTime(nanoseconds: nanoseconds > length.nanoseconds ? nanoseconds - length.nanoseconds : 0)
    }
    /// The time since `earlier`; 0 if `earlier` is later.
    public func since(_ earlier: MonotonicTime) -> TimeSpan {
        TimeSpan(
            nanoseconds: nanoseconds > earlier.nanoseconds ? nanoseconds - earlier.nanoseconds : 0)
    }
}

/// Milliseconds since 1970-01-01T00:00:00Z. Only for times that must outlive a process (expiry, dates).
public struct WallTime: Hashable, Comparable, Sendable {
    public let milliseconds: Int64
    public init(milliseconds: Int64) { self.milliseconds = milliseconds }
    public static func < (left: WallTime, right: WallTime) -> Bool { left.milliseconds < right.milliseconds }
    /// Days since 1970-01-01, the date of subscriptions and devices.
    public var day: Day { Day(UInt16(clamping: milliseconds / 86_400_000)) }
}

/// Days since 1970-01-01 in 16 bits (until the year 2149).
public struct Day: Hashable, Comparable, Sendable {
    public let rawValue: UInt16
    public init(_ rawValue: UInt16) { self.rawValue = rawValue }
    public static func < (left: Day, right: Day) -> Bool { left.rawValue < right.rawValue }
}

/// The time as a core machine gets it: both clocks, read once for each event.
public struct Instant: Hashable, Sendable {
    public var monotonic: MonotonicTime
    public var wall: WallTime
    public init(monotonic: MonotonicTime, wall: WallTime) {
        self.monotonic = monotonic
        self.wall = wall
    }
}
