import Journal
import Model

extension Ownership {
    /// Whether this node sees less than half of the nodes whose leases still move. A node that gossip does
    /// not see counts only while its lease moves: the dead are no majority. On a tie the half with the lowest
    /// session stays.
    func isMinority(_ asked: MonotonicTime) -> Bool {
        var visible: [SessionID] = [session]
        var hidden: [SessionID] = []
        for row in last.sessions where row.id != session {
            let since = [suspects[row.id], isolatedSince].compactMap { $0 }.min()
            guard let since else {
                visible.append(row.id)
                continue
            }
            guard let seen = seen[row.id], asked.since(seen.since) < looks.patience else { continue }
            if seen.since > since { hidden.append(row.id) }
        }
        guard visible.count <= hidden.count else { return false }
        return visible.count < hidden.count || (hidden.min() ?? session) < (visible.min() ?? session)
    }
}
