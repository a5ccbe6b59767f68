import FCMAPI
import Journal
import Logging
import Model
import NIOCore
import Ownership
import Partitions
import PeerLink
import Quotas
import Routing
import SQLiteEngine

/// One event loop's share of a node: the partitions that live on it, the clients that are connected to it,
/// and the machines between them. Everything here runs on its loop and nothing is locked.
///
/// Work is done in turns. Whatever comes in (requests, messages of other loops, the journal's answers) is
/// queued; a turn handles the queue until it is empty, then lets each partition that had work close its
/// record, and hands what goes to others over in one piece for each. So a thousand requests that came with
/// one wake-up share one record a partition, one hand-over to the engine, one wake-up of another loop and
/// one write a connection.
// Safe: everything in it is touched on its event loop only; other threads reach it through its mailbox,
// which is locked.
final class NodeLoop: @unchecked Sendable {
    let number: Int
    let eventLoop: any EventLoop
    let shared: NodeShared
    let log: Logger
    let names = TopicNames()
    var grantor = QuotaGrantor()
    var deviceLimiter = DeviceLimiter()
    var limits: [ProjectNumber: QuotaLimits] = [:]
    let keys: RegistrationKeys
    var partitions: [PartitionID: Partition] = [:]
    var router: Router
    var streams: GatewayStreams
    private let api: API
    /// One for each loop, this one's included. Set once before the first turn.
    var mailboxes: [Mailbox] = []

    /// In a cluster: where each partition is, and the way to other processes.
    var places = PartitionPlaces()
    var peers: PeerConnections?
    var toPeers: [UInt32: ByteWriter] = [:]
    var toPeersSince = MonotonicTime(nanoseconds: 0)
    /// What was read of partitions that this node may inherit, and of those that it has inherited and is
    /// reading the rest of.
    var followed: [PartitionID: FollowedPartition] = [:]
    var inherited: [PartitionID: Partition] = [:]
    /// Partitions that are being given up, and whom to tell.
    var leaving: [PartitionID: @Sendable ([ProjectNumber: [UInt64]]) -> Void] = [:]
    /// What earlier owners have left in the buckets of projects that are not asked for yet.
    var handedOver: [ProjectNumber: [UInt64]] = [:]
    var reattaching: Set<PartitionID> = []
    /// Partitions whose database does not answer, in a cluster on several.
    var away: Set<PartitionID> = []
    /// Sessions that live, as the cluster saw it last, in a cluster.
    var livingSessions: Set<SessionID> = []
    /// Processes to which something could not be handed over, until it is asked again.
    var unreachable: Set<UInt32> = []
    /// Processes that did not get something that was said to them, and how often it was tried to tell them
    /// so.
    var owed: [UInt32: Int] = [:]
    /// When each partition that is here began to be served.
    var servedSince: [PartitionID: MonotonicTime] = [:]
    /// The epoch of its home partition in which each project was made.
    var births: [ProjectNumber: Epoch] = [:]

    private var queue: [LoopMessage] = []
    private var outgoing: [[LoopMessage]] = []
    private var rows: [Row] = []
    var dirty = PartitionSet()
    private var isTurnScheduled = false
    /// Machines of partitions that began here.
    private var lives: UInt32 = 0
    private var effects: [PartitionEffect] = []
    var now: Instant

    init(
        number: Int, eventLoop: any EventLoop, shared: NodeShared, settings: APISettings,
        keys: RegistrationKeys,
        log: Logger
    ) {
        self.number = number
        self.eventLoop = eventLoop
        self.shared = shared
        self.keys = keys
        self.log = log
        now = Clock.now()
        let gateway = GatewayID(shared.life << 8 | UInt32(number))
        var random = SystemRandomNumberGenerator()
        // In a cluster whoever keeps windows of requests must know whose they are, to forget them.
        let incarnation =
            shared.isClustered ? shared.session.rawValue << 8 | UInt64(number) : random.next()
        var options = Router.Options(
            partitionCount: shared.partitionCount, gateway: gateway, session: incarnation)
        options.isClustered = shared.isClustered
        // Process and loop stand in the id, so that a grant finds its way; the rest names this life of it.
        let spender = SpenderID(random.next() << 32 | UInt64(gateway.rawValue))
        router = Router(options: options, admission: Admission(spender), random: random)
        streams = GatewayStreams(
            gateway: gateway, histories: shared.eventHistories, outlivesOwners: shared.isClustered)
        outgoing = Array(repeating: [], count: shared.loopCount)
        api = API(settings: settings, keys: keys)
    }

    /// The side towards clients.
    private(set) lazy var front = Front(loop: self, api: api)

    /// What the administrator changed.
    func adopt(_ contents: Catalog.Contents) {
        api.directory = contents.directory
        api.tokenURIs.formUnion(contents.tokenURIs)
        births = contents.births
        adopt(contents.limits.mapValues { QuotaLimits(named: $0) })
    }

    func knows(_ project: ProjectNumber) -> Bool { api.directory.byNumber[project] != nil }

    /// Reads the clock once for all that is handled before the next turn.
    func beginTurn() {
        if !isTurnScheduled { now = Clock.now() }
        scheduleTurn()
    }

    private var keepAliveTask: RepeatedTask?

    /// A comment on every stream each 25 seconds.
    func beginKeepAlive() {
        keepAliveTask = eventLoop.scheduleRepeatedTask(initialDelay: .seconds(25), delay: .seconds(25)) { _ in
            self.front.keepAlive()
            self.now = Clock.now()
            self.grantor.forgetIdle(now: self.now.monotonic)
        }
    }

    // MARK: Turns

    /// To be called whenever something was queued from this loop itself.
    func scheduleTurn() {
        guard !isTurnScheduled else { return }
        isTurnScheduled = true
        eventLoop.execute { self.turn() }
    }

    func enqueue(_ message: LoopMessage) {
        queue.append(message)
        scheduleTurn()
    }

    /// A message of another loop, or to this one.
    func send(_ message: LoopMessage, toLoop loop: Int) {
        if loop == number {
            queue.append(message)
        } else {
            outgoing[loop].append(message)
        }
    }

    func turn() {
        isTurnScheduled = false
        now = Clock.now()
        queue.append(contentsOf: mailboxes[number].take())
        repeat {
            var batch: [LoopMessage] = []
            swap(&batch, &queue)
            for message in batch { handle(message) }
        } while !queue.isEmpty
        flushPartitions()
        if !rows.isEmpty {
            shared.engines.submit(rows, for: number)
            rows.removeAll(keepingCapacity: true)
        }
        for loop in outgoing.indices where !outgoing[loop].isEmpty {
            mailboxes[loop].post(outgoing[loop])
            outgoing[loop].removeAll(keepingCapacity: true)
        }
        flushPeers()
        front.count()
        if !queue.isEmpty { scheduleTurn() }
    }

    private func handle(_ message: LoopMessage) {
        switch message {
        case .partition(let id, let event): handle(event, of: id)
        case .request(let id, let asked, let request, let mandate):
            if takes(asked, mandate, id) { handle(.request(asked, request), of: id) }
        case .reply(let request, let reply):
            var done: [RouterEffect] = []
            router.replied(request.number, reply, now: now, into: &done)
            carryOut(done)
        case .stream(let partition, let frame): receive(frame, from: partition)
        case .peerStream(let life, let partition, let frame):
            if places[partition] == .peer(life) {
                receive(frame, from: partition)
            }
        case .lost(let partition, let mayHaveAppended, let reason):
            shared.counters.partitionsLost.add(1, ordering: .relaxed)
            lose(partition, mayHaveAppended: mayHaveAppended, reason: reason)
        case .quotaRequest(let request): grant(request)
        case .quotaGrant(let grant):
            var done: [RouterEffect] = []
            router.granted(grant, now: now, into: &done)
            carryOut(done)
        case .quotaRefusal(let request, let refusal):
            var done: [RouterEffect] = []
            router.refused(request.number, refusal, into: &done)
            carryOut(done)
        case .run(let body): body(self)
        }
    }

    private func handle(_ event: PartitionEvent, of id: PartitionID) {
        guard let partition = partitions[id] else { return refuse(event, id) }
        guard takes(event, id) else { return refuse(event, id) }
        guard !isPastDeviceLimit(event) else { return }
        partition.handle(event, now: now, into: &effects)
        dirty.insert(id)
        carryOut(of: id)
    }

    private func flushPartitions() {
        for id in dirty.sorted() {
            partitions[id]?.flush(now: now, into: &effects)
            carryOut(of: id)
        }
        dirty.removeAll()
        if !leaving.isEmpty { finishLeaving() }
    }

    /// A request for a partition that is being read again, or that is not here.
    private func refuse(_ event: PartitionEvent, _ partition: PartitionID) {
        switch event {
        case .request(let id, _):
            let reason = "the partition is being read from its journal"
            answer(id, .refused(shared.isClustered ? absence(of: partition) : .unavailable(reason)))
        case .stream(.attach(let stream, _, _, _)) where shared.isClustered:
            tellStream(stream.gateway, .refused(stream, .moved), from: partition)
        default: break
        }
    }

    // MARK: Effects of partitions

    private func carryOut(of id: PartitionID) {
        guard !effects.isEmpty else { return }
        var batch: [PartitionEffect] = []
        swap(&batch, &effects)
        for effect in batch { carryOut(effect, of: id) }
        batch.removeAll(keepingCapacity: true)
        if effects.isEmpty { swap(&batch, &effects) }
    }

    private func carryOut(_ effect: PartitionEffect, of id: PartitionID) {
        switch effect {
        case .append(let sequence, let body): append(id, sequence, body)
        case .reply(let request, let reply):
            answer(request, reply.value)
        case .offer(let to, let frame): send(.offered(frame.value), to: to)
        case .acknowledge(let to, let said): send(.acknowledged(said.value), to: to)
        case .ask(let of, let question): send(.asked(question.value), to: of)
        case .tell(let to, let answer): send(.told(answer.value), to: to)
        case .stream(let gateway, let frame): tellStream(gateway, frame.value, from: id)
        case .confirm(let token): confirm(id, token)
        case .readRecords(let sequences, let token): read(id, sequences, token)
        case .writeSnapshot(let covering, let bytes): writeSnapshot(id, covering, bytes)
        case .trim(let below, let keeping): shared.trim(id, below: below, keeping: keeping)
        case .wake(let at): wake(id, at: at)
        case .notice(let notice): shared.counters.note(notice, of: id, log)
        case .fingerprintsDiffer(let with):
            shared.counters.fingerprintDifferences.add(1, ordering: .relaxed)
            log.error(
                "the members of a pair of partitions differ",
                metadata: ["partition": "\(id.rawValue)", "with": "\(with.rawValue)"])
        }
    }

    private func append(_ id: PartitionID, _ sequence: Sequence, _ body: [UInt8]) {
        guard let partition = partitions[id] else { return }
        let header = RecordHeader(
            partition: id, sequence: sequence, epoch: shared.epoch(of: id), history: partition.history)
        do {
            rows.append(
                Row(
                    partition: id, sequence: sequence,
                    payload: try RecordCodec.encode(header: header, body: body)))
        } catch {
            enqueue(.lost(id, mayHaveAppended: false, reason: "the record is too large: \(error)"))
        }
    }

    private func confirm(_ id: PartitionID, _ token: UInt64) {
        let mailbox = mailboxes[number]
        let session = shared.session
        shared.engines[id].perform({ engine in try engine.isAlive(session) }) { result in
            switch result {
            case .success(true): mailbox.post(.partition(id, .confirmed(token)))
            // What is in flight meanwhile may go in, or be in.
            case .success(false):
                mailbox.post(.lost(id, mayHaveAppended: true, reason: "the session was fenced"))
            case .failure(let error): mailbox.post(.lost(id, mayHaveAppended: true, reason: "\(error)"))
            }
        }
    }

    private func wake(_ id: PartitionID, at time: MonotonicTime) {
        let delay = time.since(Clock.monotonic())
        eventLoop.assumeIsolated().scheduleTask(in: .nanoseconds(Int64(clamping: delay))) {
            self.enqueue(.partition(id, .woke))
        }
    }

    // MARK: Effects of the router

    func carryOut(_ effects: [RouterEffect]) {
        for effect in effects {
            switch effect {
            case .ask(let partition, let id, let request, let deadline):
                ask(partition, id, request, deadline)
                if !queue.isEmpty || !toPeers.isEmpty { scheduleTurn() }
            case .finish(let ticket, let outcome): front.finish(ticket, outcome)
            case .quota(let request): sendQuota(request)
            case .wakeRetry(let time):
                let delay = time.since(Clock.monotonic())
                eventLoop.assumeIsolated().scheduleTask(in: .nanoseconds(Int64(clamping: delay))) {
                    self.now = Clock.now()
                    var done: [RouterEffect] = []
                    self.router.retryMoved(now: self.now, into: &done)
                    self.carryOut(done)
                    self.scheduleTurn()
                }
            case .wakeQuota(let time): scheduleQuotaWake(at: time)
            case .wake(let time):
                let delay = time.since(Clock.monotonic())
                eventLoop.assumeIsolated().scheduleTask(in: .nanoseconds(Int64(clamping: delay))) {
                    self.now = Clock.now()
                    var done: [RouterEffect] = []
                    self.router.woke(now: self.now, into: &done)
                    self.carryOut(done)
                }
            }
        }
    }

    func submit(_ operation: Operation, ticket: UInt64) {
        var done: [RouterEffect] = []
        router.submit(operation, ticket: ticket, now: now, into: &done)
        carryOut(done)
        scheduleTurn()
    }

    // MARK: Streams

    func receive(_ frame: StreamFrame, from partition: PartitionID) {
        if case .refused(_, .moved) = frame { return reattachLater(partition) }
        var commands: [StreamCommand] = []
        let router = router
        streams.receive(
            frame, from: partition, sink: front, refusal: { router.refusal($0) }, commands: &commands)
        for command in commands { tell(partition, command) }
    }

    func tell(_ partition: PartitionID, _ command: StreamCommand) {
        send(.stream(command), to: partition)
        scheduleTurn()
    }

    // MARK: Losing a partition

    /// Its machine is thrown away; who waited is told; another is made from the journal.
    private func lose(_ id: PartitionID, mayHaveAppended: Bool, reason: String) {
        guard let partition = partitions.removeValue(forKey: id) else { return }
        log.error(
            "a partition is read again", metadata: ["partition": "\(id.rawValue)", "reason": "\(reason)"])
        var replies: [(RequestID, Reply)] = []
        partition.abandon(mayHaveAppended: mayHaveAppended, reason: reason, into: &replies)
        for (request, reply) in replies { answer(request, reply) }
        dirty.remove(id)
        if let cluster = shared.cluster {
            grantor.close { home(of: $0) == id }
            return cluster.lost(id)
        }
        for loop in 0..<shared.loopCount {
            send(.run { $0.streams.lost(id, sink: $0.front) }, toLoop: loop)
        }
        shared.recover(id, onto: self)
    }

    /// A partition that was read from its journal begins to serve.
    func adopt(_ partition: Partition) {
        partitions[partition.id] = partition
        now = Clock.now()
        servedSince[partition.id] = now.monotonic
        lives &+= 1
        partition.begin(now: now, life: lives, into: &effects)
        partition.forgetWindows(living: livingSessions)
        dirty.insert(partition.id)
        carryOut(of: partition.id)
        scheduleTurn()
    }
}
