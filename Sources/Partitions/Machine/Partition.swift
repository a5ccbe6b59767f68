import Journal
import Model

/// Makes the proofs that a device shows from the secret that its partition keeps.
public protocol DeviceProofMaker: AnyObject {
    /// What stands behind the colon of the device's token; `nil` for a key that is not known.
    func tokenProof(secret: UInt64, key: UInt8) -> DeviceProof?
    func credentialProof(secret: UInt64, key: UInt8) -> DeviceProof?
}

/// One partition: the machine around the fold.
///
/// Events come in, effects go out; it does no I/O and asks no clock. An event is folded into the state at
/// once and written into the open record; what it has to say to others waits with that record. `flush`
/// closes the record when none is in flight, so that everything which came meanwhile shares the next commit.
/// When the journal says that the record is in, what waited goes out. While the engine refuses it, it waits,
/// and requests are refused. When the journal says anything else, the machine is thrown away with `abandon`,
/// and another is made from the journal.
///
/// Confined to one event loop.
public final class Partition {
    public let id: PartitionID
    let options: PartitionOptions
    let proofs: any DeviceProofMaker
    var state: PartitionState
    var ledger: Ledger
    /// How far the outboxes of others are durably applied here.
    var durableMarks = PartitionMap<InboxMark>()
    /// What other partitions said they have durably applied, also before that is in the journal.
    var acknowledged = PartitionMap<Sequence>()
    /// The newest outbox entry that was offered to each, and when.
    var offered = PartitionMap<Offered>()
    /// Frames of others of which something is left to be applied, at most one of each.
    var deferred: [OutboxFrame] = []
    var outboxWaiters = PartitionMap<[OutboxWaiter]>()
    var resolutions: [ConditionTicket: Resolution] = [:]
    /// Pairs that are to be compared because a database has lost its end.
    var comparison: Comparison?
    /// Pairs that are being told again who is in their topics.
    var repairs = PartitionMap<Repair>()
    var streams = StreamTable()
    var bodyReads = BodyReads()
    var confirmations: [(token: UInt64, answer: Answer)] = []
    var lastToken: UInt64 = 0
    /// Of a token, those that count within one machine; the others are its life's: 24 of them.
    static let tokenBits = 40
    /// Which of the partition's machines in this process it is.
    public private(set) var life: UInt32 = 0
    /// When this owner began, and for whom something waited then. Later it is looked at for each device of
    /// each message, and a look into the log for each would take a loop seconds.
    var begunAt = MonotonicTime(nanoseconds: 0)
    var hadWaiting = Bitmap()
    var confirmInFlight = false
    var bookkeepingDue: MonotonicTime?
    var wakes = WakePlan()
    /// When gateways with streams that are cut off were last asked to confirm something.
    var probedAt: MonotonicTime?
    var clock: TrustedClock
    var sweep = Sweep()
    var snapshots: SnapshotPlan
    /// Why the engine refuses what is in flight, while it does.
    var refusal: String?
    /// Up to this record the journal had more waiting than should wait.
    var crowded = Sequence.zero
    public var laws = LawWatch()

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
        proofs: any DeviceProofMaker
    ) {
        self.id = id
        self.options = options
        self.proofs = proofs
        state = PartitionState(
            id: id, history: history, partitionCount: options.partitionCount, limits: options.delivery,
            names: names)
        state.log.bodyCacheBytesMax = options.bodyCacheBytesMax
        ledger = Ledger(durable: .zero)
        clock = TrustedClock(
            Instant(monotonic: MonotonicTime(nanoseconds: 0), wall: WallTime(milliseconds: 0)))
        snapshots = SnapshotPlan(covering: .zero, bytesMin: options.snapshotBytesMin)
    }

    public var history: History { state.history }
    public var applied: Sequence { state.applied }
    public var deviceCount: Int { state.devices.count }
    public var topicCount: Int { state.topics.count }
    public var waitingEntryCount: Int { state.log.count }
    public var streamCount: Int { streams.count }
    /// The streams to which each new message is pushed.
    public var liveStreams: [LiveStream] {
        streams.live.map { LiveStream(partition: id, device: DeviceIndex($0.index), stream: $0.stream) }
    }
    /// The records whose bodies wait for somebody.
    public var recordsWithBodies: [Sequence] { state.log.records.keys.sorted().map { Sequence($0) } }
    /// Whether something waits for the journal.
    public var isIdle: Bool { ledger.isIdle && confirmations.isEmpty }
    /// Whether the engine refuses what is in flight.
    public var isRefused: Bool { refusal != nil }

    /// The body of the record that a new owner begins with.
    public static func barrier(session: SessionID, epoch: Epoch) -> [UInt8] {
        var writer = ByteWriter()
        Fact.barrier(session: session, epoch: epoch).encode(into: &writer)
        return writer.bytes
    }

    /// Folds one durable record in, in the order of sequences. Only before `begin`.
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
            guard state.follows(fact) else {
                throw reader.fail("an outbox entry that does not follow its mark")
            }
            state.apply(fact, &cursor)
        }
        state.applied = sequence
        snapshots.note(bytes: body.count)
    }

    /// Whether a record's body consists of facts. That they fit together the fold relies on: bodies are this
    /// program's own, and their checksums were verified.
    public static func check(_ body: [UInt8]) throws(DecodeError) {
        var reader = ByteReader(body)
        while !reader.isAtEnd { _ = try Fact.decode(from: &reader) }
    }

    /// Everything durable is folded in: begin to serve. Receivers are asked for their marks before anything
    /// is offered. `life` tells this machine from former ones of the same partition, whose confirmations and
    /// records may still be on their way.
    public func begin(now: Instant, life: UInt32 = 0, into effects: inout [PartitionEffect]) {
        clock = TrustedClock(now)
        self.life = life
        lastToken = UInt64(life) << Partition.tokenBits
        (begunAt, hadWaiting) = (now.monotonic, state.log.union())
        #if DEBUG
            if options.planted.contains(.forgetMarks) { state.marks = PartitionMap() }
            if options.planted.contains(.forgetOutboxes) {
                state.outboxes = state.outboxes.mapValues {
                    Outbox(entries: [], last: $0.last, fingerprint: $0.fingerprint)
                }
            }
            state.fanouts.leaks = options.planted.contains(.leakFanouts)
        #endif
        ledger = Ledger(durable: state.applied)
        state.castsShadows = true
        let proof = ledger.confirmed()
        if options.generation > state.generation {
            let leftOut = options.databaseCount > 1 ? options.indicesLeftOut : 0
            propose(.generation(number: options.generation, leavingOut: leftOut))
        }
        durableMarks = state.marks
        state.outboxes.forEach { partition, outbox in
            guard !outbox.isEmpty else { return }
            offered[partition] = Offered(upTo: .zero, at: now.monotonic)
            effects.append(
                .offer(to: partition, Proven(frame([], to: partition), restingOn: .zero, by: proof)))
        }
        beginComparison(now, &effects)
        for ticket in state.conditions.keys.sorted(by: ConditionTicket.isBefore) {
            beginResolution(ticket, proof, now, &effects)
        }
        scheduleWake(now, &effects)
    }

    // MARK: Events

    public func handle(_ event: PartitionEvent, now: Instant, into effects: inout [PartitionEffect]) {
        let now = believed(now, &effects)
        makeRoom(&effects)
        switch event {
        case .request(let id, let request): onRequest(id, request, now, &effects)
        case .offered(let frame): onOffered(frame, now, &effects)
        case .acknowledged(let acknowledgement): onAcknowledged(acknowledgement, now, &effects)
        case .asked(let question): onAsked(question, &effects)
        case .told(let answer): onTold(answer, now, &effects)
        case .stream(let command): onStream(command, now, &effects)
        case .appended(let sequence): onAppended(sequence, now, &effects)
        case .postponed(let reason): onPostponed(reason, &effects)
        case .crowded(let sequence): crowded = max(crowded, sequence)
        case .confirmed(let token): onConfirmed(token, now, &effects)
        case .records(let bodies, let token): onRecords(bodies, token, now, &effects)
        case .snapshotPart(let upload, let token): onSnapshotPart(upload, token, &effects)
        case .snapshotFailed(let token): onSnapshotFailed(token)
        case .woke(let at): onWoke(at, now, &effects)
        }
    }

    /// The end of a turn of the loop: closes the open record if the journal is free for it.
    public func flush(now: Instant, into effects: inout [PartitionEffect]) {
        let now = believed(now, &effects)
        #if DEBUG
            breakRules(now, &effects)
        #endif
        let mayWait = !ledger.isUrgent && ledger.openBytes < options.recordBytesMax / 4 && !isFull
        if mayWait, !ledger.isOpenEmpty, bookkeepingDue == nil {
            bookkeepingDue = now.monotonic.advanced(by: options.bookkeepingDelay)
        }
        let due = bookkeepingDue.map { $0 <= now.monotonic } ?? false
        let isFree =
            ledger.inFlight.isEmpty
            || (isFull && ledger.inFlight.count < options.recordsInFlightMax)
        if isFree, !ledger.isOpenEmpty, !mayWait || due { seal(&effects) }
        if !confirmInFlight, let newest = confirmations.last {
            confirmInFlight = true
            effects.append(.confirm(newest.token))
        }
        scheduleWake(now, &effects)
        checkInvariants()
    }

    private func seal(_ effects: inout [PartitionEffect]) {
        guard let record = ledger.seal(&state) else { return }
        bookkeepingDue = nil
        effects.append(.append(record.sequence, body: record.body))
        snapshots.note(bytes: record.body.count)
        beginSnapshot()
    }

    /// Whether the open record takes no more: it is long, or one of the outbox entries that it makes is
    /// (rule: bounded-bytes).
    private var isFull: Bool {
        ledger.openBytes >= options.recordBytesMax || ledger.openEntryBytes >= options.entryBytesMax
    }

    /// Whether no request may be folded in: the journal is too far behind, or the engine refuses it.
    var isOverloaded: Bool {
        isRefused || crowded > ledger.durable || isFull && ledger.inFlight.count >= options.recordsInFlightMax
    }

    /// Closes a full record before anything is added to it. Each event adds a bounded number of bytes, and
    /// what adds more asks for room in between, so no record grows past what can be written.
    @discardableResult
    func makeRoom(_ effects: inout [PartitionEffect]) -> Bool {
        guard isFull else { return true }
        #if DEBUG
            if options.planted.contains(.growRecords) { return true }
        #endif
        guard ledger.inFlight.count < options.recordsInFlightMax else { return false }
        seal(&effects)
        return true
    }

    // MARK: The journal's answers

    private func onAppended(_ sequence: Sequence, _ now: Instant, _ effects: inout [PartitionEffect]) {
        guard let (gated, marks, proof) = ledger.becameDurable(sequence) else { return }
        state.log.forgetShadows(upTo: sequence)
        if refusal != nil {
            refusal = nil
            effects.append(.notice(.journalTakes))
        }
        for answer in answers(of: gated) { release(answer, proof, &effects) }
        for partition in gated.touched.sorted() { offer(to: partition, proof, now, &effects) }
        for (partition, mark) in marks {
            durableMarks[partition] = mark
            acknowledge(to: partition, proof, &effects)
        }
        if !gated.deliveries.isEmpty { push(gated.deliveries, proof, &effects) }
        // Behind the pushes: to those that begin, this record's messages are of what they missed.
        for (stream, device, needsConfirmation) in gated.beginning {
            if needsConfirmation {
                confirm(Answer(to: .beginning(stream, device), reply: .done))
            } else {
                begin(stream, device, now, &effects)
            }
        }
        if gated.bodiesGone > 0 { effects.append(.notice(.bodiesGone(gated.bodiesGone))) }
        for (stream, device) in gated.continuing { continueReading(stream, device, now, &effects) }
        for ticket in gated.tickets { beginResolution(ticket, proof, now, &effects) }
        if !repairs.isEmpty { continueRepairs() }
        if !deferred.isEmpty { takeDeferred(now, &effects) }
        writeNextPart(&effects)
    }

    private func onPostponed(_ reason: String, _ effects: inout [PartitionEffect]) {
        guard !ledger.inFlight.isEmpty, refusal != reason else { return }
        let isFirst = refusal == nil
        refusal = reason
        effects.append(.notice(.journalRefuses(reason)))
        if isFirst { refuseBeginning(&effects) }
    }

    private func onConfirmed(_ token: UInt64, _ now: Instant, _ effects: inout [PartitionEffect]) {
        guard token >> Partition.tokenBits == lastToken >> Partition.tokenBits else { return }
        confirmInFlight = false
        let proof = ledger.confirmed()
        while let first = confirmations.first, first.token <= token {
            confirmations.removeFirst()
            var answer = first.answer
            answer.needsConfirmation = false
            if case .beginning(let stream, let device) = answer.to {
                begin(stream, device, now, &effects)
            } else {
                release(answer, proof, &effects)
            }
        }
    }

    private func answers(of gated: Gated) -> ArraySlice<Answer> {
        #if DEBUG
            if options.planted.contains(.forgetAnswers) { return gated.answers.prefix(1) }
        #endif
        return gated.answers[...]
    }

    /// An answer whose record is durable: on to what else it waits for, or out.
    func release(_ answer: Answer, _ proof: Proof, _ effects: inout [PartitionEffect]) {
        if answer.needsConfirmation {
            confirm(answer)
            return
        }
        if let mark = answer.outbox, !isAcknowledged(mark) {
            outboxWaiters[mark.partition, default: []].append(
                OutboxWaiter(number: mark.number, answer: answer, proof: proof))
            return
        }
        switch answer.to {
        case .request(let id):
            effects.append(.reply(id, Proven(answer.reply, restingOn: .zero, by: proof)))
        case .question(let question):
            guard case .memberSets(let members) = answer.reply else { return }
            let told = ConditionAnswer(ticket: question.ticket, place: question.place, members: members)
            effects.append(.tell(question.asker, Proven(told, restingOn: .zero, by: proof)))
        case .beginning: break
        case .end(let stream, let device):
            effects.append(
                .stream(stream.gateway, Proven(.ended(stream, device), restingOn: .zero, by: proof)))
        case .stream(let stream):
            guard case .refused(let refusal) = answer.reply else { return }
            effects.append(
                .stream(stream.gateway, Proven(.refused(stream, refusal), restingOn: .zero, by: proof)))
        }
    }

    /// Answers with what is known now, as soon as that is proven.
    func answer(_ answer: Answer) {
        if ledger.isIdle { confirm(answer) } else { ledger.hold(answer) }
    }

    /// Answers when the open record, which holds what the answer is about, is durable.
    func answerWithOpenRecord(_ answer: Answer) {
        ledger.gated.answers.append(answer)
        ledger.isUrgent = true
    }

    private func confirm(_ answer: Answer) {
        lastToken += 1
        confirmations.append((lastToken, answer))
    }

    func propose(_ fact: Fact) { ledger.propose(fact, to: &state) }

    // MARK: The end

    /// The journal is lost to this machine: everybody who waits is told that it is unknown (sends) or to try
    /// again. `appended` says of records in flight whether they may have gone in.
    public func abandon(mayHaveAppended: Bool, reason: String, into replies: inout [(RequestID, Reply)]) {
        var answers = ledger.gated.answers + confirmations.map(\.answer)
        for record in ledger.inFlight { answers += record.gated.answers }
        outboxWaiters.forEach { _, waiters in answers += waiters.map(\.answer) }
        for answer in answers {
            guard case .request(let id) = answer.to else { continue }
            var unknown = answer.isSend && (mayHaveAppended || answer.isRepeat)
            #if DEBUG
                if options.planted.contains(.unknownAsRefused) { unknown = false }
            #endif
            replies.append((id, .refused(unknown ? .unknown : .unavailable(reason))))
        }
    }
}

extension ConditionTicket {
    static func isBefore(_ left: ConditionTicket, _ right: ConditionTicket) -> Bool {
        (left.record, left.ordinal) < (right.record, right.ordinal)
    }
}
