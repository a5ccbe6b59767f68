import Model

/// The wall clock, as far as the node believes it (rule: wall-time-is-a-witness).
///
/// Anybody can set a wall clock, to anything, and a machine that slept goes on with another time. So the wall
/// clock is compared with the monotonic clock. Where the two have come apart by more than `leapMax` within an
/// hour, the believed time goes on with the monotonic clock. That ends when the two agree again, or when
/// another clock vouches for the new time. The believed time falls only where another clock vouches for an
/// earlier time.
public struct TrustedClock: Sendable {
    public static let leapMax: TimeSpan = .seconds(3600)

    private var anchor: Instant
    private var last: Instant
    /// Milliseconds by which the wall clock is ahead of the believed time, negative where it is behind; `nil`
    /// where the wall clock is believed.
    public private(set) var leap: Int64?

    /// The first reading is believed: there is nothing to compare it with.
    public init(_ now: Instant) {
        anchor = now
        last = now
    }

    public var isTrusted: Bool { leap == nil }
    /// The believed wall time of the last reading.
    var latest: WallTime { last.wall }

    /// The believed wall time of a reading.
    public mutating func read(_ now: Instant) -> WallTime {
        if now.monotonic == last.monotonic, isTrusted, now.wall <= last.wall { return last.wall }
        let elapsed = now.monotonic.since(anchor.monotonic)
        let expected = TrustedClock.sum(anchor.wall.milliseconds, Int64(clamping: elapsed.milliseconds))
        let ahead = TrustedClock.sum(now.wall.milliseconds, -expected)
        if ahead.magnitude > TrustedClock.leapMax.milliseconds {
            leap = ahead
            last.wall = max(last.wall, WallTime(milliseconds: expected))
        } else {
            leap = nil
            last.wall = max(last.wall, now.wall)
            if elapsed >= TrustedClock.leapMax { anchor = now }
        }
        last.monotonic = now.monotonic
        return last.wall
    }

    /// Another clock, as that of a database, agrees with this reading. The reading is believed, also where it
    /// is before the time that was believed.
    public mutating func vouch(for now: Instant) {
        anchor = now
        last = now
        leap = nil
    }

    /// A sum that stops at the ends of the range, for times that nobody has reached.
    private static func sum(_ one: Int64, _ other: Int64) -> Int64 {
        let (sum, overflow) = one.addingReportingOverflow(other)
        return overflow ? (one < 0 ? -.max : .max) : sum
    }
}
