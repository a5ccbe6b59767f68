import Model

/// When a node looks at the engine's tables, whether its looks go through, and how long it has patience with
/// others (rule: leases-only-save-moves).
///
/// If every commit takes seconds, each node renews its lease seconds apart. So the patience is a lease and
/// the time that the slowest of the last looks took, unless only one of them was slow.
struct Looks {
    private enum Phase {
        case waiting(until: MonotonicTime)
        case underway(since: MonotonicTime, isOverdue: Bool)
    }
    private enum Reach {
        case unknown
        /// The last look went through, and was asked for then.
        case reached(MonotonicTime)
        /// Each look failed since `since`; `last` is when the last one that went through was asked for.
        case failing(since: MonotonicTime, last: MonotonicTime?)
    }

    private let lease: TimeSpan
    private let pollInterval: TimeSpan
    private var phase: Phase
    private var reach = Reach.unknown
    /// Another look is to follow the one that is under way.
    private var isWantedAgain = false
    /// How long the last looks took, the newest last.
    private var lengths: [TimeSpan] = []
    private static let lengthsKept = 5
    /// A look fails after as long without a byte (`DatabaseConnections`): what takes longer has slept.
    private static let lengthMax: TimeSpan = .seconds(4)

    init(_ options: Ownership.Options, now: MonotonicTime) {
        lease = options.lease
        pollInterval = options.pollInterval
        phase = .waiting(until: now)
    }

    /// When the last look that went through was asked for.
    var last: MonotonicTime? {
        switch reach {
        case .unknown: nil
        case .reached(let asked): asked
        case .failing(_, let last): last
        }
    }

    /// Whether the last look went through, and none is overdue.
    var isCurrent: Bool {
        if case .underway(_, isOverdue: true) = phase { return false }
        if case .reached = reach { return true }
        return false
    }

    /// How long a lease may stay unchanged. One slow look made this node blind, so it counts for nothing
    /// here.
    var patience: TimeSpan {
        let slowest = lengths.max() ?? .zero
        return slowest + pollInterval < gapMax ? lease + slowest : gapMax
    }

    /// The time between two looks past which this node was blind, and past which a look is overdue: one
    /// slow look is an outage, and two show what is usual.
    private var gapMax: TimeSpan { lease + (lengths.sorted().dropLast().last ?? .zero) }

    enum Step: Equatable {
        case nothing
        /// Ask for a look, and wake this machine at the moment given.
        case ask(overdueAt: MonotonicTime)
        case overdue
    }

    mutating func woke(_ now: MonotonicTime) -> Step {
        switch phase {
        case .waiting(let time): return now >= time ? want(now) : .nothing
        // A database that does not answer is out of reach, long before its connection breaks.
        case .underway(let since, _):
            guard now.since(since) >= gapMax else { return .nothing }
            phase = .underway(since: since, isOverdue: true)
            return .overdue
        }
    }

    /// Asks for a look now, or right after the one that is under way.
    mutating func want(_ now: MonotonicTime) -> Step {
        if case .underway = phase {
            isWantedAgain = true
            return .nothing
        }
        phase = .underway(since: now, isOverdue: false)
        return .ask(overdueAt: now.advanced(by: gapMax))
    }

    /// Another look is to follow the one whose answer is being handled.
    mutating func wantAgain() { isWantedAgain = true }

    /// Notes a look that went through. True if this node could not see meanwhile whether a lease moved: its
    /// looks failed, or were too far apart.
    mutating func succeeded(asked: MonotonicTime, _ now: MonotonicTime) -> Bool {
        let gap = last.map { asked.since($0) } ?? .zero
        var wasBlind = gap >= gapMax
        if case .failing = reach { wasBlind = true }
        lengths.append(min(now.since(asked), Looks.lengthMax))
        if lengths.count > Looks.lengthsKept { lengths.removeFirst() }
        reach = .reached(asked)
        phase = .waiting(until: now)
        return wasBlind
    }

    /// Notes a look that failed. True if the database counts as out of reach: no look that was asked for
    /// within a lease went through, or none ever did.
    mutating func failed(_ now: MonotonicTime) -> Bool {
        let last = last
        var since = now
        if case .underway(let asked, _) = phase { since = asked }
        if case .failing(let first, _) = reach { since = first }
        reach = .failing(since: since, last: last)
        phase = .waiting(until: now)
        return last == nil || now.since(since) >= lease
    }

    /// Schedules the next look `gap` from now, or immediately if one is wanted.
    mutating func schedule(_ now: MonotonicTime, after gap: TimeSpan) -> (step: Step, next: MonotonicTime) {
        let next = now.advanced(by: gap)
        phase = .waiting(until: next)
        guard isWantedAgain else { return (.nothing, next) }
        isWantedAgain = false
        return (want(now), next)
    }
}
