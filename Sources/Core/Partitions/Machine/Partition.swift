import Bytes
import DequeModule
import Model

/// Creates the proofs that a device shows from the secret that its partition keeps.
public protocol DeviceMACMaker: AnyObject {
    /// The suffix behind the colon of the device's token; `nil` for an unknown key.
    func tokenProof(secret: UInt64, key: UInt8) -> DeviceMAC?
    func credentialProof(secret: UInt64, key: UInt8) -> DeviceMAC?
}

/// The time has the believed wall time. `start`, `handle` and `flush` each make one turn.
typealias Turn = Model.Turn<Instant, PartitionEffect>

/// One partition: the machine around the fold.
///
/// Events come in, effects go out; the machine does no I/O and asks no clock. It folds an event into the
/// state immediately and writes it into the open record; what it has to say to others waits with that record.
/// `flush` closes the record when none is in flight, so that everything that came meanwhile shares the next
/// commit. When the journal reports the record durable, what waited goes out. While the engine refuses the
/// record, it waits, and the machine refuses requests. After any other report the loop throws the machine
/// away with `abandon`, and creates another from the journal.
///
/// Confined to one event loop.
public final class Partition {
    public let id: PartitionID
    let options: PartitionOptions
    let proofs: any DeviceMACMaker
    var state: PartitionState
    var pipeline: CommitPipeline
    /// How far the outboxes of other partitions are durably applied here.
    var durableMarks = PartitionMap<InboxMark>()
    /// How far receivers say that they have durably applied an outbox, also before the journal has it.
    var acknowledged = PartitionMap<Sequence>()
    /// The newest outbox entry that was offered to each partition, and when.
    var offered = PartitionMap<Offered>()
    /// Frames of other partitions with entries left to be applied, at most one of each partition.
    var deferred: [OutboxFrame] = []
    /// Marks that receivers have sent, and that are none of this partition's outboxes.
    var denied = PartitionMap<Denial>()
    /// Outboxes whose first entry was not acknowledged in time.
    var outboxWaits = PartitionMap<StallWatch<Sequence>>()
    /// Partitions that did not answer the oldest condition for which this one lacks them.
    var conditionWaits = PartitionMap<StallWatch<ConditionTicket>>()
    var conditionsLookedAt: MonotonicTime = .zero
    /// Partitions without an owner, as far as the loop knows: it sets them before `start` and with each
    /// change.
    public var unowned = PartitionSet()
    var outboxWaiters = PartitionMap<[OutboxWaiter]>()
    var resolutions: [ConditionTicket: Resolution] = [:]
    /// Partitions without which an earlier condition was answered, and that have told nothing since.
    var silent: Set<PartitionID> = []
    /// The answers to senders of conditions that are not resolved, and others' questions that wait here.
    var conditionAnswers: [ConditionTicket: [Answer]] = [:]
    var questions: Set<ConditionQuestion> = []
    /// Pairs that are to be compared because a database may have lost its end.
    var comparison: Comparison?
    /// Pairs whose members this partition sends again.
    var repairs = PartitionMap<Repair>()
    var streams = StreamTable()
    var bodyReads = BodyReads()
    var pushes = PushTable()
    /// The push services of projects, as far as the loop knows: it sets them before `begin` and with each
    /// change. `nil` if nobody does.
    public var pushServices: [ProjectNumber: PushServices]?
    /// Services that refuse a project's key, as the loop knows them, each until the loop asks it again.
    public var refusedKeys: [PushOrigin: MonotonicTime] = [:]
    /// Counts the marks of gone addresses in the whole process. `nil`: the partition counts only its own.
    public unowned var brake: (any GoneBrake)?
    /// Whether messages may go to push services: false once the partition is being given up.
    public var mayPush = true
    var confirmations: Deque<(token: UInt64, answer: Answer)> = []
    var lastToken: UInt64 = 0
    /// The bits of a token that count within one machine. The other 24 bits are the machine's `incarnation`.
    static let tokenBits = 40
    /// Distinguishes this machine from the partition's other machines in this process.
    public private(set) var incarnation: UInt32 = 0
    /// When this owner began, and the devices for which something waited then. `mayListen` asks for each
    /// device of each message; a look into the log for each would take a loop seconds.
    var begunAt = MonotonicTime.zero
    /// The last record of the former owners.
    var inherited = Sequence.zero
    var hadWaiting = Bitmap()
    var confirmInFlight = false
    var bookkeepingDue: MonotonicTime?
    var wakes = WakePlan()
    /// When gateways with cut-off streams were last asked to confirm something.
    var probedAt: MonotonicTime?
    var clock: TrustedClock
    var sweep = Sweep()
    var snapshots: SnapshotPlan
    /// Why the engine refuses the records in flight; `nil` while it does not.
    var refusal: String?
    /// The newest record that came to the journal when more waited there than should.
    var crowded = Sequence.zero
    public var invariantSchedule = InvariantSchedule()

    struct Offered {
        var upTo: Sequence
        var at: MonotonicTime
    }
    /// An answer that leaves when a receiver has acknowledged this number.
    struct OutboxWaiter {
        var number: Sequence
        var answer: Answer
        var proof: Proof
    }

    /// An empty partition before its first record. `names` is shared by the partitions of one loop.
    public init(
        id: PartitionID, history: History, options: PartitionOptions, names: TopicNames,
        proofs: any DeviceMACMaker
    ) {
        self.id = id
        self.options = options
        self.proofs = proofs
        state = PartitionState(
            id: id, history: history, partitionCount: options.partitionCount, limits: options.delivery,
            names: names)
        state.log.bodyCacheBytesMax = options.bodyCacheBytesMax
        pipeline = CommitPipeline(durable: .zero)
        clock = TrustedClock(
            Instant(monotonic: MonotonicTime.zero, wall: WallTime(milliseconds: 0)))
        snapshots = SnapshotPlan(
            id, covering: .zero, bytesMin: options.snapshotBytesMin, age: options.snapshotAge)
    }

    public var history: History { state.history }
    public var applied: Sequence { state.applied }
    public var deviceCount: Int { state.devices.count }
    /// The streams to which each new message is pushed.
    public var liveStreams: [LiveStream] {
        streams.live.map { LiveStream(partition: id, device: DeviceIndex($0.index), stream: $0.stream) }
    }
    /// Devices for which something may wait that a push service is to get.
    public var pushCount: Int { pushes.count }
    /// The address of each device to which something is to be pushed; `nil` if it has ended.
    public var addressesToPush: [StoredTransport?] { pushes.indices.map { pushAddress($0) } }
    /// The records with bodies that devices wait for.
    public var recordsWithBodies: [Sequence] { state.log.records.keys.sorted().map { Sequence($0) } }
    /// Whether something waits for the journal.
    public var isIdle: Bool { pipeline.isIdle && confirmations.isEmpty }
    /// Whether the engine refuses the records in flight.
    public var isRefused: Bool { refusal != nil }

    /// The body of the record that a new owner begins with.
    public static func barrier(
        session: SessionID, epoch: Epoch, rules: UInt64 = StoredRules.ofPartitions
    ) -> [UInt8] {
        var writer = ByteWriter()
        Fact.barrier(session: session, epoch: epoch, rules: rules).encode(into: &writer)
        return writer.bytes
    }

    /// Folds one durable record in, in the order of sequences. Only before `start`.
    public func replay(_ sequence: Sequence, _ body: [UInt8]) throws(DecodeError) {
        guard sequence == state.applied.next else {
            throw DecodeError(
                offset: 0,
                reason: .invalid(
                    "record \(sequence.rawValue) where \(state.applied.next.rawValue) should follow"))
        }
        var reader = ByteReader(body)
        var cursor = PartitionState.Cursor(record: sequence)
        while !reader.isAtEnd {
            let fact = try Fact.decode(from: &reader)
            if let misfit = state.misfit(fact, of: sequence) { throw reader.fail(misfit) }
            state.apply(fact, &cursor)
            snapshots.folded(fact)
        }
        state.applied = sequence
        snapshots.closed(bytes: body.count, at: nil)
    }

    /// Whether a record's body consists of facts. `replay` also asks whether the facts fit the state.
    public static func check(_ body: [UInt8]) throws(DecodeError) {
        var reader = ByteReader(body)
        while !reader.isAtEnd { _ = try Fact.decode(from: &reader) }
    }

    /// Begins to serve, after everything durable is folded in. Asks receivers that have not acknowledged
    /// everything for their marks before it offers anything. `incarnation` distinguishes this machine from
    /// earlier machines of the same partition, whose confirmations and records may still be on their way.
    /// `clock`: an unconfirmed clock of the loop; `nil`: the partition believes the reading.
    public func start(
        now: Instant, clock: TrustedClock? = nil, incarnation: UInt32 = 0,
        into effects: inout [PartitionEffect]
    ) {
        self.clock = clock ?? TrustedClock(now)
        var turn = Turn(at: now, &effects)
        defer { turn.end(&effects) }
        self.incarnation = incarnation
        lastToken = UInt64(incarnation) << Partition.tokenBits
        snapshots.begin(at: now.monotonic)
        (begunAt, hadWaiting) = (now.monotonic, state.log.union())
        inherited = state.applied
        pushes.countedEnds.before = now.wall.milliseconds / 60_000
        #if DEBUG
            if options.planted.contains(.forgetMarks) { state.marks = PartitionMap() }
            if options.planted.contains(.forgetOutboxes) {
                state.outboxes = state.outboxes.mapValues {
                    Outbox(entries: [], last: $0.last, fingerprint: $0.fingerprint)
                }
            }
            state.fanouts.leaks = options.planted.contains(.leakFanouts)
        #endif
        pipeline = CommitPipeline(durable: state.applied)
        state.keepsRemovals = true
        // What the records of earlier owners dropped, those owners have counted.
        _ = state.log.takeDrops()
        let proof = pipeline.confirmed()
        if options.generation > state.generation {
            let leftOut = options.databaseCount > 1 ? options.indicesLeftOut : 0
            propose(.generation(number: options.generation, leavingOut: leftOut))
        }
        durableMarks = state.marks
        state.outboxes.forEach { partition, outbox in
            guard !outbox.isEmpty else { return }
            offered[partition] = Offered(upTo: .zero, at: now.monotonic)
            let frame = frame([], to: partition, now)
            turn.effects.append(.offer(to: partition, Proven(frame, restingOn: .zero, by: proof)))
        }
        beginComparison(&turn)
        lookForSilence()
        for ticket in state.conditions.keys.sorted(by: ConditionTicket.isBefore) {
            beginResolution(ticket, by: proof, &turn)
        }
        wantAllPushes()
        startPushes(&turn)
        scheduleWake(&turn)
    }

    // MARK: Events

    public func handle(_ event: PartitionEvent, now: Instant, into effects: inout [PartitionEffect]) {
        var turn = Turn(at: believed(now, &effects), &effects)
        defer { turn.end(&effects) }
        makeRoom(&turn)
        switch event {
        case .request(let id, let request): onRequest(request, as: id, &turn)
        case .offered(let frame): onOffered(frame, &turn)
        case .acknowledged(let acknowledgement): onAcknowledged(acknowledgement, &turn)
        case .asked(let question): onAsked(question)
        case .told(let answer): onTold(answer, &turn)
        case .stream(let command): onStream(command, &turn)
        case .appended(let sequence): onAppended(sequence, &turn)
        case .postponed(let reason): onPostponed(reason, &turn)
        case .crowded(let sequence): crowded = max(crowded, sequence)
        case .confirmed(let token): onConfirmed(token, &turn)
        case .records(let bodies, let token): onRecords(bodies, token: token, &turn)
        case .snapshotPart(let upload, let token): onSnapshotPart(upload, token: token, &turn)
        case .snapshotFailed(let token): onSnapshotFailed(token, &turn)
        case .pushed(let report): onPushed(report, &turn)
        case .pushesChanged(let changed): onPushesChanged(changed, &turn)
        case .keyRefused(let origin, let until): onKeyRefused(origin, until: until, turn.now)
        case .woke(let at): onWoke(at, &turn)
        }
    }

    /// The end of a turn of the loop: closes the open record if the journal is free for it.
    public func flush(now: Instant, into effects: inout [PartitionEffect]) {
        var turn = Turn(at: believed(now, &effects), &effects)
        defer { turn.end(&effects) }
        #if DEBUG
            breakRules(&turn)
        #endif
        let mayWait = !pipeline.isUrgent && pipeline.openBytes < options.recordBytesMax / 4 && !isFull
        if mayWait, !pipeline.isOpenEmpty, bookkeepingDue == nil {
            bookkeepingDue = turn.now.monotonic.advanced(by: options.bookkeepingDelay)
        }
        let due = bookkeepingDue.map { $0 <= turn.now.monotonic } ?? false
        let isFree =
            pipeline.inFlight.isEmpty
            || (isFull && pipeline.inFlight.count < options.recordsInFlightMax)
        if isFree, !pipeline.isOpenEmpty, !mayWait || due { seal(&turn) }
        if !confirmInFlight, let newest = confirmations.last {
            confirmInFlight = true
            turn.effects.append(.confirm(newest.token))
        }
        scheduleWake(&turn)
        checkInvariants()
    }

    private func seal(_ turn: inout Turn) {
        guard let record = pipeline.seal(&state) else { return }
        bookkeepingDue = nil
        turn.effects.append(.append(record.sequence, body: record.body))
        snapshots.closed(bytes: record.body.count, at: turn.now.monotonic)
        beginSnapshot(turn.now.monotonic)
    }

    /// Whether the open record takes no more: the record is long, or one of the outbox entries that it makes
    /// is long (rule: bounded-bytes).
    private var isFull: Bool {
        pipeline.openBytes >= options.recordBytesMax || pipeline.openEntryBytes >= options.entryBytesMax
    }

    /// Whether no request may be folded in: the journal is too far behind, or the engine refuses records.
    var isOverloaded: Bool {
        isRefused || crowded > pipeline.durable
            || isFull && pipeline.inFlight.count >= options.recordsInFlightMax
    }

    /// Closes a full record before anything is added. Each event adds a bounded number of bytes, and a step
    /// that adds more asks for room in between, so no record grows past what can be written.
    @discardableResult
    func makeRoom(_ turn: inout Turn) -> Bool {
        guard isFull else { return true }
        #if DEBUG
            if options.planted.contains(.growRecords) { return true }
        #endif
        guard pipeline.inFlight.count < options.recordsInFlightMax else { return false }
        seal(&turn)
        return true
    }

    // MARK: The journal's answers

    private func onAppended(_ sequence: Sequence, _ turn: inout Turn) {
        guard let (gated, marks, proof) = pipeline.becameDurable(sequence) else { return }
        state.log.forgetRemovals(upTo: sequence)
        if refusal != nil {
            refusal = nil
            turn.effects.append(.notice(.journalTakes))
        }
        for answer in answers(of: gated) { release(answer, by: proof, &turn) }
        for partition in gated.touched.sorted() { offer(to: partition, by: proof, &turn) }
        for (partition, mark) in marks {
            durableMarks[partition] = mark
            acknowledge(to: partition, by: proof, &turn)
        }
        if !gated.deliveries.isEmpty {
            push(gated.deliveries, by: proof, &turn)
            wantPushes(of: gated.deliveries, restingOn: sequence, turn.now)
        }
        for index in gated.addressed { wantPushAgain(index, since: sequence) }
        // Behind the pushes: this record's messages belong to what a beginning stream has missed.
        for (stream, device, needsConfirmation) in gated.beginning {
            if needsConfirmation {
                confirm(Answer(to: .beginning(stream, device), reply: .done))
            } else {
                startReading(stream, of: device, &turn)
            }
        }
        if !gated.drops.isEmpty { turn.effects.append(.notice(.dropped(gated.drops))) }
        if gated.bodiesGone > 0 { turn.effects.append(.notice(.bodiesGone(gated.bodiesGone))) }
        for notice in gated.notices { turn.effects.append(.notice(notice)) }
        for (stream, device) in gated.continuing { continueReading(stream, of: device, &turn) }
        for ticket in gated.tickets { beginResolution(ticket, by: proof, &turn) }
        if !repairs.isEmpty { continueRepairs() }
        if !deferred.isEmpty { takeDeferred(&turn) }
        startPushes(&turn)
        writeNextPart(&turn)
    }

    private func onPostponed(_ reason: String, _ turn: inout Turn) {
        guard !pipeline.inFlight.isEmpty, refusal != reason else { return }
        let isFirst = refusal == nil
        refusal = reason
        turn.effects.append(.notice(.journalRefuses(reason)))
        if isFirst { refuseBeginning(&turn) }
    }

    private func onConfirmed(_ token: UInt64, _ turn: inout Turn) {
        guard token >> Partition.tokenBits == lastToken >> Partition.tokenBits else { return }
        confirmInFlight = false
        let proof = pipeline.confirmed()
        while let first = confirmations.first, first.token <= token {
            confirmations.removeFirst()
            var answer = first.answer
            answer.needsConfirmation = false
            if case .beginning(let stream, let device) = answer.to {
                startReading(stream, of: device, &turn)
            } else {
                release(answer, by: proof, &turn)
            }
        }
    }

    private func answers(of gated: Gated) -> ArraySlice<Answer> {
        #if DEBUG
            if options.planted.contains(.forgetAnswers) { return gated.answers.prefix(1) }
        #endif
        return gated.answers[...]
    }

    func propose(_ fact: Fact) {
        pipeline.propose(fact, to: &state)
        snapshots.folded(fact)
    }
}
