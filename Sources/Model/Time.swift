/// Nanoseconds of a monotonic clock with an arbitrary zero. Leases, quotas and deadlines run on it.
public struct MonotonicTime: Hashable, Comparable, Sendable {
    public let nanoseconds: UInt64
    public init(nanoseconds: UInt64) { self.nanoseconds = nanoseconds }
    public static func < (left: MonotonicTime, right: MonotonicTime) -> Bool {
        left.nanoseconds < right.nanoseconds
    }
    public func advanced(by nanoseconds: UInt64) -> MonotonicTime {
        MonotonicTime(nanoseconds: self.nanoseconds &+ nanoseconds)
    }
    /// Nanoseconds since `earlier`; 0 where `earlier` is later.
    public func since(_ earlier: MonotonicTime) -> UInt64 {
        nanoseconds > earlier.nanoseconds ? nanoseconds - earlier.nanoseconds : 0
    }
}

extension UInt64 {
    public static func milliseconds(_ count: UInt64) -> UInt64 { count * 1_000_000 }
    public static func seconds(_ count: UInt64) -> UInt64 { count * 1_000_000_000 }
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
