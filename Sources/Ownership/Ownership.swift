import Journal
import Model
import Placement

/// Decides, for one node of a cluster, which partitions the node takes, gives up and loses, and where all
/// others are.
///
/// The node learns from polls of the engine's small tables, every half second; each poll renews the node's
/// own lease first. From the sessions that seem to be there the node computes where each partition should be;
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

    public let session: SessionID
    public let name: String
    private(set) var info: NodeInfo
    let options: Options
    var holdings: [PartitionID: Holding] = [:]
    /// When this node last heard of its own change to a partition's row. A look that was asked for before
    /// then says nothing about that row.
    private var changed: [PartitionID: MonotonicTime] = [:]
    /// Partitions of which this node does not know whether its release went through.
    var unsure: Set<PartitionID> = []
    private(set) var seen: [SessionID: Seen] = [:]
    /// Sessions that gossip holds dead, and since when.
    private(set) var suspects: [SessionID: MonotonicTime] = [:]
    private(set) var isolatedSince: MonotonicTime?
    /// Routes that gossip has told and the table has not shown yet.
    var heard: [PartitionID: Route] = [:]
    var fencing: Set<SessionID> = []
    var following = Following()
    var formers: Formers
    var last = Poll(sessions: [], partitions: [])
    var members: [Member] = []
    var strangers: [String: String] = [:]
    private(set) var routes: [Route?] = []
    private var candidates: [NodePlacement.Candidate] = []
    private var candidatesSince: MonotonicTime
    private(set) var looks: Looks
    private var status = Status.joining
    public var laws = LawWatch()

    public init(
        session: SessionID, name: String, info: NodeInfo, options: Options = Options(), now: MonotonicTime
    ) {
        self.session = session
        self.name = name
        self.info = info
        self.options = options
        formers = Formers(lease: options.lease)
        looks = Looks(options, now: now)
        candidatesSince = now
    }

    public mutating func handle(_ event: Event, now: MonotonicTime, into effects: inout [Effect]) {
        defer { checkInvariants() }
        switch event {
        case .woke: woke(now, &effects)
        case .nudged: poll(now, &effects)
        case .polled(let poll, let asked): polled(poll, asked, now, &effects)
        case .pollFailed(let reason): pollFailed(reason, now, &effects)
        case .sessionDead: effects.append(.stepDown)
        case .fenced: poll(now, &effects)
        case .fenceFailed(let session): fencing.remove(session)
        case .taken(let id, let epoch): taken(id, epoch, now, &effects)
        case .takeFailed(let id): if case .taking = holdings[id] { holdings[id] = nil }
        case .serving(let id):
            if case .loading(let epoch) = holdings[id] { holdings[id] = .serving(epoch) }
            updateStatus(&effects)
        case .released(let id):
            if case .releasing = holdings[id] { holdings[id] = nil }
            changed[id] = now
            effects.append(.nudge)
            poll(now, &effects)
        case .lost(let id):
            // The partition begins again under another epoch, so that every process that spoke with it
            // notices. A partition that is being given up already is not given up twice.
            guard let holding = holdings[id], let epoch = holding.epoch else { return }
            if case .releasing = holding { return }
            giveUp(id, epoch, &effects)
        case .releaseFailed(let id):
            // The partition's machine has ended already. The next look shows whether this node still owns the
            // row.
            guard case .releasing = holdings[id] else { return }
            unsure.insert(id)
            changed[id] = now
        case .offered(let id, let owner): offered(id, by: owner, now, &effects)
        case .followed(let id): followed(id, &effects)
        case .followFailed(let id): _ = following.end(id)
        case .isFollowed(let id, let heir):
            guard following.isFollowed(id, by: heir), case .serving(let epoch) = holdings[id] else { return }
            giveUp(id, epoch, &effects)
        case .suspected(let session, let isGone):
            suspects[session] = isGone ? suspects[session] ?? now : nil
            if isGone { poll(now, &effects) }
        case .isolated(let isAlone): isolatedSince = isAlone ? now : nil
        case .heard(let id, let route): hear(id, route, &effects)
        case .leave:
            guard !info.isLeaving else { return }
            info.isLeaving = true
            updateStatus(&effects)
            poll(now, &effects)
        }
    }

    // MARK: Polls

    private mutating func woke(_ now: MonotonicTime, _ effects: inout [Effect]) {
        carryOut(looks.woke(now), &effects)
    }

    private mutating func poll(_ now: MonotonicTime, _ effects: inout [Effect]) {
        carryOut(looks.want(now), &effects)
    }

    private mutating func carryOut(_ step: Looks.Step, _ effects: inout [Effect]) {
        switch step {
        case .nothing: break
        case .ask(let overdueAt):
            effects.append(.poll(info))
            effects.append(.wake(at: overdueAt))
        case .overdue: set(.unreachable("the database does not answer"), &effects)
        }
    }

    /// Schedules the next poll after `gap` nanoseconds, or at once where an event has asked for one
    /// meanwhile.
    private mutating func schedule(_ now: MonotonicTime, after gap: UInt64, _ effects: inout [Effect]) {
        let (step, next) = looks.schedule(now, after: gap)
        carryOut(step, &effects)
        effects.append(.wake(at: next))
    }

    private mutating func pollFailed(_ reason: String, _ now: MonotonicTime, _ effects: inout [Effect]) {
        if looks.failed(now) { set(.unreachable(reason), &effects) }
        // Sooner than usual: other nodes, whose looks went through, meanwhile see this node's lease stand
        // still.
        schedule(now, after: max(1, options.pollInterval / 4), &effects)
    }

    private mutating func polled(
        _ poll: Poll, _ asked: MonotonicTime, _ now: MonotonicTime, _ effects: inout [Effect]
    ) {
        // A node that could not look, or slept, has not seen that a counter stood still: it counts from now
        // on.
        let isLate = now.since(asked) >= looks.patience
        let wasBlind = looks.succeeded(asked: asked, now)
        for row in poll.sessions where seen[row.id]?.counter != row.counter || wasBlind {
            seen[row.id] = Seen(counter: row.counter, since: now)
        }
        let living = Set(poll.sessions.map(\.id))
        formers.note(last.sessions, then: poll, now)
        seen = seen.filter { living.contains($0.key) }
        suspects = suspects.filter { living.contains($0.key) }
        fencing.formIntersection(living)
        last = poll
        for id in poll.old { following.settle(id) }
        info.isCutOff = isMinority(asked)
        adoptMembers(asked, now, &effects)
        reconcile(asked, now, &effects)
        publishRoutes(&effects)
        // This node slept before it heard the answer: a session that was gone then may be back.
        if !isLate { fenceTheGone(asked, &effects) }
        takeAndRelease(now, &effects)
        updateStatus(&effects)
        schedule(now, after: options.pollInterval, &effects)
    }

    private mutating func adoptMembers(
        _ asked: MonotonicTime, _ now: MonotonicTime, _ effects: inout [Effect]
    ) {
        let found = last.sessions.compactMap { Member($0) }
        if found != members {
            members = found
            effects.append(.members(found))
        }
        tellStrangers(&effects)
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
            candidatesSince = now
            following.forgetDeaf()
        }
    }

    /// Compares the table's rows with what this node believes of its partitions. The look is in no order with
    /// takes and releases under way (docs/ownership.md, "Leases").
    private mutating func reconcile(
        _ asked: MonotonicTime, _ now: MonotonicTime, _ effects: inout [Effect]
    ) {
        for row in last.partitions where changed[row.id].map({ $0 < asked }) ?? true {
            if last.old.contains(row.id) { continue }
            if unsure.remove(row.id) != nil, case .releasing = holdings[row.id] {
                // Another owner or none: the release went through, and its answer was lost. Else release
                // again.
                if row.owner == session { effects.append(.release(row.id)) } else { holdings[row.id] = nil }
                continue
            }
            let held = holdings[row.id]
            if row.owner == session, held == nil {
                holdings[row.id] = .loading(row.epoch)
                effects.append(.load(row.id, row.epoch, grantsAfter: formers.noteTaken(row.id, now)))
            } else if let epoch = held?.epoch,
                row.epoch > epoch || (row.epoch == epoch && row.owner != session)
            {
                if case .releasing = held, row.owner == nil { continue }
                holdings[row.id] = nil
                following.settle(row.id)
                effects.append(.drop(row.id))
            }
        }
    }

    private mutating func publishRoutes(_ effects: inout [Effect]) {
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
        effects.append(.routes(next))
    }

    /// Follows a route only to a higher epoch (rule: ask-the-next-owner).
    private mutating func hear(_ id: PartitionID, _ route: Route, _ effects: inout [Effect]) {
        guard Int(id.rawValue) < last.partitions.count, route.session != session,
            route.epoch > heard[id]?.epoch ?? Epoch(0)
        else { return }
        heard[id] = route
        publishRoutes(&effects)
    }

    // MARK: Fencing

    /// Whether the other session's counter has stood still for so long that the session counts as gone. A
    /// look that was `asked` for before this node fell asleep says nothing of the renewals meanwhile.
    private func isGone(_ other: SessionID, _ asked: MonotonicTime) -> Bool {
        guard other != session, let since = seen[other]?.since else { return false }
        let still = asked.since(since)
        return still >= looks.patience * options.leasesAlone
            || (still >= looks.patience && suspects[other] != nil)
    }

    private mutating func fenceTheGone(_ asked: MonotonicTime, _ out: inout [Effect]) {
        guard !info.isCutOff else { return }
        for row in last.sessions where isGone(row.id, asked) && fencing.insert(row.id).inserted {
            out.append(.fence(row.id, at: row.counter))
        }
    }

    // MARK: Taking and giving up

    /// Without the partitions of databases that are away: these must hold up nothing in the other databases.
    private var inReach: [PartitionID: Holding] { holdings.filter { !last.away.contains($0.key) } }

    private mutating func takeAndRelease(_ now: MonotonicTime, _ effects: inout [Effect]) {
        let placement = NodePlacement(candidates)
        let living = Set(last.sessions.map(\.id))
        let isStable = now.since(candidatesSince) >= options.stability
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
                formers.noteTaking(row)
                effects.append(.take(row))
            case .serving(let epoch):
                guard let wished, wished != name, info.isLeaving || info.isCutOff || isStable,
                    !formers.mayGrant(row.id, now)
                else {
                    following.settle(row.id)
                    continue
                }
                guard releasing + following.waitingCount < options.releasesAtOnce || following.waits(row.id),
                    mayGiveUp(row.id, to: wished, now, &effects), releasing < options.releasesAtOnce
                else { continue }
                releasing += 1
                giveUp(row.id, epoch, &effects)
            case .taking, .loading, .releasing: continue
            }
        }
        for id in following.expired(options, now) { effects.append(.unfollow(id)) }
        let mayEnd = candidates.isEmpty || inReach.isEmpty
        if info.isLeaving, mayEnd { effects.append(.left) }
    }

    private mutating func giveUp(_ id: PartitionID, _ epoch: Epoch, _ effects: inout [Effect]) {
        following.settle(id)
        holdings[id] = .releasing(epoch)
        effects.append(.release(id))
    }

    private mutating func taken(
        _ id: PartitionID, _ epoch: Epoch?, _ now: MonotonicTime, _ effects: inout [Effect]
    ) {
        guard case .taking = holdings[id] else { return }
        changed[id] = now
        _ = following.end(id)
        guard let epoch else {
            holdings[id] = nil
            return
        }
        holdings[id] = .loading(epoch)
        effects.append(.load(id, epoch, grantsAfter: formers.noteTaken(id, now)))
        effects.append(.nudge)
        looks.wantAgain()
    }

    // MARK: Status

    private mutating func updateStatus(_ effects: inout [Effect]) {
        if info.isLeaving { return set(.leaving, &effects) }
        if info.isCutOff { return set(.cutOff, &effects) }
        guard looks.isCurrent else { return }
        let known = zip(routes, last.partitions).filter { !last.away.contains($1.id) }
        let isWhole = !routes.isEmpty && known.allSatisfy { $0.0 != nil }
        let isLoading = inReach.values.contains { if case .serving = $0 { false } else { true } }
        if status == .serving || status == .cutOff || (isWhole && !isLoading) { set(.serving, &effects) }
    }

    private mutating func set(_ next: Status, _ effects: inout [Effect]) {
        guard next != status else { return }
        status = next
        effects.append(.status(next))
    }
}
