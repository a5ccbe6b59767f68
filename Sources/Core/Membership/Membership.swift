import Model

/// One node's view of its cluster's other nodes: SWIM with Lifeguard's additions, and a way back.
///
/// In each interval the node probes one other node, in shuffled rounds. If that node does not answer, this
/// node probes it through helpers and over the stream connection, then suspects it, then holds it dead,
/// unless the node contradicts in time. A suspicion lasts shorter the more nodes share it, and a node that
/// seems to be slow itself gives all others more time. All news rides on probes and their answers.
///
/// The node tries the dead and the seeds at a slow pace, so that the halves of a cut find each other again.
/// It forgets a dead node only after a day, and never while the engine's table shows the node. A process is
/// known by its session, which no other process ever has. A later session of the same name replaces it.
///
/// Membership says which nodes seem to be there. It must not decide what a node writes or owns.
///
/// Das, Gupta, Motivala: SWIM (DSN 2002). Dadgar, Phillips, Currey: Lifeguard (DSN-W 2018).
///
/// Membership has no I/O, no clock and no randomness: events and the time come in, effects go out.
public struct Membership: Sendable {
    typealias Turn = Model.Turn<MonotonicTime, Effect>

    public let options: Options
    var random: SeededGenerator
    var own: Member
    var roster: Roster
    var health: LocalHealth
    var probe: Probe?
    var relays: [UInt32: Relay] = [:]
    var suspicions: [SessionID: Suspicion] = [:]
    var linkDoubts: LinkDoubts
    var news = News()
    var entries: [UInt32: GossipEntry] = [:]
    var seeds: [String] = []
    /// Questions to seeds without an answer so far, by number, and when each seed answered last. A node's own
    /// address may differ from its address as a seed, so the roster alone is not enough.
    var seedQuestions: [UInt32: String] = [:]
    var seedAnswers: [String: MonotonicTime] = [:]
    /// The sessions in the engine's table when it was last read.
    var tabled: Set<SessionID> = []
    var replays: ReplayGuard
    /// The number of the last datagram.
    private var lastNumber: UInt64 = 0
    /// When this node last received from another node.
    var lastHeard: MonotonicTime
    private(set) var isIsolated = false
    private var lastSequence: UInt32 = 0
    var nextProbe: MonotonicTime
    var nextHealing: MonotonicTime
    var nextSync: MonotonicTime
    var lastSync: MonotonicTime?
    /// The time for which this node has asked its shell to wake it.
    var armed: MonotonicTime?
    /// The highest incarnation of this node that it had to contradict.
    var incarnationTold: UInt32 = 0
    public var invariantSchedule = InvariantSchedule()

    /// - Parameters: - address: of this node's gossip for others, `HOST:PORT`. - info: the node's description
    ///   of itself, opaque here. - seed: for the order of probes and the choice of helpers.
    public init(
        session: SessionID, name: String, address: String, info: [UInt8], seed: UInt64,
        options: Options = Options(), now: MonotonicTime
    ) {
        self.options = options
        health = LocalHealth(scoreMax: options.healthMax)
        linkDoubts = LinkDoubts(options)
        replays = ReplayGuard(sendersMax: 2 * options.membersMax)
        random = SeededGenerator(seed: seed)
        own = Member(
            session: session, name: name, address: address, info: info, incarnation: 1, state: .alive,
            since: now)
        roster = Roster()
        lastHeard = now
        nextProbe = now
        nextHealing = now
        nextSync = now.advanced(by: options.syncInterval)
        announceSelf()
    }

    /// All other nodes that this node remembers, dead ones included, in the order of their sessions.
    public var members: [Member] { roster.all }

    /// Whether a member is there at the seed's address, or the seed has ever answered.
    public func isReached(_ seed: String) -> Bool { roster.isReached(seed) || seedAnswers[seed] != nil }

    public var ownSession: SessionID { own.session }
    /// Rises with each contradiction and with each new description of this node.
    public var incarnation: UInt32 { own.incarnation }
    public func entry(_ key: UInt32) -> GossipEntry? { entries[key] }
    public func member(_ session: SessionID) -> Member? { roster[session] }

    /// How slow this node seems to be: 0 for not at all. Its timeouts are `localHealth + 1` times as long.
    public var localHealth: Int { health.score }

    public mutating func handle(_ event: Event, now: MonotonicTime, into effects: inout [Effect]) {
        var turn = Turn(at: now, &effects)
        handle(event, &turn)
        arm(&turn)
        turn.end(&effects)
        checkInvariants()
    }

    private mutating func handle(_ event: Event, _ turn: inout Turn) {
        switch event {
        case .woke: tick(&turn)
        case .datagram(let bytes, let from): receive(bytes, from: from, &turn)
        case .stream(let bytes): receiveStream(bytes, &turn)
        case .linkReset(let session): linkReset(session, &turn)
        case .seeds(let addresses): seeds = addresses.filter { $0 != own.address }
        case .table(let rows): merge(rows, &turn)
        case .publish(let entry):
            if learn(entry) { news.put(.entry(entry.key), Update.entry(entry).encoded) }
        case .describe(let info):
            guard info != own.info else { return }
            own.info = info
            // A process of the cluster may have named the highest incarnation: this must not overflow.
            own.incarnation = max(own.incarnation, own.incarnation &+ 1)
            announceSelf()
        case .leave: leave(&turn)
        }
    }

    var isLeaving: Bool { own.state == .left }

    // MARK: Time

    private mutating func tick(_ turn: inout Turn) {
        if let planned = armed, planned <= turn.now {
            armed = nil
            let late = turn.now.since(planned)
            // This node slept, and must not blame others for answers that it missed.
            if late >= options.ackTimeout { excuse(late, turn.now) }
        }
        guard !isLeaving else { return }
        advanceProbe(&turn)
        nackForRelays(&turn)
        declareDead(&turn)
        judgeIsolation(&turn)
        if turn.now >= nextHealing { heal(&turn) }
        if turn.now >= nextSync { syncRegularly(&turn) }
    }

    private mutating func excuse(_ late: TimeSpan, _ now: MonotonicTime) {
        health.worsen(by: 1)
        probe = nil
        nextProbe = now
        lastHeard = lastHeard.advanced(by: late)
        for session in suspicions.keys { suspicions[session]?.prolong(by: late) }
    }

    private mutating func arm(_ turn: inout Turn) {
        guard !isLeaving else { return }
        var next = min(probe?.nextStep ?? nextProbe, nextSync)
        if hasSomebodyToFind { next = min(next, nextHealing) }
        for suspicion in suspicions.values { next = min(next, suspicion.deadline(options)) }
        for relay in relays.values { next = min(next, relay.nextStep) }
        if let armed, armed <= next, armed > turn.now { return }
        armed = next
        turn.effects.append(.wake(at: next))
    }

    /// Counts this node as cut off if it receives from no other node, although some that it knows have not
    /// left.
    mutating func judgeIsolation(_ turn: inout Turn) {
        let isAlone = roster.count > roster.goneCount && turn.now.since(lastHeard) >= options.isolation
        guard isAlone != isIsolated else { return }
        isIsolated = isAlone
        turn.effects.append(.isolated(isAlone))
    }

    mutating func makeSequence() -> UInt32 {
        lastSequence &+= 1
        return lastSequence
    }

    mutating func makeMark(for target: SessionID) -> DatagramMark {
        lastNumber += 1
        return DatagramMark(target: target, number: lastNumber)
    }

    mutating func announceSelf() { news.put(.member(own.session), Update.alive(own).encoded) }

    private mutating func leave(_ turn: inout Turn) {
        guard !isLeaving else { return }
        own.state = .left
        let word = Update.left(own.session, own.incarnation).encoded
        news.put(.member(own.session), word)
        for member in roster.someAlive(options.relays * 2, except: nil, &random) {
            ping(member.session, at: member.address, number: makeSequence(), first: [word], &turn)
        }
    }

    /// How many packets carry a piece of news at most.
    var retransmitLimit: Int {
        let others = roster.count + 1
        return options.retransmitFactor * (Int.bitWidth - others.leadingZeroBitCount)
    }
}
