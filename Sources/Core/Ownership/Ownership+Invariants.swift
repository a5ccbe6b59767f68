import Model

// The invariants of a node's ownership between two events.

extension Ownership {
    /// The first invariant that does not hold; `nil` if all do.
    public var brokenInvariant: String? {
        if let id = holdings.first(where: { $0.value.epoch == Epoch(0) })?.key {
            return "partition \(id.rawValue) is owned without an epoch"
        }
        if let id = unsure.first(where: { !isReleasing($0) }) {
            return "partition \(id.rawValue) may be given up, and is not being given up"
        }
        if let id = following.offered.first(where: { !isServing($0) }) {
            return "partition \(id.rawValue) has an heir, and is not served"
        }
        return brokenInLooks ?? brokenInMembers
    }

    private func isReleasing(_ id: PartitionID) -> Bool {
        if case .releasing = holdings[id] { true } else { false }
    }

    private func isServing(_ id: PartitionID) -> Bool {
        if case .serving = holdings[id] { true } else { false }
    }

    /// All that this node keeps of its last look must be of the same look.
    private var brokenInLooks: String? {
        if routes.count != (looks.last != nil ? last.partitions.count : 0) {
            return "there are routes of other partitions than there are"
        }
        if heard.contains(where: { $0.value.session == session }) {
            return "the node believes gossip of itself"
        }
        return nil
    }

    /// Makes no set: a simulated cluster checks these invariants after each event.
    private var brokenInMembers: String? {
        if fencing.contains(session) { return "the node fences itself" }
        if seen.count != last.sessions.count || last.sessions.contains(where: { seen[$0.id] == nil }) {
            return "counters are known of others than are there"
        }
        if fencing.contains(where: { seen[$0] == nil }) { return "a session is fenced that is gone" }
        if members.contains(where: { seen[$0.session] == nil }) { return "a member has no session" }
        return nil
    }

    func checkInvariants() {
        #if DEBUG
            if !invariantSchedule.isHolders { InvariantSchedule.demand(brokenInvariant) }
        #endif
    }
}

extension PeerLinks {
    /// The first invariant that does not hold; `nil` if all do.
    public var brokenInvariant: String? {
        for (processID, link) in links {
            if link.session.processID != processID { return "a link stands in the place of another" }
            if (link.downSince == nil) != link.reasons.isEmpty { return "a link is down for no reason" }
            if link.reasons.keys.contains(where: { link.standing.contains($0) }) {
                return "a connection stands, and cannot be made"
            }
            if link.wasTold, link.downSince == nil { return "a link is said to be down, and is up" }
        }
        return nil
    }
}
