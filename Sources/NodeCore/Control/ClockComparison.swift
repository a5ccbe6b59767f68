import Model

/// One look at a database's clock.
public struct ClockReading: Sendable {
    /// The node's clocks when the answer came.
    public var own: Instant
    public var theirs: WallTime
    /// How long the answer took. The database looked at its clock at some moment of that time.
    public var roundTrip: TimeSpan

    public init(asked: MonotonicTime, own: Instant, theirs: WallTime) {
        self.own = own
        self.theirs = theirs
        roundTrip = own.monotonic.since(asked)
    }

    /// Milliseconds by which the node's clock is ahead: at least, and at most.
    private var ahead: (least: Int64, most: Int64) {
        let most = ClockReading.difference(own.wall.milliseconds, theirs.milliseconds)
        return (ClockReading.difference(most, Int64(clamping: roundTrip.milliseconds)), most)
    }

    /// The middle of what is possible.
    public var likelyAhead: Int64 {
        ClockReading.difference(ahead.most, Int64(clamping: roundTrip.milliseconds / 2))
    }

    /// Whether the two clocks differ by at most this many milliseconds. An answer that took long may not say.
    public func look(errorMax: Int64) -> Look {
        let (least, most) = ahead
        if least > errorMax || most < -errorMax { return .differs }
        return least >= -errorMax && most <= errorMax ? .agrees : .unclear
    }

    public enum Look: Sendable { case agrees, differs, unclear }

    /// A difference that stops at the ends of the range.
    private static func difference(_ one: Int64, _ other: Int64) -> Int64 {
        let (difference, overflow) = one.subtractingReportingOverflow(other)
        return overflow ? (one < other ? .min : .max) : difference
    }

    /// A difference as an operator reads it.
    public static func word(ahead: Int64) -> String {
        let side = ahead > 0 ? "ahead of" : "behind"
        return "this machine's clock is \(ahead.magnitude / 1000) s \(side) the database's:"
            + " let both follow the same time (NTP)"
    }
}

/// Compares a node's wall clock with a database's. Each end of a message stands in the wall time of the owner
/// that stored it, and the next owner reads it by its own clock. Where the clocks differ, whichever is right,
/// an operator must know.
public struct ClockComparison: Sendable {
    /// Milliseconds by which the two clocks may differ.
    public static let errorMax: Int64 = 2_000
    /// A node whose clock differs by more milliseconds does not join.
    public static let joiningErrorMax: Int64 = 60_000
    /// So many looks in a row must agree on something new.
    public static let looksNeeded = 2

    /// Whether the clocks differ, as the last looks have it.
    public private(set) var differs = false
    /// Milliseconds by which the node's clock is ahead, by the last look.
    public private(set) var ahead: Int64 = 0
    private var looksAgainst = 0

    public init() {}

    /// Why the node's clock keeps it from being ready.
    var inability: String? { differs ? ClockReading.word(ahead: ahead) : nil }

    /// `isNew`: `differs` has changed.
    public mutating func compare(_ reading: ClockReading) -> (look: ClockReading.Look, isNew: Bool) {
        ahead = reading.likelyAhead
        let look = reading.look(errorMax: ClockComparison.errorMax)
        guard look == (differs ? .agrees : .differs) else {
            looksAgainst = 0
            return (look, false)
        }
        looksAgainst += 1
        guard looksAgainst >= ClockComparison.looksNeeded else { return (look, false) }
        (differs, looksAgainst) = (!differs, 0)
        return (look, true)
    }
}
