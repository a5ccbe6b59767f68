import DequeModule
import Journal
import Membership
import Model
import Ownership
import Routing

/// Everything that a node decides for its part in the cluster: which nodes are there, which session owns
/// which partition, what this node takes, gives up and fences, and whether it is ready. The core also decides
/// what the loops and the other nodes get to know of that.
///
/// Events come in, effects go out; the core does no I/O. After each event the shell carries out `effects`, in
/// their order.
///
/// Confined to one thread.
public final class ControlCore {
    let options: ControlOptions
    var ownership: Ownership
    var membership: Membership
    public internal(set) var members: [Ownership.Member] = []
    private(set) var routes: [Ownership.Route?] = []
    var links = PeerLinks()
    var tables: PartitionTables
    var clocks = ClockComparison()
    /// How often this session has sent what it found of its clock.
    var clocksTold: UInt64 = 0
    var isDatabaseClockTold = false
    /// Since when the node's clock is one that would keep it from being ready.
    var clockWrongSince: MonotonicTime?
    var outages = Outages()
    /// The databases that were away when the loops were last notified.
    private(set) var awayTold: Set<Int> = []
    /// Why the node's leases and partitions keep it from being ready, whatever it can reach; `nil` if they
    /// do not.
    private var standing: String? = ControlCore.joining
    private static let joining = Ownership.Status.joining.sentence
    /// The node was ready at the last look at its readiness.
    private var wasAble = false
    var catalogVersion: UInt64
    var seeds: [String] = []
    /// This node ends its session itself, so a fence does not make it step down.
    private var isOver = false
    private var queue: Deque<ControlEvent> = []
    private var isHandling = false
    var isViewStale = false
    var now: MonotonicTime

    /// The effects that the shell must carry out, in this order; the shell takes them away.
    public var effects: [ControlEffect] = []
    /// Called with each invariant that does not hold, if a simulation observes.
    public var isBroken: ((String) -> Void)?

    public init(_ options: ControlOptions, now: MonotonicTime) {
        if let mistake = options.mistake { preconditionFailure(mistake) }
        self.options = options
        self.now = now
        catalogVersion = options.catalogVersion
        ownership = Ownership(
            session: options.session, name: options.name, info: options.info, options: options.ownership,
            now: now)
        membership = Membership(
            session: options.session, name: options.name, address: options.info.gossip,
            info: options.info.encoded, seed: options.seed, options: options.membership, now: now)
        tables = PartitionTables(
            options.map, histories: options.histories, looksMissed: options.looksMissed)
        ownership.invariantSchedule.isHolders = true
        membership.invariantSchedule.isHolders = true
    }

    private var session: SessionID { options.session }

    // MARK: Events

    public func handle(_ event: ControlEvent, now: MonotonicTime) {
        queue.append(event)
        guard !isHandling else { return }
        isHandling = true
        self.now = now
        while let event = queue.popFirst() { carryIn(event) }
        isHandling = false
        if isViewStale { effects.append(.view(view)) }
        isViewStale = false
        checkInvariants()
    }

    /// Queues an event behind the present one.
    func later(_ event: Ownership.Event) { queue.append(.ownership(event)) }

    private func carryIn(_ event: ControlEvent) {
        switch event {
        case .start(let seeds): start(seeds)
        case .ownership(let event):
            // The session is dead in one of the databases: nothing of the look under way counts any more.
            if case .sessionDead = event { tables.forget() }
            own { $0.handle(event, now: $1, into: &$2) }
            if case .pollFailed(let reason) = event { homeFailed(reason) }
        case .peer(let processID, let word): heard(word, from: processID)
        case .linkReset(let processID): linkReset(processID)
        case .link(let processID, let loop, let report): link(processID, loop, report: report)
        case .datagram(let packet, let from): gossip(.datagram(packet, from: from))
        case .catalog(let version):
            catalogVersion = version
            publish(.catalog, version: version, 0)
        case .announce: nudge()
        case .tellToLeave(let session): tellToLeave(session)
        case .end: isOver = true
        case .polled(let poll, let asked): polled(poll, asked: asked)
        case .clockRead(let reading): compare(reading)
        case .tableRead(let database, let look, let rows):
            tables.read(database, look: look, rows)
            finishLook(isPatient: true)
        case .tableFailed(let database, _, let reason):
            tables.failed(database, reason)
            finishLook(isPatient: true)
        case .fenced(let session):
            // The home's answer is final: once the session is dead there, the other databases mark it dead
            // too.
            effects.append(.noted(.fenced(session)))
            for database in 1..<max(1, options.map.databaseCount) {
                effects.append(.call(.markDead(session, database: database)))
            }
            own { $0.handle(.fenced(session), now: $1, into: &$2) }
        case .fenceFailed(let session, let reason):
            if let reason { effects.append(.noted(.notFenced(session, reason))) }
            own { $0.handle(.fenceFailed(session), now: $1, into: &$2) }
        case .former(let row, let former, let isAlive):
            guard isAlive else { return effects.append(.call(.takeOver(row, markingDead: former))) }
            notTaken(row.id, "session \(former.rawValue) lives")
        case .notTaken(let id, let reason): notTaken(id, reason)
        case .timer(let timer): woke(timer)
        }
    }

    private func start(_ seeds: [String]) {
        self.seeds = seeds
        own { $0.handle(.nudged, now: $1, into: &$2) }
        gossip(.seeds(seeds))
        if !seeds.isEmpty { effects.append(.wake(.seeds, at: now.advanced(by: .seconds(10)))) }
        gossip(.woke)
    }

    private func woke(_ timer: ControlTimer) {
        switch timer {
        case .ownership: own { $0.handle(.woke, now: $1, into: &$2) }
        case .gossip: gossip(.woke)
        case .patience(let look): if tables.look == look { finishLook(isPatient: false) }
        case .seeds:
            for seed in seeds where !membership.isReached(seed) { effects.append(.noted(.silentSeed(seed))) }
        }
    }

    private func heard(_ word: PeerWord, from processID: ProcessID) {
        switch word {
        case .nudge: own { $0.handle(.nudged, now: $1, into: &$2) }
        case .leave: effects.append(.endInOrder)
        case .gossip(let packet): gossip(.stream(packet))
        case .follow(let id): if let peer = session(of: processID) { later(.offered(id, by: peer)) }
        case .followed(let id): if let peer = session(of: processID) { later(.isFollowed(id, by: peer)) }
        }
    }

    private func session(of processID: ProcessID) -> SessionID? {
        members.first { $0.session.processID == processID }?.session
    }

    // MARK: Ownership

    private func own(_ body: (inout Ownership, MonotonicTime, inout [Ownership.Effect]) -> Void) {
        var wanted: [Ownership.Effect] = []
        body(&ownership, now, &wanted)
        for effect in wanted { carryOut(effect) }
    }

    private func carryOut(_ effect: Ownership.Effect) {
        switch effect {
        case .poll(let info): poll(info)
        case .fence(let session, let counter): effects.append(.call(.fence(session, at: counter)))
        case .takeOver(let row): takeOver(row)
        case .load(let id, let epoch, let grantsAfter):
            publish(.owner, number: UInt32(id.rawValue), version: epoch.rawValue, session.rawValue)
            effects.append(.order(.serve(id, epoch, grantsAfter: grantsAfter), of: id))
        case .release(let id): release(id)
        case .offer(let id, let heir): effects.append(.say(.follow(id), to: [heir.processID]))
        case .follow(let id): effects.append(.call(.follow(id)))
        case .tellFollowed(let id, let owner): effects.append(.say(.followed(id), to: [owner.processID]))
        case .unfollow(let id): effects.append(.order(.unfollow(id), of: id))
        case .drop(let id): effects.append(.order(.drop(id), of: id))
        case .routes(let routes):
            self.routes = routes
            publish()
        case .members(let members): updateMembers(members)
        case .strangers(let strangers):
            for (name, reason) in strangers.sorted(by: { $0.key < $1.key }) {
                effects.append(.noted(.stranger(name, reason: reason)))
            }
        case .nudge: nudge()
        case .stepDown: if !isOver { effects.append(.stepDown) }
        case .status(let status): updateStatus(status)
        case .left:
            gossip(.leave)
            effects.append(.left)
        case .wake(let at): effects.append(.wake(.ownership, at: at))
        }
    }

    private func updateMembers(_ members: [Ownership.Member]) {
        let gone = Set(self.members.map { $0.session.processID }).subtracting(
            members.map { $0.session.processID })
        // What a member says of itself may be all that has changed.
        if self.members.map(\.session) != members.map(\.session) {
            effects.append(.noted(.members(members.map(\.name))))
        }
        self.members = members
        links.setPeers(members.map(\.session).filter { $0 != session })
        tellGossip(members)
        effects.append(.orderAll(.members(living: Set(members.map(\.session)), gone: gone)))
        publish()
    }

    private func updateStatus(_ status: Ownership.Status) {
        standing = status == .serving ? nil : status.sentence
        if case .unreachable(let reason) = status { lookAtDatabase(0, failure: reason) }
        effects.append(.noted(.status(status)))
        publish()
    }

    private func nudge() {
        let processIDs = members.map { $0.session.processID }.filter { $0 != session.processID }
        effects.append(.say(.nudge, to: processIDs))
    }

    private func tellToLeave(_ session: SessionID) {
        guard session.processID != self.session.processID else { return effects.append(.endInOrder) }
        effects.append(.say(.leave, to: [session.processID]))
    }

    // MARK: The databases

    private func poll(_ info: Ownership.NodeInfo) {
        gossip(.describe(info.encoded))
        for (database, registers) in tables.ask() {
            effects.append(
                .call(.readTable(database: database, look: tables.look, registers: registers)))
        }
        effects.append(.call(.poll(info, asked: now)))
    }

    private func polled(_ poll: Ownership.Poll, asked: MonotonicTime) {
        #if DEBUG
            if options.planted.contains(.restless) {
                effects.append(.order(.release(PartitionID(0)), of: PartitionID(0)))
            }
        #endif
        lookAtDatabase(0, failure: nil)
        tables.join(poll, asked: asked)
        finishLook(isPatient: true)
        guard tables.isWaiting else { return }
        let end = now.advanced(by: options.tablePatience)
        effects.append(.wake(.patience(look: tables.look), at: end))
    }

    private func finishLook(isPatient: Bool) {
        guard let (poll, asked) = tables.finish(isPatient: isPatient) else { return }
        for (database, reason) in tables.failures { lookAtDatabase(database, failure: reason) }
        later(.polled(poll, asked: asked))
        // The patience with links that are down ends without an event, so each look checks readiness.
        tellReadiness()
        if tables.awayDatabases != awayTold { publish() }
    }

    /// In the home the engine's take is enough. For another database the home first answers whether the
    /// previous owner is dead; then the take marks that owner dead in the partition's database, and only then
    /// takes there (rule: fence-before-take).
    private func takeOver(_ row: PartitionRow) {
        guard options.map.database(of: row.id) > 0, let former = row.owner, former != session else {
            return effects.append(.call(.takeOver(row, markingDead: nil)))
        }
        effects.append(.call(.askFormer(row, former)))
    }

    private func release(_ id: PartitionID) {
        #if DEBUG
            if options.planted.contains(.keepPartitions) { return }
        #endif
        effects.append(.order(.release(id), of: id))
    }

    private func notTaken(_ id: PartitionID, _ reason: String) {
        effects.append(.noted(.notTaken(id, reason)))
        later(.takeOverFailed(id))
    }

    // MARK: Links

    /// A connection to or from the process broke: frames may be lost, and the process may be gone.
    private func linkReset(_ processID: ProcessID) {
        for member in members where member.session.processID == processID {
            #if DEBUG
                if options.planted.contains(.hastyFence),
                    let counter = ownership.counter(of: member.session)
                {
                    effects.append(.call(.fence(member.session, at: counter)))
                }
            #endif
            gossip(.linkReset(member.session))
        }
    }

    private func link(_ processID: ProcessID, _ loop: Int, report: LinkReport) {
        switch report {
        case .stands: tell(links.stands(processID, loop: loop, now: now))
        case .cutOff(let reason):
            let name = members.first { $0.session.processID == processID }?.name ?? "\(processID)"
            effects.append(.noted(.linkCutOff(name: name, reason: reason)))
        case .broke: links.broke(processID, loop: loop, now: now)
        case .failed(let reason): tell(links.failed(processID, loop: loop, reason: reason, now: now))
        }
        isViewStale = true
        tellReadiness()
    }

    private func tell(_ news: PeerLinks.News?) {
        func member(_ session: SessionID) -> Ownership.Member? { members.first { $0.session == session } }
        switch news {
        case .isDown(let session, let reason):
            let known = member(session)
            // A node that leaves in order ends its connections: that is no failure.
            let note = ControlNote.linkDown(
                name: known?.name ?? "\(session.rawValue)", address: known?.info.peer ?? "", reason: reason,
                isLeaving: known?.info.isLeaving ?? false)
            effects.append(.noted(note))
        case .isUpAgain(let session, let down):
            let name = member(session)?.name ?? "\(session.rawValue)"
            effects.append(.noted(.linkUp(name: name, down: down)))
        case nil: break
        }
    }

    /// A node is ready if `standing` gives no reason against it, its links let it serve a request, and its
    /// clock is the database's, or the other nodes'.
    private func tellReadiness() {
        let cutOff = links.inability(routes: routes, members: members, own: session, now: now)
        let inability = cutOff ?? clockInability()
        if let standing {
            // A node that joins waits for owners. If there can be none, that reason says more.
            let isJoining = standing == ControlCore.joining
            return effects.append(.notReady(isJoining ? inability ?? standing : standing))
        }
        if let inability {
            if wasAble { effects.append(.noted(.notReady(inability))) }
            wasAble = false
        } else if !wasAble {
            effects.append(.noted(.ready))
            wasAble = true
        }
        effects.append(.notReady(inability))
    }

    // MARK: Publishing

    /// Sends every loop the places of partitions and processes.
    private func publish() {
        var addresses: [ProcessID: String] = [:]
        for member in members where member.session != session {
            addresses[member.session.processID] = member.info.peer
        }
        awayTold = tables.awayDatabases
        // Addresses come first: a request that a loop asks again of a new owner leaves immediately.
        effects.append(.peers(addresses))
        let places = PartitionPlaces(routes, members: members, own: session)
        effects.append(.orderAll(.places(places, away: tables.away)))
        isViewStale = true
        tellReadiness()
    }

    private var view: ClusterView {
        var view = ClusterView()
        view.members = members
        view.routes = routes
        view.own = session
        view.gossip = membership.members
        view.localHealth = membership.localHealth
        view.away = tables.awayDatabases
        view.awaySince = outages.since
        view.linksDown = links.down
        return view
    }
}
