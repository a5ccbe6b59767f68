import Journal
import Model

/// Who is there, as one node of a cluster sees it: SWIM with Lifeguard's additions, and a way back.
///
/// Each interval one other node is probed, in shuffled rounds; one that does not answer is probed through
/// others and over its stream connection, then suspected, then dead, unless it contradicts in time. How long
/// a suspicion lasts shrinks as others suspect it too, and a node that seems to be slow itself gives
/// everybody more time. All news ride on the probes and their answers.
///
/// The dead are not forgotten: they and the seeds are tried for ever at a slow pace, so that the halves of a
/// cut find each other again. A process is known by its session, which no other process ever has; a later
/// session of the same name replaces it.
///
/// It says who seems to be there. Nothing may be written or owned on its word.
///
/// Das, Gupta, Motivala: SWIM (DSN 2002). Dadgar, Phillips, Currey: Lifeguard (DSN-W 2018).
///
/// No I/O, no clock, no randomness of its own: events and the time come in, effects go out.
public struct Membership: Sendable {
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
    var facts: [UInt32: Fact] = [:]
    var seeds: [String] = []
    /// Questions to seeds that are not answered yet, and when each seed answered last. A seed may be named
    /// differently from how the node there names itself.
    var seedQuestions: [UInt32: String] = [:]
    var seedAnswers: [String: MonotonicTime] = [:]
    /// Sessions that the engine's table has shown.
    var tabled: Set<SessionID> = []
    var replays: ReplayGuard
    /// Of the last datagram.
    private var lastNumber: UInt64 = 0
    var isLeaving = false
    /// When somebody was last heard.
    var lastHeard: MonotonicTime
    private(set) var isIsolated = false
    private var lastSequence: UInt32 = 0
    var nextProbe: MonotonicTime
    var nextHealing: MonotonicTime
    var nextSync: MonotonicTime
    var lastSync: MonotonicTime?
    /// When the shell was asked to come back.
    var armed: MonotonicTime?
    /// The highest incarnation that was ever said of this node.
    var incarnationTold: UInt32 = 0
    public var laws = LawWatch()

    /// - Parameters:
    ///   - address: where others reach this node's gossip, `HOST:PORT`.
    ///   - info: what it says of itself, opaque here.
    ///   - seed: for the order of probes and the choice of helpers.
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

    /// All others that it remembers, the dead too, by session.
    public var members: [Member] { roster.all }

    /// Whether somebody answers there.
    public func isReached(_ seed: String) -> Bool { roster.isReached(seed) || seedAnswers[seed] != nil }

    public var ownSession: SessionID { own.session }
    /// Rises whenever this node contradicts what was said of it.
    public var incarnation: UInt32 { own.incarnation }
    public func fact(_ key: UInt32) -> Fact? { facts[key] }
    public func member(_ session: SessionID) -> Member? { roster[session] }

    /// How badly this node itself seems to do, 0 for well: its timeouts are so many times longer, and one.
    public var localHealth: Int { health.score }

    public mutating func handle(_ event: Event, now: MonotonicTime, into effects: inout [Effect]) {
        switch event {
        case .woke: tick(now, &effects)
        case .datagram(let bytes, let from): receive(bytes, from: from, now, &effects)
        case .stream(let bytes): receiveStream(bytes, now, &effects)
        case .linkReset(let session): linkReset(session, now, &effects)
        case .seeds(let addresses): seeds = addresses.filter { $0 != own.address }
        case .table(let rows): adopt(rows, now, &effects)
        case .publish(let fact):
            if adopt(fact) { news.put(.fact(fact.key), Update.fact(fact).encoded) }
        case .describe(let info):
            guard info != own.info else { break }
            own.info = info
            // An insider may have said the last one there is.
            own.incarnation = max(own.incarnation, own.incarnation &+ 1)
            announceSelf()
        case .leave: leave(now, &effects)
        }
        arm(now, &effects)
        checkInvariants()
    }

    // MARK: Time

    private mutating func tick(_ now: MonotonicTime, _ effects: inout [Effect]) {
        if let planned = armed, planned <= now {
            armed = nil
            let late = now.since(planned)
            // It was this node that slept: what did not come meanwhile is nobody else's fault.
            if late >= options.ackTimeout { excuse(late, now) }
        }
        guard !isLeaving else { return }
        advanceProbe(now, &effects)
        nackForRelays(now, &effects)
        burySuspects(now, &effects)
        judgeIsolation(now, &effects)
        if now >= nextHealing { heal(now, &effects) }
        if now >= nextSync { syncRegularly(now, &effects) }
    }

    private mutating func excuse(_ late: UInt64, _ now: MonotonicTime) {
        health.worsen(by: 1)
        probe = nil
        nextProbe = now
        lastHeard = lastHeard.advanced(by: late)
        for session in suspicions.keys { suspicions[session]?.prolong(by: late) }
    }

    private mutating func arm(_ now: MonotonicTime, _ effects: inout [Effect]) {
        guard !isLeaving else { return }
        var next = min(probe?.nextStep ?? nextProbe, nextSync)
        if hasSomebodyToFind { next = min(next, nextHealing) }
        for suspicion in suspicions.values { next = min(next, suspicion.deadline(options)) }
        for relay in relays.values { next = min(next, relay.nextStep) }
        if let armed, armed <= next, armed > now { return }
        armed = next
        effects.append(.wake(at: next))
    }

    /// Nobody is heard though there should be somebody: this node is cut off, whoever else is dead or not.
    mutating func judgeIsolation(_ now: MonotonicTime, _ effects: inout [Effect]) {
        let isAlone = roster.count > roster.goneCount && now.since(lastHeard) >= options.isolation
        guard isAlone != isIsolated else { return }
        isIsolated = isAlone
        effects.append(.isolated(isAlone))
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

    private mutating func leave(_ now: MonotonicTime, _ effects: inout [Effect]) {
        guard !isLeaving else { return }
        isLeaving = true
        own.state = .left
        let word = Update.left(own.session, own.incarnation).encoded
        news.put(.member(own.session), word)
        for member in roster.someAlive(options.relays * 2, except: nil, &random) {
            ping(member.session, member.address, makeSequence(), first: [word], &effects)
        }
    }

    /// One time in how many packets a piece of news is told at the most.
    var tellings: Int {
        let others = roster.count + 1
        return options.tellingsFactor * (Int.bitWidth - others.leadingZeroBitCount)
    }
}
