import Model

// How news changes what this node believes about each member.

extension Membership {
    mutating func believe(
        _ update: Update, isComparison: Bool, from sender: SessionID, _ now: MonotonicTime,
        _ effects: inout [Effect]
    ) {
        switch update {
        case .alive(let member): alive(member, now, &effects)
        case .suspect(let session, let incarnation, let accuser):
            suspect(session, incarnation, by: accuser, now, &effects)
        case .dead(let session, let incarnation, let accuser):
            // The other half of a cut holds this whole half dead. A comparison's "dead" therefore only makes
            // a suspicion here, which the member can still contradict.
            if isComparison {
                suspect(session, incarnation, by: sender, now, &effects)
            } else {
                dead(session, incarnation, by: accuser, now, &effects)
            }
        case .left(let session, _): left(session, now, &effects)
        case .fact(let fact):
            guard learn(fact) else { return }
            news.put(.fact(fact.key), Update.fact(fact).encoded)
            effects.append(.learned(fact))
        }
    }

    mutating func learn(_ fact: GossipEntry) -> Bool {
        if let known = facts[fact.key], known.version >= fact.version { return false }
        guard facts[fact.key] != nil || facts.count < options.factsMax else { return false }
        facts[fact.key] = fact
        return true
    }

    // MARK: Alive

    private mutating func alive(_ said: Member, _ now: MonotonicTime, _ effects: inout [Effect]) {
        guard said.session != own.session else {
            // An incarnation up to the node's own is an echo. A higher one needs a contradiction.
            if said.incarnation > own.incarnation { contradict(said.incarnation, &effects) }
            return
        }
        guard said.name != own.name, isNewest(said) else { return }
        guard var known = roster[said.session] else { return welcome(said, now, &effects) }
        guard known.state != .left, said.incarnation > known.incarnation else { return }
        let former = known.state
        known.address = said.address
        known.info = said.info
        known.incarnation = said.incarnation
        known.state = .alive
        if former != .alive { known.since = now }
        roster.update(known)
        suspicions[known.session] = nil
        linkDoubts.contradicted(known.session, now: now)
        news.put(.member(known.session), Update.alive(known).encoded)
        effects.append(.changed(known))
        if former == .dead { compare(with: known.session, now, &effects) }
    }

    /// Whether no later process of the same name is known. A former process of a name counts no more.
    private func isNewest(_ said: Member) -> Bool {
        guard let newest = roster.session(named: said.name) else { return true }
        return newest <= said.session
    }

    private mutating func welcome(_ said: Member, _ now: MonotonicTime, _ effects: inout [Effect]) {
        guard roster.count < options.membersMax else { return }
        if var former = roster.session(named: said.name).flatMap({ roster[$0] }) {
            suspicions[former.session] = nil
            linkDoubts.forget(former.session)
            roster.remove(former.session)
            let roster = roster
            replays.replaced(former.session) { roster[$0] != nil }
            former.state = .left
            former.since = now
            effects.append(.changed(former))
        }
        var member = said
        member.state = .alive
        member.since = now
        let isFirst = roster.count == 0
        roster.insert(member, &random)
        news.put(.member(member.session), Update.alive(member).encoded)
        effects.append(.changed(member))
        if isFirst { compare(with: member.session, now, &effects) }
    }

    /// Announces this node with a higher incarnation, and pings some members with the announcement at once: a
    /// suspicion that many nodes share ends early.
    private mutating func contradict(_ incarnation: UInt32, _ effects: inout [Effect]) {
        guard incarnation < .max else { return }
        incarnationTold = max(incarnationTold, incarnation)
        own.incarnation = max(own.incarnation, incarnation) + 1
        announceSelf()
        let word = Update.alive(own).encoded
        for member in roster.someAlive(options.relays, except: nil, &random) {
            ping(member.session, member.address, makeSequence(), first: [word], &effects)
        }
    }

    // MARK: Suspect and dead

    mutating func suspect(
        _ session: SessionID, _ incarnation: UInt32, by accuser: SessionID, _ now: MonotonicTime,
        _ effects: inout [Effect]
    ) {
        if session == own.session {
            guard !isLeaving, incarnation >= own.incarnation else { return }
            // Another node could not reach this node, so this node may be slow.
            health.worsen(by: 1)
            return contradict(incarnation, &effects)
        }
        guard var member = roster[session], incarnation >= member.incarnation else { return }
        switch member.state {
        case .dead, .left: return
        case .suspect:
            guard suspicions[session]?.confirm(by: accuser) ?? false else { return }
        case .alive:
            member.state = .suspect
            member.incarnation = incarnation
            member.since = now
            roster.update(member)
            suspicions[session] = Suspicion(
                incarnation: incarnation, by: accuser, since: now, members: roster.count + 1,
                options: options)
            effects.append(.changed(member))
            // Each node that suspects a member pings the member itself. Otherwise the member's contradiction
            // would reach the node through other nodes only.
            ping(session, member.address, makeSequence(), first: accusations(member), &effects)
        }
        news.put(
            .accusation(session, by: accuser), Update.suspect(session, incarnation, by: accuser).encoded)
    }

    mutating func declareDead(_ now: MonotonicTime, _ effects: inout [Effect]) {
        guard !suspicions.isEmpty else { return }
        for session in suspicions.keys.sorted() {
            guard let suspicion = suspicions[session], suspicion.deadline(options) <= now else { continue }
            dead(session, suspicion.incarnation, by: own.session, now, &effects)
        }
    }

    private mutating func dead(
        _ session: SessionID, _ incarnation: UInt32, by accuser: SessionID, _ now: MonotonicTime,
        _ effects: inout [Effect]
    ) {
        if session == own.session {
            if !isLeaving, incarnation >= own.incarnation { contradict(incarnation, &effects) }
            return
        }
        guard var member = roster[session], incarnation >= member.incarnation,
            member.state == .alive || member.state == .suspect
        else { return }
        suspicions[session] = nil
        linkDoubts.forget(session)
        member.state = .dead
        member.incarnation = incarnation
        member.since = now
        roster.update(member)
        news.put(.member(session), Update.dead(session, incarnation, by: accuser).encoded)
        effects.append(.changed(member))
    }

    private mutating func left(_ session: SessionID, _ now: MonotonicTime, _ effects: inout [Effect]) {
        guard var member = roster[session], member.state != .left else { return }
        suspicions[session] = nil
        linkDoubts.forget(session)
        member.state = .left
        member.since = now
        roster.update(member)
        news.put(.member(session), Update.left(session, member.incarnation).encoded)
        effects.append(.changed(member))
    }

    /// A connection that stood and breaks is a reason to suspect, except for a while after the member has
    /// contradicted such a suspicion (`LinkDoubts`).
    mutating func linkReset(_ session: SessionID, _ now: MonotonicTime, _ effects: inout [Effect]) {
        guard let member = roster[session], member.state == .alive,
            linkDoubts.suspects(session, now: now)
        else { return }
        suspect(session, member.incarnation, by: own.session, now, &effects)
    }

    // MARK: The engine's table

    /// A node in the engine's table is a node to look for. A session that has vanished from the table was
    /// fenced, and no session ever comes back.
    mutating func merge(_ rows: [Row], _ now: MonotonicTime, _ effects: inout [Effect]) {
        for row in rows where row.session != own.session && roster[row.session] == nil {
            alive(
                Member(
                    session: row.session, name: row.name, address: row.address, info: row.info,
                    incarnation: 0, state: .alive, since: now), now, &effects)
        }
        let found = Set(rows.map(\.session))
        for session in tabled.subtracting(found).sorted() { left(session, now, &effects) }
        tabled = found
    }
}
