import Model

// How news changes what this node believes about each member.

extension Membership {
    mutating func believe(_ update: Update, isComparison: Bool, from sender: SessionID, _ turn: inout Turn) {
        switch update {
        case .alive(let member): alive(member, &turn)
        case .suspect(let session, let incarnation, let accuser):
            suspect(session, in: incarnation, by: accuser, &turn)
        case .dead(let session, let incarnation, _):
            // The other half of a cut holds this whole half dead. A comparison's "dead" therefore only makes
            // a suspicion here, which the member can still contradict.
            if isComparison {
                suspect(session, in: incarnation, by: sender, &turn)
            } else {
                end(session, as: .dead, in: incarnation, news: update, &turn)
            }
        case .left(let session, let incarnation):
            end(session, as: .left, in: incarnation, news: update, &turn)
        case .entry(let entry):
            guard learn(entry) else { return }
            news.put(.entry(entry.key), Update.entry(entry).encoded)
            turn.effects.append(.learned(entry))
        }
    }

    mutating func learn(_ entry: GossipEntry) -> Bool {
        if let known = entries[entry.key], known.version >= entry.version { return false }
        guard entries[entry.key] != nil || entries.count < options.entriesMax else { return false }
        entries[entry.key] = entry
        return true
    }

    // MARK: Alive

    private mutating func alive(_ said: Member, _ turn: inout Turn) {
        guard said.session != own.session else {
            // An incarnation up to the node's own is an echo. A higher one needs a contradiction.
            if said.incarnation > own.incarnation { contradict(said.incarnation, &turn) }
            return
        }
        guard said.name != own.name, isNewest(said) else { return }
        guard var known = roster[said.session] else { return welcome(said, &turn) }
        guard said.incarnation > known.incarnation else { return }
        // News that it has left is contradicted as well, while the engine's table shows the session.
        guard known.state != .left || tabled.contains(said.session) else { return }
        let former = known.state
        known.address = said.address
        known.info = said.info
        known.incarnation = said.incarnation
        known.state = .alive
        if former != .alive { known.since = turn.now }
        roster.update(known)
        suspicions[known.session] = nil
        linkDoubts.contradicted(known.session, now: turn.now)
        news.put(.member(known.session), Update.alive(known).encoded)
        turn.effects.append(.changed(known))
        if former == .dead || former == .left { compare(with: known.session, &turn) }
    }

    /// Whether no later process of the same name is known. An earlier process of a name counts no more.
    private func isNewest(_ said: Member) -> Bool {
        guard let newest = roster.session(named: said.name) else { return true }
        return newest <= said.session
    }

    private mutating func welcome(_ said: Member, _ turn: inout Turn) {
        guard roster.count < options.membersMax else { return }
        if var former = roster.session(named: said.name).flatMap({ roster[$0] }) {
            suspicions[former.session] = nil
            linkDoubts.forget(former.session)
            roster.remove(former.session)
            let roster = roster
            replays.replaced(former.session) { roster[$0] != nil }
            former.state = .left
            former.since = turn.now
            turn.effects.append(.changed(former))
        }
        var member = said
        member.state = .alive
        member.since = turn.now
        let isFirst = roster.count == 0
        roster.insert(member, &random)
        news.put(.member(member.session), Update.alive(member).encoded)
        turn.effects.append(.changed(member))
        if isFirst { compare(with: member.session, &turn) }
    }

    /// Announces this node with a higher incarnation, and pings some members with the announcement
    /// immediately: a suspicion that many nodes share ends early.
    private mutating func contradict(_ incarnation: UInt32, _ turn: inout Turn) {
        guard incarnation < .max else { return }
        incarnationTold = max(incarnationTold, incarnation)
        own.incarnation = max(own.incarnation, incarnation) + 1
        announceSelf()
        let word = Update.alive(own).encoded
        for member in roster.someAlive(options.relays, except: nil, &random) {
            ping(member.session, at: member.address, number: makeSequence(), first: [word], &turn)
        }
    }

    // MARK: Suspect and dead

    mutating func suspect(
        _ session: SessionID, in incarnation: UInt32, by accuser: SessionID, _ turn: inout Turn
    ) {
        if session == own.session {
            guard !isLeaving, incarnation >= own.incarnation else { return }
            // Another node could not reach this node, so this node may be slow.
            health.worsen(by: 1)
            return contradict(incarnation, &turn)
        }
        guard var member = roster[session], incarnation >= member.incarnation else { return }
        switch member.state {
        case .dead, .left: return
        case .suspect:
            guard suspicions[session]?.confirm(by: accuser) ?? false else { return }
        case .alive:
            member.state = .suspect
            member.incarnation = incarnation
            member.since = turn.now
            roster.update(member)
            suspicions[session] = Suspicion(
                incarnation: incarnation, by: accuser, since: turn.now, members: roster.count + 1,
                options: options)
            turn.effects.append(.changed(member))
            // Each node that suspects a member pings the member itself. Otherwise the member's contradiction
            // would reach the node through other nodes only.
            ping(session, at: member.address, number: makeSequence(), first: accusations(member), &turn)
        }
        news.put(
            .accusation(session, by: accuser), Update.suspect(session, incarnation, by: accuser).encoded)
    }

    mutating func declareDead(_ turn: inout Turn) {
        guard !suspicions.isEmpty else { return }
        for session in suspicions.keys.sorted() {
            guard let suspicion = suspicions[session], suspicion.deadline(options) <= turn.now else {
                continue
            }
            let news = Update.dead(session, suspicion.incarnation, by: own.session)
            end(session, as: .dead, in: suspicion.incarnation, news: news, &turn)
        }
    }

    /// A member is dead or has left: the member says that it leaves, or the engine's table shows the member
    /// no more. Others pass the news on. A dead member may still leave.
    private mutating func end(
        _ session: SessionID, as state: State, in incarnation: UInt32, news update: Update,
        _ turn: inout Turn
    ) {
        if session == own.session {
            if !isLeaving, incarnation >= own.incarnation { contradict(incarnation, &turn) }
            return
        }
        guard var member = roster[session], incarnation >= member.incarnation,
            member.state != .left, member.state != state
        else { return }
        suspicions[session] = nil
        linkDoubts.forget(session)
        member.state = state
        member.incarnation = incarnation
        member.since = turn.now
        roster.update(member)
        news.put(.member(session), update.encoded)
        turn.effects.append(.changed(member))
    }

    /// An open connection that breaks is a reason to suspect, except for a while after the member has
    /// contradicted such a suspicion (`LinkDoubts`).
    mutating func linkReset(_ session: SessionID, _ turn: inout Turn) {
        guard let member = roster[session], member.state == .alive,
            linkDoubts.suspects(session, now: turn.now)
        else { return }
        suspect(session, in: member.incarnation, by: own.session, &turn)
    }

    // MARK: The engine's table

    /// A node in the engine's table is a node to look for. A session that has vanished from the table was
    /// fenced, and no session ever comes back.
    mutating func merge(_ rows: [Row], _ turn: inout Turn) {
        for row in rows where row.session != own.session && roster[row.session] == nil {
            alive(
                Member(
                    session: row.session, name: row.name, address: row.address, info: row.info,
                    incarnation: 0, state: .alive, since: turn.now), &turn)
        }
        let found = Set(rows.map(\.session))
        let vanished = tabled.subtracting(found)
        tabled = found
        for session in vanished.sorted() {
            let incarnation = roster[session]?.incarnation ?? 0
            end(session, as: .left, in: incarnation, news: .left(session, incarnation), &turn)
        }
    }
}
