import Catalog
import FCMAPI
import Logging
import Model
import NIOCore
import NodeCore
import Partitions
import PeerLink
import Quotas
import RegistrationIDs
import Routing

/// One event loop's share of a node: its sockets, timers and mailbox around the core that decides.
///
/// Messages from other threads wait in the mailbox. Requests from clients go to the core immediately, and the
/// next turn finishes them. The loop then carries out the core's effects.
// Safe: every property is touched on the loop's event loop only; other threads reach the loop through its
// mailbox, which is locked.
final class NodeLoop: @unchecked Sendable {
    let number: Int
    let eventLoop: any EventLoop
    let shared: NodeShared
    let log: Logger
    private let keys: RegistrationKeys
    /// The keys as the catalog has them; some may not be in use yet.
    private var registrationKeys: [RegistrationKey] = []
    private let api: API
    /// One for each loop, this one's included. Set once before the first turn.
    var mailboxes: [Mailbox] = []
    /// In a cluster: the connections to other processes.
    var peers: PeerConnections?
    private var isTurnScheduled = false
    private var spare: [LoopEffect] = []
    private var spareBatch: LoopInbox.Batch = []
    private(set) var now: Instant
    private var keepAliveTask: RepeatedTask?

    /// The side towards clients.
    private(set) lazy var frontend = RequestFrontend(loop: self, api: api)
    private(set) lazy var core = makeCore()
    var pushes = LoopPushes()
    /// When the loop last reported what waits for push services.
    var pushesTold = MonotonicTime(.zero)

    init(
        number: Int, eventLoop: any EventLoop, shared: NodeShared, settings: APISettings,
        keys: RegistrationKeys, log: Logger
    ) {
        self.number = number
        self.eventLoop = eventLoop
        self.shared = shared
        self.keys = keys
        self.log = log
        now = Clock.now()
        api = API(settings: settings, keys: keys)
        api.areKeysCurrent = { shared.isCatalogCurrent }
    }

    private func makeCore() -> LoopCore<RequestFrontend> {
        var options = LoopOptions(
            map: shared.map, session: shared.session, histories: shared.histories, partition: shared.options)
        options.number = number
        options.processID = shared.processID
        options.isClustered = shared.isClustered
        options.epochs = shared.epochs
        options.formerQuotas = shared.formerQuotas
        options.clockWitness = shared.clockWitness
        options.started = shared.started
        options.pushServices = shared.administrator.pushServices
        // The partitions keep what waits for push services: the next server pushes it.
        if shared.isForOneCommand { options.pushes.unprovenAtOnce = 0 }
        return LoopCore(
            options, host: frontend, proofs: keys, random: SystemRandomNumberGenerator(), now: now)
    }

    /// Takes a catalog that the administrator has changed or read.
    func apply(_ contents: Catalog.Contents) {
        let retired = Set(contents.registrationKeys.filter(\.isRetired).map(\.number))
            .subtracting(registrationKeys.filter(\.isRetired).map(\.number))
        let deleted = Set(api.directory.byNumber.keys).subtracting(contents.directory.byNumber.keys)
        registrationKeys = contents.registrationKeys
        keys.update(registrationKeys, now: Clock.now().wall)
        // Before the directory, because a new directory clears everything that the API has verified.
        api.signingKeys = contents.signingKeys
        api.directory = contents.directory
        api.tokenURIs.formUnion(contents.tokenURIs)
        now = Clock.now()
        core.updateCatalog(
            projects: Set(contents.directory.byNumber.keys),
            limits: contents.limits.mapValues { QuotaLimits(named: $0) }, births: contents.births, now: now)
        carryOutEffects()
        frontend.endStreams(of: deleted, under: retired)
    }

    /// Every 25 s: writes a comment to every stream, and does the loop's other regular work.
    func beginKeepAlive() {
        keepAliveTask = eventLoop.scheduleRepeatedTask(initialDelay: .seconds(25), delay: .seconds(25)) { _ in
            self.frontend.keepAlive()
            self.tellPushes()
            self.core.forgetIdleBuckets(now: Clock.now())
            self.keys.update(self.registrationKeys, now: Clock.now().wall)
            self.shared.administrator.note(self.api.takeUses(now: Clock.now().wall))
            self.frontend.tellRefused(now: Clock.now().wall)
            self.storeWitness()
        }
    }

    /// One loop stores the time for the next process.
    private func storeWitness() {
        guard number == 0, let time = core.takeWitness(Clock.now()) else { return }
        shared.administrator.note(witness: time)
    }

    // MARK: Turns

    /// Reads the clock once for everything that clients hand in before the next turn.
    func beginTurn() {
        if !isTurnScheduled { now = Clock.now() }
        scheduleTurn()
    }

    func scheduleTurn() {
        guard !isTurnScheduled else { return }
        isTurnScheduled = true
        eventLoop.execute { self.turn() }
    }

    func turn() {
        isTurnScheduled = false
        now = Clock.now()
        // This turn's alone: a body that ran a turn would else drain into messages that wait here.
        var batch: LoopInbox.Batch = []
        swap(&batch, &spareBatch)
        for body in mailboxes[number].drain(into: &batch) { body(self) }
        core.turn(&batch, now: now)
        swap(&batch, &spareBatch)
        carryOutEffects()
        frontend.count()
        if now.monotonic.since(pushesTold) >= .seconds(1) { tellPushes() }
        if core.hasWork { scheduleTurn() }
    }

    /// Hands a partition that was read at the start, or could not be read, to the core.
    func deliver(_ answer: EngineAnswer) {
        enqueue(.engine(answer))
        turn()
    }

    /// Adds a message of this loop itself to its next turn.
    func enqueue(_ message: LoopMessage) {
        core.enqueue(message)
        scheduleTurn()
    }

    /// Carries out the core's effects. Further effects that an effect causes may run before the rest.
    private func carryOutEffects() {
        while !core.effects.isEmpty {
            var batch: [LoopEffect] = []
            swap(&batch, &spare)
            swap(&batch, &core.effects)
            batch.consumeEach { carryOut($0) }
            swap(&batch, &spare)
        }
    }

    private func carryOut(_ effect: consuming LoopEffect) {
        switch effect {
        case .finish(let ticket, let outcome): frontend.finish(ticket, outcome)
        case .levels(let levels, let question): frontend.answer(question, levels)
        case .post(let loop): core.takeMessages(for: loop) { mailboxes[loop].post(taking: &$0) }
        case .send(let bytes, let processID):
            core.sent(to: processID, isTaken: peers?.send(bytes, to: processID) ?? false)
        case .push(let request): push(request)
        case .open(let id, let next):
            shared.forgetDoubts(of: id)
            shared.engines.open(id, next: next)
        case .close(let id):
            let mailbox = mailboxes[number]
            shared.engines[id].close(id) { mailbox.post(.engine(.closed(id))) }
        case .append(let rows): shared.engines.submit(rows, for: number)
        case .call(let call): self.call(call)
        case .lost(let id):
            shared.forgetDoubts(of: id)
            shared.cluster?.tellOwnership(.lost(id))
        case .serving(let id): shared.cluster?.tellOwnership(.serving(id))
        case .followed(let id): shared.cluster?.tellOwnership(.followed(id))
        case .look: shared.cluster?.tellOwnership(.nudged)
        case .wake(let timer, let at): wake(timer, at: at)
        case .noted(let note): tell(note)
        }
    }

    private func wake(_ timer: LoopTimer, at time: MonotonicTime) {
        let delay = time.since(Clock.monotonic())
        eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(delay)) {
            self.enqueue(.timer(timer))
        }
    }

    private func tell(_ note: LoopNote) {
        let counters = shared.counters
        switch note {
        case .pushed(let kind, let outcome): counters.pushes.note(outcome, of: kind)
        case .doubtedDevices(let origin): shared.pushes.notices.doubted(origin)
        case .requestLate: counters.requestsLate.add(1, ordering: .relaxed)
        case .refusedBehind: counters.refusedBehind.add(1, ordering: .relaxed)
        case .leftOut: counters.leftOut.add(1, ordering: .relaxed)
        case .wordRefused: counters.answersRefused.add(1, ordering: .relaxed)
        case .frameLost: counters.peerMessagesLost.add(1, ordering: .relaxed)
        case .partitionLost(let id, let reason):
            counters.partitionsLost.add(1, ordering: .relaxed)
            shared.forgetDoubts(of: id)
            log.error(
                "a partition is read again",
                metadata: ["partition": "\(id.rawValue)", "reason": "\(reason)"])
        case .dropped(let id): shared.forgetDoubts(of: id)
        case .quarantined(let id, let reason):
            shared.quarantine(id, reason)
            log.critical(
                "a partition is quarantined: it is not served, and its rows stay as they are",
                metadata: ["partition": "\(id.rawValue)", "reason": "\(reason)"])
        case .snapshotUnreadable(let id, let reason):
            log.error(
                "a snapshot cannot be read: the partition begins with an older one",
                metadata: ["partition": "\(id.rawValue)", "error": "\(reason)"])
        case .clockDoubted(let isDoubted): shared.doubtsClock(isDoubted, loop: number)
        case .clockUnconfirmed(let ahead): shared.unconfirmedClock.tell(ahead, loop: number, shared.log)
        case .partition(let id, let notice):
            counters.note(notice, of: id, log)
            shared.note(notice, of: id)
        case .fingerprintsDiffer(let id, let with):
            counters.fingerprintDifferences.add(1, ordering: .relaxed)
            log.error(
                "two partitions count different members",
                metadata: ["partition": "\(id.rawValue)", "with": "\(with.rawValue)"])
        }
    }

    // MARK: Clients

    func submit(_ operation: Operation, ticket: UInt64) {
        core.submit(operation, ticket: ticket, now: now)
        carryOutEffects()
        scheduleTurn()
    }

    func askLevels(of project: ProjectNumber, question: UInt64) {
        core.askLevels(of: project, question: question)
        scheduleTurn()
    }

    func attach(_ registration: Registration, by authority: Authority, resume: EventID?) -> UInt64 {
        let stream = core.attach(registration, by: authority, resume: resume, now: now)
        carryOutEffects()
        scheduleTurn()
        return stream
    }

    func detach(_ stream: UInt64) {
        guard core.detach(stream) else { return }
        carryOutEffects()
        scheduleTurn()
    }

    func drained(_ stream: UInt64) {
        guard core.drained(stream) else { return }
        carryOutEffects()
        scheduleTurn()
    }
}

extension RegistrationKeys: DeviceMACMaker {}
