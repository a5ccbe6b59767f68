import Model

// The invariants of a node's membership between two events.

extension Membership: InvariantChecking {
    /// The first invariant that is broken; `nil` if none is. `isWhole`: checks the invariants of each member
    /// also.
    public func brokenInvariant(isWhole: Bool) -> String? {
        if let broken = brokenInBounds ?? brokenInWaking { return broken }
        guard isWhole else { return nil }
        return brokenInSuspicions ?? roster.brokenInvariant
    }

    /// About how many entries a whole check visits.
    public var checkSize: Int { roster.count }

    private var brokenInBounds: String? {
        if own.incarnation == 0 { return "the node has no incarnation" }
        if own.incarnation < incarnationTold { return "others were told of a later incarnation of the node" }
        if own.state != .alive, !isLeaving { return "the node takes itself for gone" }
        if roster[own.session] != nil { return "the node is among the others" }
        if roster.session(named: own.name) != nil { return "another has the node's name" }
        if roster.count > options.membersMax { return "more members are remembered than may be" }
        if entries.count > options.entriesMax { return "more entries are remembered than may be" }
        if relays.count > options.relaysMax { return "more probes are made for others than may be" }
        if seedQuestions.count > options.seedQuestionsMax { return "more seeds are asked than may be" }
        if let broken = replays.brokenInvariant { return broken }
        if !(0...options.healthMax).contains(health.score) {
            return "the node's health is out of its scale"
        }
        return nil
    }

    /// Each deadline must have a wake-up at its time or earlier, unless the node leaves.
    private var brokenInWaking: String? {
        // Before the first event the node has asked for no wake-up.
        guard !isLeaving, let armed else { return nil }
        if armed > probe?.nextStep ?? nextProbe { return "nobody is woken to probe" }
        if armed > nextSync { return "nobody is woken to compare everything" }
        if hasSomebodyToFind, armed > nextHealing { return "nobody is woken to find those that are lost" }
        if suspicions.values.contains(where: { armed > $0.deadline(options) }) {
            return "nobody is woken to end a suspicion"
        }
        if relays.values.contains(where: { armed > $0.nextStep }) {
            return "nobody is woken for a probe that was asked for"
        }
        return nil
    }

    /// Each suspected member must have a suspicion that ends, and no other member may have one.
    private var brokenInSuspicions: String? {
        for (session, suspicion) in suspicions {
            guard let member = roster[session], member.state == .suspect else {
                return "session \(session.rawValue) has a suspicion, and is not suspected"
            }
            if suspicion.incarnation != member.incarnation {
                return "session \(session.rawValue) is suspected in another incarnation"
            }
            if suspicion.confirmations.isEmpty { return "nobody suspects session \(session.rawValue)" }
            if Set(suspicion.confirmations).count < suspicion.confirmations.count {
                return "somebody suspects session \(session.rawValue) twice"
            }
        }
        if let member = roster.all.first(where: { $0.state == .suspect && suspicions[$0.session] == nil }) {
            return "session \(member.session.rawValue) is suspected for ever"
        }
        return nil
    }
}

extension Roster {
    /// The tables by session and by name and the round of probes must hold the same members, counted rightly.
    var brokenInvariant: String? {
        if round.count != members.count || Set(round) != Set(members.keys) {
            return "others are probed than there are"
        }
        if position > round.count { return "the round of probes is at nobody" }
        if latest.count != members.count { return "a member is not known by its name" }
        for (session, member) in members {
            if member.session != session { return "a member stands in the place of another" }
            if latest[member.name] != session { return "a member is not known by its name" }
        }
        if deadCount != members.values.count(where: { $0.state == .dead })
            || goneCount != members.values.count(where: { $0.state == .left })
        {
            return "those that are not there are counted wrongly"
        }
        return nil
    }
}
