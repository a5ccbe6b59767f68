import Journal
import Membership
import Model
import Ownership

extension ControlCore {
    /// The first invariant that does not hold between two events; `nil` if all do. Debug builds, and
    /// simulations that set `isBroken`, check these invariants and those of the machines inside after each
    /// event.
    func brokenInvariant(isWhole: Bool) -> String? {
        if isViewStale { return "what is shown of the cluster is old" }
        if membership.ownSession != options.session { return "gossip speaks of another session" }
        if awayTold != tables.awayDatabases { return "the loops do not know which databases are away" }
        if let broken = InvariantSchedule.look(at: &ownership, { $0.brokenInvariant }) {
            return "ownership: \(broken)"
        }
        if let broken = InvariantSchedule.look(at: &membership, { $0.brokenInvariant(isWhole: isWhole) }) {
            return "membership: \(broken)"
        }
        if let broken = links.brokenInvariant { return "links: \(broken)" }
        return InvariantSchedule.look(at: &tables) { $0.brokenInvariant }
    }

    /// Whether invariants are checked. A server does not check them.
    private var isWatched: Bool {
        #if DEBUG
            return true
        #else
            return isBroken != nil
        #endif
    }

    func checkInvariants() {
        guard isWatched else { return }
        let isWhole = membership.invariantSchedule.isWholeDue(size: membership.checkSize)
        guard let broken = brokenInvariant(isWhole: isWhole) else { return }
        guard let isBroken else { preconditionFailure(broken) }
        isBroken(broken)
    }
}

extension PartitionTables {
    var brokenInvariant: String? {
        for (index, table) in tables.enumerated() {
            if table.database != index + 1 { return "a database stands in the place of another" }
            if table.askedIn ?? 0 > look || table.answeredIn > look { return "a look to come was answered" }
            if table.isRegistered != (table.answeredIn > 0) {
                return "it is not clear whether database \(table.database) knows the session"
            }
        }
        let gone = tables.filter(\.isAway)
        if awayDatabases != Set(gone.map(\.database)) || away != Set(gone.flatMap(\.rows).map(\.id)) {
            return "other partitions are away than those of databases that are"
        }
        return isWaiting && isWhole ? "a look waits for nobody" : nil
    }
}
