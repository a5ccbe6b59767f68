import Model

/// The wall clock, as far as the node believes it (rule: wall-time-is-a-witness).
///
/// Anybody can set a wall clock, to anything, and a machine that slept goes on with another time. So the wall
/// clock is compared with the monotonic clock. If the two have come apart by more than `leapMax` within as
/// long a time, the believed time goes on with the monotonic clock. That ends when the two agree again, when
/// another clock vouches for a new time that is not far, or when the wall clock has run evenly for
/// `confirmAfter`. The believed time falls only if another clock vouches for an earlier time, or if an
/// earlier time is confirmed.
///
/// The first reading is compared with a witness, the newest time that an earlier run has believed. A reading
/// far from it is unconfirmed, and the believed time goes on from the witness. So is a far reading for which
/// another clock vouches: both may be of one machine. That ends when the clock comes near, as with the first
/// answer of a time server, or when it has run evenly for `confirmAfter`.
public struct TrustedClock: Sendable {
    /// Less than an hour, the error of a clock that was set to another zone's time.
    public static let leapMax: TimeSpan = .seconds(2700)
    /// How near a clock that has leapt must come. Not as far as `leapMax`: a clock at this bound would be
    /// doubted and believed in turn.
    static let agreeMax: TimeSpan = .seconds(1350)
    /// How far a reading may be ahead of the witness, and behind it.
    public static let startAheadMax: TimeSpan = .seconds(7 * 86_400)
    public static let startBehindMax: TimeSpan = .seconds(86_400)
    /// How long a clock that the witness or the monotonic clock contradicts must run evenly. A server that
    /// was off for a year believes its clock after that time.
    public static let confirmAfter: TimeSpan = .seconds(86_400)

    private var anchor: Instant
    private var last: Instant
    /// Milliseconds by which the wall clock is ahead of the believed time, negative if it is behind; `nil` if
    /// the wall clock is believed.
    public private(set) var leap: Int64?

    /// Since when a clock that is not believed runs evenly: its first reading, or the one of its last leap.
    private var evenSince: Instant?
    /// Whether the witness of an earlier run contradicts the clock, and nothing has borne it out since.
    public private(set) var isUnconfirmed = false

    /// - Parameter witness: `nil` if there is nothing with which to compare the first reading, which is
    ///   believed then.
    public init(_ now: Instant, witness: WallTime? = nil) {
        anchor = now
        last = now
        guard let witness else { return }
        let ahead = TrustedClock.sum(now.wall.milliseconds, -witness.milliseconds)
        guard !TrustedClock.isNear(ahead) else { return }
        anchor.wall = witness
        last.wall = witness
        leap = ahead
        evenSince = now
        isUnconfirmed = true
    }

    public var isTrusted: Bool { leap == nil }

    private static func isNear(_ ahead: Int64) -> Bool {
        ahead <= Int64(startAheadMax.milliseconds) && ahead >= -Int64(startBehindMax.milliseconds)
    }
    /// The believed wall time of the last reading.
    var latest: WallTime { last.wall }

    /// The believed wall time of a reading.
    public mutating func read(_ now: Instant) -> WallTime {
        if now.monotonic == last.monotonic, isTrusted, now.wall <= last.wall { return last.wall }
        let expected = expected(now)
        let ahead = TrustedClock.sum(now.wall.milliseconds, -expected)
        let near = isTrusted ? TrustedClock.leapMax : TrustedClock.agreeMax
        if isUnconfirmed || ahead.magnitude > near.milliseconds {
            if confirms(now, ahead: ahead) {
                believe(now)
            } else {
                leap = ahead
                last.wall = max(last.wall, WallTime(milliseconds: expected))
            }
        } else {
            (leap, evenSince) = (nil, nil)
            last.wall = max(last.wall, now.wall)
            if now.monotonic.since(anchor.monotonic) >= TrustedClock.leapMax { anchor = now }
        }
        last.monotonic = now.monotonic
        return last.wall
    }

    /// The milliseconds of the wall clock that the monotonic clock expects.
    private func expected(_ now: Instant) -> Int64 {
        let elapsed = now.monotonic.since(anchor.monotonic)
        return TrustedClock.sum(anchor.wall.milliseconds, Int64(clamping: elapsed.milliseconds))
    }

    /// Whether the reading of a clock that is not believed can be believed. A leap begins its time again.
    private mutating func confirms(_ now: Instant, ahead: Int64) -> Bool {
        if isUnconfirmed, TrustedClock.isNear(ahead) { return true }
        guard let since = evenSince else {
            evenSince = now
            return false
        }
        let ran = now.monotonic.since(since.monotonic)
        let even = TrustedClock.sum(since.wall.milliseconds, Int64(clamping: ran.milliseconds))
        guard TrustedClock.sum(now.wall.milliseconds, -even).magnitude <= TrustedClock.leapMax.milliseconds
        else {
            evenSince = now
            return false
        }
        return ran >= TrustedClock.confirmAfter
    }

    /// Another clock, as that of a database, agrees with this reading. The reading is believed, also if it
    /// is before the time that was believed; if it is far from that time, it is unconfirmed.
    public mutating func vouch(for now: Instant) {
        let ahead = TrustedClock.sum(now.wall.milliseconds, -expected(now))
        guard !TrustedClock.isNear(ahead) else { return believe(now) }
        leap = ahead
        evenSince = evenSince ?? now
        isUnconfirmed = true
    }

    /// Another clock, which counts more, disagrees: how evenly this one has run confirms nothing.
    public mutating func contradict() { evenSince = nil }

    private mutating func believe(_ now: Instant) {
        anchor = now
        last = now
        (leap, evenSince, isUnconfirmed) = (nil, nil, false)
    }

    /// A sum that stops at the ends of the range, for times that nobody has reached.
    private static func sum(_ one: Int64, _ other: Int64) -> Int64 {
        let (sum, overflow) = one.addingReportingOverflow(other)
        return overflow ? (one < 0 ? -.max : .max) : sum
    }
}
