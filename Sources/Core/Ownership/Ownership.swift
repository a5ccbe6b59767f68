import Journal
import Model
import Placement

/// Decides, for one node of a cluster, which partitions the node takes, gives up and loses, and the places of
/// all others.
///
/// The node learns from polls of the engine's small tables, every half second; each poll renews the node's
/// own lease first. From the sessions that seem to be there the node computes the place of each partition;
/// all nodes compute the same. The wish grants nothing: a node takes a partition only by the engine's answer,
/// after the owner's session is dead, and only the owner gives a partition up (rule: fence-before-take). So
/// two nodes that see different clusters, or a node that slept, cost moves and never a record.
///
/// No I/O, no clock: events and the time come in, effects go out.
public struct Ownership {
    enum Holding: Hashable, Sendable {
        case taking
        case loading(Epoch)
        case serving(Epoch)
        case releasing(Epoch)

        var epoch: Epoch? {
            switch self {
            case .taking: nil
            case .loading(let epoch), .serving(let epoch), .releasing(let epoch): epoch
            }
        }
    }

    struct Seen {
        var counter: UInt64
        /// Since when the counter has not moved, as far as this node could see.
        var since: MonotonicTime
    }

    typealias Turn = Model.Turn<MonotonicTime, Effect>

    public let session: SessionID
    public let name: String
    private(set) var info: NodeInfo
    let options: Options
    var holdings: [PartitionID: Holding] = [:]
    /// When this node last learned of its own change to a partition's row. A look that was asked for before
    /// then says nothing about that row.
    private var changed: [PartitionID: MonotonicTime] = [:]
    /// Partitions of which this node does not know whether its release went through.
    var unsure: Set<PartitionID> = []
    private(set) var seen: [SessionID: Seen] = [:]
    /// Sessions that gossip holds dead, and since when.
    private(set) var suspects: [SessionID: MonotonicTime] = [:]
    private(set) var isolatedSince: MonotonicTime?
    private var isRefused = false
    /// Routes that gossip has brought and the table has not shown yet.
    var heard: [PartitionID: Route] = [:]
    var fencing: Set<SessionID> = []
    var following = Following()
    var formerGrants: FormerOwnerGrants
    var last = Poll(sessions: [], partitions: [])
    var members: [Member] = []
    var strangers: [String: String] = [:]
    private(set) var routes: [Route?] = []
    private var candidates: [NodePlacement.Candidate] = []
    private var candidatesSince: MonotonicTime
    private(set) var looks: Looks
    public private(set) var status = Status.joining
    public var invariantSchedule = InvariantSchedule()

    public init(
        session: SessionID, name: String, info: NodeInfo, options: Options = Options(), now: MonotonicTime
    ) {
        self.session = session
        self.name = name
        self.info = info
        self.options = options
        formerGrants = FormerOwnerGrants(lease: options.lease)
        looks = Looks(options, now: now)
        candidatesSince = now
    }

    public mutating func handle(_ event: Event, now: MonotonicTime, into effects: inout [Effect]) {
        var turn = Turn(at: now, &effects)
        handle(event, &turn)
        turn.end(&effects)
        checkInvariants()
    }

    private mutating func handle(_ event: Event, _ turn: inout Turn) {
        switch event {
        case .woke: woke(&turn)
        case .nudged: poll(&turn)
        case .polled(let poll, let asked): polled(poll, asked: asked, &turn)
        case .pollFailed(let reason): pollFailed(reason, &turn)
        case .sessionDead: turn.effects.append(.stepDown)
        case .fenced: poll(&turn)
        case .fenceFailed(let session): fencing.remove(session)
        case .taken(let id, let epoch): taken(id, in: epoch, &turn)
        case .takeOverFailed(let id): if case .taking = holdings[id] { holdings[id] = nil }
        case .serving(let id):
            if case .loading(let epoch) = holdings[id] { holdings[id] = .serving(epoch) }
            updateStatus(&turn)
        case .released(let id):
            if case .releasing = holdings[id] { holdings[id] = nil }
            changed[id] = turn.now
            turn.effects.append(.nudge)
            poll(&turn)
        case .lost(let id):
            // The partition begins again under another epoch, so that every process that spoke with it
            // notices. A partition that is being given up already is not given up twice.
            guard let holding = holdings[id], let epoch = holding.epoch else { return }
            if case .releasing = holding { return }
            giveUp(id, of: epoch, &turn)
        case .releaseFailed(let id):
            // The partition's machine has ended already. The next look shows whether this node still owns the
            // row.
            guard case .releasing = holdings[id] else { return }
            unsure.insert(id)
            changed[id] = turn.now
        case .offered(let id, let owner): offered(id, by: owner, &turn)
        case .followed(let id): followed(id, &turn)
        case .followFailed(let id): _ = following.end(id)
        case .isFollowed(let id, let heir):
            guard following.isFollowed(id, by: heir), case .serving(let epoch) = holdings[id] else { return }
            giveUp(id, of: epoch, &turn)
        case .suspected(let session, let isGone):
            suspects[session] = isGone ? suspects[session] ?? turn.now : nil
            if isGone { poll(&turn) }
        case .isolated(let isAlone): isolatedSince = isAlone ? turn.now : nil
        case .certificateRefused(let isRefused):
            self.isRefused = isRefused
            poll(&turn)
        case .heard(let id, let route): learn(id, at: route, &turn)
        case .leave:
            guard !info.isLeaving else { return }
            info.isLeaving = true
            updateStatus(&turn)
            poll(&turn)
        }
    }

    // MARK: Polls

    private mutating func woke(_ turn: inout Turn) {
        carryOut(looks.woke(turn.now), &turn)
    }

    private mutating func poll(_ turn: inout Turn) {
        carryOut(looks.want(turn.now), &turn)
    }

    private mutating func carryOut(_ step: Looks.Step, _ turn: inout Turn) {
        switch step {
        case .nothing: break
        case .ask(let overdueAt):
            turn.effects.append(.poll(info))
            turn.effects.append(.wake(at: overdueAt))
        case .overdue: set(.unreachable("the database does not answer"), &turn)
        }
    }

    /// Schedules the next poll after `gap`, or immediately if an event has asked for one meanwhile.
    private mutating func schedule(after gap: TimeSpan, _ turn: inout Turn) {
        let (step, next) = looks.schedule(turn.now, after: gap)
        carryOut(step, &turn)
        turn.effects.append(.wake(at: next))
    }

    private mutating func pollFailed(_ reason: String, _ turn: inout Turn) {
        if looks.failed(turn.now) { set(.unreachable(reason), &turn) }
        // Sooner than usual: other nodes, whose looks went through, meanwhile see that this node's lease does
        // not move.
        schedule(after: max(.nanoseconds(1), options.pollInterval / 4), &turn)
    }

    private mutating func polled(_ poll: Poll, asked: MonotonicTime, _ turn: inout Turn) {
        // A node that could not look, or slept, has not seen a counter stay unchanged: it counts from now on.
        let isLate = turn.now.since(asked) >= looks.patience
        let wasBlind = looks.succeeded(asked: asked, turn.now)
        for row in poll.sessions where seen[row.id]?.counter != row.counter || wasBlind {
            seen[row.id] = Seen(counter: row.counter, since: turn.now)
        }
        let living = Set(poll.sessions.map(\.id))
        formerGrants.note(last.sessions, then: poll, turn.now)
        seen = seen.filter { living.contains($0.key) }
        suspects = suspects.filter { living.contains($0.key) }
        fencing.formIntersection(living)
        last = poll
        for id in poll.old { following.settle(id) }
        info.isCutOff = isRefused || isMinority(asked)
        adoptMembers(asked, &turn)
        reconcile(asked, &turn)
        publishRoutes(&turn)
        // This node slept before it got the answer: a session that was gone then may be back.
        if !isLate { fenceTheGone(asked, &turn) }
        takeAndRelease(&turn)
        updateStatus(&turn)
        schedule(after: options.pollInterval, &turn)
    }

    private mutating func adoptMembers(_ asked: MonotonicTime, _ turn: inout Turn) {
        let found = last.sessions.compactMap { Member($0) }
        if found != members {
            members = found
            turn.effects.append(.members(found))
        }
        tellStrangers(&turn)
        // A member that leaves, is cut off or counts as gone gets nothing more.
        let live = found.filter { member in
            let isWilling = member.session == session ? !info.isCutOff : !member.info.isCutOff
            return member.info.isShard && !member.info.isLeaving && isWilling
                && !isGone(member.session, asked)
        }
        let next = live.map { NodePlacement.Candidate(name: $0.name, weight: $0.info.weight) }
            .sorted { $0.name < $1.name }
        if next != candidates {
            candidates = next
            candidatesSince = turn.now
            following.forgetDeaf()
        }
    }

    /// Compares the table's rows with what this node believes of its partitions. The look is in no order with
    /// takes and releases under way (docs/ownership.md, "Leases").
    private mutating func reconcile(_ asked: MonotonicTime, _ turn: inout Turn) {
        for row in last.partitions where changed[row.id].map({ $0 < asked }) ?? true {
            if last.old.contains(row.id) { continue }
            if unsure.remove(row.id) != nil, case .releasing = holdings[row.id] {
                // Another owner or none: the release went through, and its answer was lost. Else release
                // again.
                if row.owner == session {
                    turn.effects.append(.release(row.id))
                } else {
                    holdings[row.id] = nil
                }
                continue
            }
            let held = holdings[row.id]
            if row.owner == session, held == nil {
                holdings[row.id] = .loading(row.epoch)
                let grantsAfter = formerGrants.noteTaken(row.id, turn.now)
                turn.effects.append(.load(row.id, row.epoch, grantsAfter: grantsAfter))
            } else if let epoch = held?.epoch,
                row.epoch > epoch || (row.epoch == epoch && row.owner != session)
            {
                if case .releasing = held, row.owner == nil { continue }
                holdings[row.id] = nil
                following.settle(row.id)
                turn.effects.append(.drop(row.id))
            }
        }
    }

    private mutating func publishRoutes(_ turn: inout Turn) {
        let living = Set(last.sessions.map(\.id))
        let next = last.partitions.map { row -> Route? in
            if let heard = heard[row.id] {
                if heard.epoch > row.epoch, living.contains(heard.session) { return heard }
                if heard.epoch <= row.epoch { self.heard[row.id] = nil }
            }
            guard let owner = row.owner, living.contains(owner) else { return nil }
            return Route(session: owner, epoch: row.epoch)
        }
        guard next != routes else { return }
        routes = next
        turn.effects.append(.routes(next))
    }

    /// Follows a route only to a higher epoch (rule: ask-the-next-owner).
    private mutating func learn(_ id: PartitionID, at route: Route, _ turn: inout Turn) {
        guard Int(id.rawValue) < last.partitions.count, route.session != session,
            route.epoch > heard[id]?.epoch ?? Epoch(0)
        else { return }
        heard[id] = route
        publishRoutes(&turn)
    }

    // MARK: Fencing

    /// Whether the other session's counter has not moved for so long that the session counts as gone. A look
    /// that was `asked` for before this node fell asleep shows nothing of the renewals meanwhile.
    private func isGone(_ other: SessionID, _ asked: MonotonicTime) -> Bool {
        guard other != session, let since = seen[other]?.since else { return false }
        let still = asked.since(since)
        return still >= looks.patience * options.leasesWithoutGossip
            || (still >= looks.patience && suspects[other] != nil)
    }

    private mutating func fenceTheGone(_ asked: MonotonicTime, _ turn: inout Turn) {
        guard !info.isCutOff else { return }
        for row in last.sessions where isGone(row.id, asked) && fencing.insert(row.id).inserted {
            turn.effects.append(.fence(row.id, at: row.counter))
        }
    }

    // MARK: Taking and giving up

    /// Without the partitions of databases that are away: these must hold up nothing in the other databases.
    private var inReach: [PartitionID: Holding] { holdings.filter { !last.away.contains($0.key) } }

    private mutating func takeAndRelease(_ turn: inout Turn) {
        let placement = NodePlacement(candidates)
        let living = Set(last.sessions.map(\.id))
        let isStable = turn.now.since(candidatesSince) >= options.stability
        var taking = inReach.values.count { if case .taking = $0 { true } else { false } }
        var releasing = inReach.values.count { if case .releasing = $0 { true } else { false } }
        for row in last.partitions where !last.old.contains(row.id) {
            let wished = placement.node(of: row.id)?.name
            switch holdings[row.id] {
            case nil:
                let isFree = row.owner.map { !living.contains($0) } ?? true
                guard isFree, wished == name, !info.isLeaving, !info.isCutOff, taking < options.takesAtOnce
                else { continue }
                taking += 1
                holdings[row.id] = .taking
                formerGrants.noteTaking(row)
                turn.effects.append(.takeOver(row))
            case .serving(let epoch):
                guard let wished, wished != name, info.isLeaving || info.isCutOff || isStable,
                    !formerGrants.mayGrant(row.id, turn.now)
                else {
                    following.settle(row.id)
                    continue
                }
                guard releasing + following.waitingCount < options.releasesAtOnce || following.waits(row.id),
                    mayGiveUp(row.id, to: wished, &turn), releasing < options.releasesAtOnce
                else { continue }
                releasing += 1
                giveUp(row.id, of: epoch, &turn)
            case .taking, .loading, .releasing: continue
            }
        }
        for id in following.expired(options, turn.now) { turn.effects.append(.unfollow(id)) }
        let mayEnd = candidates.isEmpty || inReach.isEmpty
        if info.isLeaving, mayEnd { turn.effects.append(.left) }
    }

    private mutating func giveUp(_ id: PartitionID, of epoch: Epoch, _ turn: inout Turn) {
        following.settle(id)
        holdings[id] = .releasing(epoch)
        turn.effects.append(.release(id))
    }

    private mutating func taken(_ id: PartitionID, in epoch: Epoch?, _ turn: inout Turn) {
        guard case .taking = holdings[id] else { return }
        changed[id] = turn.now
        _ = following.end(id)
        guard let epoch else {
            holdings[id] = nil
            return
        }
        holdings[id] = .loading(epoch)
        turn.effects.append(.load(id, epoch, grantsAfter: formerGrants.noteTaken(id, turn.now)))
        turn.effects.append(.nudge)
        looks.wantAgain()
    }

    // MARK: Status

    private mutating func updateStatus(_ turn: inout Turn) {
        if info.isLeaving { return set(.leaving, &turn) }
        if info.isCutOff { return set(isRefused ? .refused : .cutOff, &turn) }
        guard looks.isCurrent else { return }
        let known = zip(routes, last.partitions).filter { !last.away.contains($1.id) }
        let isWhole = !routes.isEmpty && known.allSatisfy { $0.0 != nil }
        let isLoading = inReach.values.contains { if case .serving = $0 { false } else { true } }
        let wasThere = [.serving, .cutOff, .refused].contains(status)
        if wasThere || (isWhole && !isLoading) { set(.serving, &turn) }
    }

    private mutating func set(_ next: Status, _ turn: inout Turn) {
        guard next != status else { return }
        status = next
        turn.effects.append(.status(next))
    }
}
