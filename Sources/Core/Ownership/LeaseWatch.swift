import Journal
import Model

/// What a node that starts sees of the leases of a cluster: whether some other node lives. Its rows may be a
/// copy of another cluster's, which no node of this one serves (rule: copies-are-strangers).
public struct LeaseWatch {
    public enum Verdict: Equatable, Sendable {
        /// Another node renews its lease, or has begun a session meanwhile.
        case served
        /// No node does: these leases have not moved for `stillMin`, or there are none.
        case unserved([SessionRow])
        /// Nothing is known yet: look again.
        case open
    }

    /// As long as a node waits before it fences another one that gossip does not hold dead.
    public static let stillMin: TimeSpan = .milliseconds(4500)
    /// A session without a renewal may be of a node that is being built.
    public static let bornMin: TimeSpan = .seconds(15)
    /// A living node renews its lease twice a second.
    public static let pause: TimeSpan = .milliseconds(100)
    /// A look that is answered so much later than the one before it, beside the usual length of a look, shows
    /// nothing: the database, or this process, paused, and what the others wrote may have waited too.
    public static let gapMax: TimeSpan = .milliseconds(1000)
    /// So much is to be seen after such a look.
    public static let afterGap: TimeSpan = .milliseconds(3000)

    private let name: String
    private var first: [SessionID: UInt64]?
    private var last: MonotonicTime = .zero
    /// For how long no lease was seen to move.
    private var still: TimeSpan = .zero
    private var shortest: TimeSpan = .seconds(3600)

    /// `name` is the node's own: an earlier session of that name ends with the node's next one.
    public init(name: String) { self.name = name }

    /// The living sessions, as a look shows them that was asked for at `asked` and answered at `answered`.
    public mutating func look(
        _ rows: [SessionRow], asked: MonotonicTime, answered: MonotonicTime
    ) -> Verdict {
        let others = rows.filter { $0.node != name }
        let gap = answered.since(last)
        shortest = min(shortest, answered.since(asked))
        last = answered
        guard let first else {
            first = Dictionary(others.map { ($0.id, $0.counter) }) { $1 }
            return others.isEmpty ? .unserved([]) : .open
        }
        guard others.allSatisfy({ first[$0.id] == $0.counter }) else { return .served }
        // If each look is slow, so are the others' renewals.
        let needed = need(others) + shortest * 3
        if gap > LeaseWatch.gapMax + shortest * 4 {
            still = min(still, needed - LeaseWatch.afterGap)
        } else {
            still = still + gap
        }
        return others.isEmpty || still >= needed ? .unserved(others) : .open
    }

    private func need(_ others: [SessionRow]) -> TimeSpan {
        others.contains { $0.counter == 0 } ? LeaseWatch.bornMin : LeaseWatch.stillMin
    }
}
