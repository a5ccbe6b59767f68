import FCMAPI
import Journal
import Logging
import Model
import NIOCore
import Partitions
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
// Confined to its event loop; other threads reach it only through its mailbox.
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

    private var queue: [LoopMessage] = []
    private var outgoing: [[LoopMessage]] = []
    private var rows: [Row] = []
    private var dirty = PartitionSet()
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
        let gateway = GatewayID(UInt32(number))
        var random = SystemRandomNumberGenerator()
        let options = Router.Options(
            partitionCount: shared.partitionCount, gateway: gateway, session: random.next())
        // The loop stands in the id, so that a grant finds its way; the rest names this life of it.
        let spender = SpenderID(random.next() & ~0xFF | UInt64(number))
        router = Router(options: options, admission: Admission(spender), random: random)
        streams = GatewayStreams(gateway: gateway, histories: shared.histories)
        outgoing = Array(repeating: [], count: shared.loopCount)
        api = API(settings: settings, keys: keys)
    }

    /// The side towards clients.
    private(set) lazy var front = Front(loop: self, api: api)

    /// What the administrator changed.
    func adopt(_ contents: Catalog.Contents) {
        api.directory = contents.directory
        api.tokenURIs.formUnion(contents.tokenURIs)
        adopt(contents.limits.mapValues { QuotaLimits(named: $0) })
    }

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
            shared.engine.submit(rows, for: number)
            rows.removeAll(keepingCapacity: true)
        }
        for loop in outgoing.indices where !outgoing[loop].isEmpty {
            mailboxes[loop].post(outgoing[loop])
            outgoing[loop].removeAll(keepingCapacity: true)
        }
        front.count()
        if !queue.isEmpty { scheduleTurn() }
    }

    private func handle(_ message: LoopMessage) {
        switch message {
        case .partition(let id, let event):
            guard let partition = partitions[id] else { return refuse(event) }
            guard !isPastDeviceLimit(event) else { return }
            partition.handle(event, now: now, into: &effects)
            dirty.insert(id)
            carryOut(of: id)
        case .reply(let request, let reply):
            var done: [RouterEffect] = []
            router.replied(request.number, reply, now: now, into: &done)
            carryOut(done)
        case .stream(let partition, let frame): receive(frame, from: partition)
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

    private func flushPartitions() {
        for id in dirty.sorted() {
            partitions[id]?.flush(now: now, into: &effects)
            carryOut(of: id)
        }
        dirty.removeAll()
    }

    /// A request for a partition that is being read again.
    private func refuse(_ event: PartitionEvent) {
        guard case .request(let id, _) = event else { return }
        let reply = Reply.refused(.unavailable("the partition is being read from its journal"))
        send(.reply(id, reply), toLoop: Int(id.gateway.rawValue))
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
            send(.reply(request, reply.value), toLoop: Int(request.gateway.rawValue))
        case .offer(let to, let frame):
            send(.partition(to, .offered(frame.value)), toLoop: shared.loop(of: to))
        case .acknowledge(let to, let said):
            send(.partition(to, .acknowledged(said.value)), toLoop: shared.loop(of: to))
        case .ask(let of, let question):
            send(.partition(of, .asked(question.value)), toLoop: shared.loop(of: of))
        case .tell(let to, let answer): send(.partition(to, .told(answer.value)), toLoop: shared.loop(of: to))
        case .stream(let gateway, let frame):
            send(.stream(from: id, frame.value), toLoop: Int(gateway.rawValue))
        case .confirm(let token): confirm(id, token)
        case .readRecords(let sequences, let token): read(id, sequences, token)
        case .writeSnapshot(let covering, let bytes): writeSnapshot(id, covering, bytes)
        case .trim(let below, let keeping): shared.trim(id, below: below, keeping: keeping)
        case .wake(let at): wake(id, at: at)
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
        shared.engine.perform({ engine in try engine.isAlive(session) }) { result in
            switch result {
            case .success(true): mailbox.post(.partition(id, .confirmed(token)))
            case .success(false):
                mailbox.post(.lost(id, mayHaveAppended: false, reason: "the session was fenced"))
            case .failure(let error): mailbox.post(.lost(id, mayHaveAppended: false, reason: "\(error)"))
            }
        }
    }

    private func read(_ id: PartitionID, _ sequences: [Sequence], _ token: UInt64) {
        let mailbox = mailboxes[number]
        let log = log
        shared.engine.perform({ engine in
            try engine.read(id, rows: sequences).map { row in
                (
                    sequence: row.sequence,
                    body: try RecordCodec.decode(row.payload, expecting: id, row.sequence).body
                )
            }
        }) { result in
            switch result {
            case .success(let records): mailbox.post(.partition(id, .records(records, token: token)))
            case .failure(let error):
                log.error(
                    "bodies could not be read",
                    metadata: ["partition": "\(id.rawValue)", "error": "\(error)"])
                mailbox.post(.partition(id, .records([], token: token)))
            }
        }
    }

    private func writeSnapshot(_ id: PartitionID, _ covering: Sequence, _ bytes: [UInt8]) {
        let mailbox = mailboxes[number]
        let session = shared.session
        let log = log
        shared.engine.perform({ engine in
            try engine.writeSnapshot(session: session, partition: id, covering: covering, bytes: bytes)
        }) { result in
            switch result {
            case .success: mailbox.post(.partition(id, .snapshotWritten(covering: covering)))
            case .failure(let error):
                log.error(
                    "a snapshot was not written",
                    metadata: ["partition": "\(id.rawValue)", "error": "\(error)"])
                mailbox.post(.partition(id, .snapshotFailed))
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
            case .ask(let partition, let id, let request):
                send(.partition(partition, .request(id, request)), toLoop: shared.loop(of: partition))
                if !queue.isEmpty { scheduleTurn() }
            case .finish(let ticket, let outcome): front.finish(ticket, outcome)
            case .quota(let request): send(.quotaRequest(request), toLoop: loop(ofBuckets: request.project))
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
        var commands: [StreamCommand] = []
        let router = router
        streams.receive(
            frame, from: partition, sink: front, refusal: { router.refusal($0) }, commands: &commands)
        for command in commands { tell(partition, command) }
    }

    func tell(_ partition: PartitionID, _ command: StreamCommand) {
        send(.partition(partition, .stream(command)), toLoop: shared.loop(of: partition))
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
        for (request, reply) in replies {
            send(.reply(request, reply), toLoop: Int(request.gateway.rawValue))
        }
        for loop in 0..<shared.loopCount {
            send(.run { $0.streams.lost(id, sink: $0.front) }, toLoop: loop)
        }
        dirty.remove(id)
        shared.recover(id, onto: self)
    }

    /// A partition that was read from its journal begins to serve.
    func adopt(_ partition: Partition) {
        partitions[partition.id] = partition
        now = Clock.now()
        lives &+= 1
        partition.begin(now: now, life: lives, into: &effects)
        dirty.insert(partition.id)
        carryOut(of: partition.id)
        scheduleTurn()
    }
}
