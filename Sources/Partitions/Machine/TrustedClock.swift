import Model

/// The clock on the wall, as far as it is believed (rule: wall-time-is-a-witness).
///
/// It can be set, to anything, and a machine that slept goes on with another time. So it is compared with the
/// clock that only runs: when the two have come apart by more than `leapMax` within an hour, the time that is
/// told goes on with the latter until they agree again, or somebody vouches for the new one. The time that is
/// told falls only when somebody vouches for an earlier one.
public struct TrustedClock: Sendable {
    /// Milliseconds.
    public static let leapMax: Int64 = 3_600_000

    private var anchor: Instant
    private var last: Instant
    /// Milliseconds by which the wall clock is ahead of what is believed, where it is not believed; negative
    /// where it is behind.
    public private(set) var leap: Int64?

    /// The first reading is believed: there is nothing to compare it with.
    public init(_ now: Instant) {
        anchor = now
        last = now
    }

    public var isTrusted: Bool { leap == nil }

    /// What is believed of a reading.
    public mutating func read(_ now: Instant) -> WallTime {
        if now.monotonic == last.monotonic, isTrusted, now.wall <= last.wall { return last.wall }
        let elapsed = Int64(clamping: now.monotonic.since(anchor.monotonic) / 1_000_000)
        let expected = TrustedClock.sum(anchor.wall.milliseconds, elapsed)
        let ahead = TrustedClock.sum(now.wall.milliseconds, -expected)
        if ahead.magnitude > TrustedClock.leapMax.magnitude {
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

    /// Another clock, that of a database say, agrees with this reading: it is believed, also where it is
    /// behind what was believed before.
    public mutating func vouch(for now: Instant) {
        anchor = now
        last = now
        leap = nil
    }

    /// Of times that nobody has reached.
    private static func sum(_ one: Int64, _ other: Int64) -> Int64 {
        let (sum, overflow) = one.addingReportingOverflow(other)
        return overflow ? (one < 0 ? -.max : .max) : sum
    }
}
