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

    /// Why a node with this clock must not join a cluster; `nil` if it may (rule: wall-time-is-a-witness).
    public var refusalToJoin: String? {
        guard look(errorMax: ClockComparison.joiningErrorMax) == .differs else { return nil }
        return ClockReading.word(ahead: likelyAhead) + ", then start again"
    }

    /// A difference that stops at the ends of the range.
    private static func difference(_ one: Int64, _ other: Int64) -> Int64 {
        let (difference, overflow) = one.subtractingReportingOverflow(other)
        return overflow ? (one < other ? .min : .max) : difference
    }

    /// A difference as an operator reads it.
    public static func word(ahead: Int64) -> String {
        let side = ahead > 0 ? "ahead of" : "behind"
        return "this machine's clock is \(seconds(ahead)) s \(side) the database's:"
            + " let both follow the same time (NTP)"
    }

    private static func seconds(_ ahead: Int64) -> UInt64 { (ahead.magnitude + 500) / 1000 }

    static func wordOfNodes(ahead: Int64) -> String {
        let side = ahead > 0 ? "ahead of" : "behind"
        return "this machine's clock is \(seconds(ahead)) s \(side) those of most nodes:"
            + " let all follow the same time (NTP)"
    }

    /// A difference that most nodes find alike.
    public static func databasesWord(ahead: Int64) -> String {
        let side = ahead > 0 ? "behind" : "ahead of"
        return "the database's clock is \(seconds(ahead)) s \(side) those of most nodes:"
            + " let all follow the same time (NTP)"
    }
}

/// Compares a node's wall clock with a database's. The end of a message is in the wall time of the owner that
/// stored it, and the next owner reads it by its own clock. If the clocks differ, whichever is right, an
/// operator must know.
///
/// Nodes send each other what they find. If more than half of the nodes find the same, the database's clock
/// is the one that differs, and the nodes' clocks agree with each other.
public struct ClockComparison: Sendable {
    /// Milliseconds by which the two clocks may differ.
    public static let errorMax: Int64 = 2_000
    /// A node whose clock differs by more milliseconds does not join.
    public static let joiningErrorMax: Int64 = 60_000
    /// So many looks in a row must agree on something new.
    public static let looksNeeded = 2
    /// For so long a node waits for what other nodes find, before its clock keeps it from being ready.
    public static let hearing: TimeSpan = .seconds(3)

    /// Whether the clocks differ, as the last looks have it.
    public private(set) var differs = false
    /// Milliseconds by which the node's clock is ahead, by the last look.
    public private(set) var ahead: Int64 = 0
    private var looksAgainst = 0
    /// What other nodes last sent: milliseconds by which their clocks are ahead of the database's. A node
    /// that finds no difference sends 0, or nothing.
    private var received: [SessionID: Int64] = [:]
    /// What this node last sent.
    private var sentOwn: Int64 = 0

    enum Verdict: Equatable {
        /// The node's clock is the database's, as are those of most nodes; or no difference has a majority.
        case right
        case ownDiffers
        /// More than half of the living nodes find the same difference as this node.
        case databaseDiffers
        /// More than half of the living nodes find the same difference, and this node does not. Milliseconds
        /// by which this node's clock is ahead of theirs.
        case othersDiffer(ahead: Int64)
    }

    /// What is to be made of the differences that this node and the other living nodes find.
    func verdict(among nodes: [SessionID], own: SessionID) -> Verdict {
        let others = nodes.filter { $0 != own }.map { received[$0] ?? 0 }
        let mine = differs ? ahead : 0
        func haveMost(_ value: Int64) -> Bool {
            let all = others + [mine]
            return value != 0 && all.count { ClockComparison.isNear($0, value) } * 2 > all.count
        }
        if haveMost(mine) { return .databaseDiffers }
        if let theirs = others.first(where: haveMost) {
            let (apart, overflow) = mine.subtractingReportingOverflow(theirs)
            return .othersDiffer(ahead: overflow ? (mine < theirs ? .min : .max) : apart)
        }
        return differs ? .ownDiffers : .right
    }

    /// Whether two nodes find the same difference, so that their clocks agree.
    private static func isNear(_ one: Int64, _ other: Int64) -> Bool {
        let (apart, overflow) = one.subtractingReportingOverflow(other)
        return !overflow && one != 0 && apart.magnitude <= errorMax.magnitude
    }

    /// `isNew`: `differs` has changed.
    public mutating func compare(_ reading: ClockReading) -> (look: ClockReading.Look, isNew: Bool) {
        let look = reading.look(errorMax: ClockComparison.errorMax)
        if look != .unclear { ahead = reading.likelyAhead }
        guard look == (differs ? .agrees : .differs) else {
            looksAgainst = 0
            return (look, false)
        }
        looksAgainst += 1
        guard looksAgainst >= ClockComparison.looksNeeded else { return (look, false) }
        (differs, looksAgainst) = (!differs, 0)
        return (look, true)
    }

    /// What the other nodes must get now; `nil` if they know it, about.
    mutating func takeNews() -> Int64? {
        let word = differs ? ahead : 0
        let (apart, overflow) = word.subtractingReportingOverflow(sentOwn)
        guard overflow || (word == 0) != (sentOwn == 0) || apart.magnitude > 1_000 else { return nil }
        sentOwn = word
        return word
    }

    /// Sessions with one key replace each other, as in gossip, so that few are kept.
    mutating func heard(_ ahead: Int64, from node: SessionID) {
        received = received.filter { ClockComparison.key(of: $0.key) != ClockComparison.key(of: node) }
        received[node] = ahead
    }

    static func key(of node: SessionID) -> UInt32 { UInt32(node.rawValue % 1024) }
}
