import Journal
import Model

/// What a node that starts sees of the leases of a cluster: whether some other node lives. Its rows may be a
/// copy of another cluster's, which no node of this one serves (rule: copies-are-strangers).
public struct LeaseWatch {
    public enum Verdict: Equatable, Sendable {
        /// Another node renews its lease, or has begun a session meanwhile.
        case served
        /// No node does: these leases have stood still for `stillMin`, or there are none.
        case unserved([SessionRow])
        /// Nothing is known yet: look again.
        case open
    }

    /// As long as a node waits before it fences another one that gossip does not hold dead.
    public static let stillMin: TimeSpan = .milliseconds(4500)
    /// A living node renews its lease twice a second.
    public static let pause: TimeSpan = .milliseconds(100)
    /// After a look that was answered later, or that came later, the time begins again: the database, or this
    /// process, stood still, and what the others wrote meanwhile may have waited too.
    public static let gapMax: TimeSpan = .milliseconds(1000)

    private let name: String
    private var first: [SessionID: UInt64]?
    private var since: MonotonicTime = .zero
    private var last: MonotonicTime = .zero

    /// `name` is the node's own: a former session of that name ends with the node's next one.
    public init(name: String) { self.name = name }

    /// The living sessions, as a look shows them that was asked for at `asked` and answered at `answered`.
    public mutating func look(
        _ rows: [SessionRow], asked: MonotonicTime, answered: MonotonicTime
    ) -> Verdict {
        let others = rows.filter { $0.node != name }
        defer { last = answered }
        guard let first else {
            first = Dictionary(others.map { ($0.id, $0.counter) }) { $1 }
            since = answered
            return others.isEmpty ? .unserved([]) : .open
        }
        guard others.allSatisfy({ first[$0.id] == $0.counter }) else { return .served }
        if answered.since(last) > LeaseWatch.gapMax { since = answered }
        return others.isEmpty || asked.since(since) >= LeaseWatch.stillMin ? .unserved(others) : .open
    }
}
