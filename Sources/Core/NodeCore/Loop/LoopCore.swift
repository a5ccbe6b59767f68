import Bytes
import DequeModule
import Journal
import Model
import Ownership
import Partitions
import Quotas
import Routing

/// Everything that a loop of a node decides: for the partitions that live on it, for the requests and the
/// streams of the clients that are connected to it, and for the machines between them.
///
/// Messages come in, effects go out; the core does no I/O (rule: one-core-in-two-worlds). It handles messages
/// in turns. A turn handles all messages that have come, and all that follow from them on this loop. Then it
/// lets each partition that had work close its record, and hands over the messages for each receiver in one
/// piece. So a thousand requests that came with one wake-up share one record a partition, one hand-over to
/// the engine, one wake-up of another loop and one frame to another process.
///
/// Between turns the shell may submit operations and attach streams. After each call the shell carries out
/// `effects`, in their order, and makes sure that a turn follows.
///
/// Confined to one loop.
public final class LoopCore<Host: LoopHost> {
    let options: LoopOptions
    // Safe: a loop owns both its core and its core's host, and releases both together.
    unowned(unsafe) let host: Host
    let proofs: any DeviceMACMaker
    public var observer: LoopObserver? { didSet { router.admission.tally = observer.map { _ in [] } } }
    let names = TopicNames()

    public internal(set) var partitions: [PartitionID: Partition] = [:]
    /// The epoch in which this node serves, or served, each partition.
    var epochs: [Epoch]
    var router: Router
    public internal(set) var streams: GatewayStreams
    var grantor: QuotaGrantor
    var deviceLimiter: DeviceLimiter
    var limits: [ProjectNumber: QuotaLimits] = [:]
    /// The projects that this loop knows, and in a cluster the epoch of its home partition in which each was
    /// made.
    var projects: Set<ProjectNumber> = []
    var births: [ProjectNumber: Epoch] = [:]

    /// Where each partition is.
    public internal(set) var places: PartitionPlaces
    /// Partitions whose database does not answer, in a cluster on several.
    var away: Set<PartitionID> = []
    /// In a cluster: the sessions that lived at the node's last look.
    var livingSessions: Set<SessionID> = []
    /// What the node has read of partitions that it may inherit.
    var followed: [PartitionID: FollowedPartition] = [:]
    /// Machines of inherited partitions whose last records are still being read.
    var inherited: [PartitionID: Partition] = [:]
    /// Partitions that the loop is giving up.
    var leaving: Set<PartitionID> = []
    /// Partitions that cannot be read, folded or written, with the reason.
    var quarantined: [PartitionID: String] = [:]
    /// Partitions that are being read, with the epoch since which this node owns each. An answer for another
    /// epoch is ignored: it belongs to an earlier ownership.
    var loading: [PartitionID: Epoch] = [:]
    /// The wall clock, as far as the loop believes it: a partition that begins after a leap does not know of
    /// the leap.
    var wallClock: TrustedClock
    /// Partitions that doubt the wall clock, and whether the operator was notified of a doubt on this loop.
    var doubting: Set<PartitionID> = []
    var isDoubtTold = false
    var isUnconfirmedTold = false
    /// The day for which the loop has counted its partitions' marks of gone addresses.
    var goneDay: Day?
    /// When the loop last gave its time away as a witness.
    var witnessedAt: MonotonicTime?
    /// How many readings of each partition found damage, since one succeeded.
    var failedLoads: [PartitionID: UInt64] = [:]
    /// Partitions whose machines have ended while the journal's writer may still have rows of them, and the
    /// tokens that are left in the buckets of their projects.
    var closing: [PartitionID: [ProjectNumber: [UInt64]]] = [:]
    /// The tokens that earlier owners have left in buckets that no spender has asked for yet.
    var handedOver: [ProjectNumber: [UInt64]] = [:]
    var reattaching: Set<PartitionID> = []
    /// Whether a timer ends streams that no partition accepts.
    var isExpirySet = false
    var reading = StreamReading()
    /// Processes to which a frame could not be handed over, until the loop asks again.
    var unreachable: Set<ProcessID> = []
    /// Processes that lost a frame of this loop, or may have, with the number of gap notices sent to each so
    /// far.
    var gapNotices: [ProcessID: Int] = [:]
    /// When the loop began to serve each partition that is here.
    var servedSince: [PartitionID: MonotonicTime] = [:]
    /// Until when each partition's previous owner may grant tokens of its projects.
    var grantsAfter: [PartitionID: MonotonicTime] = [:]
    /// Partitions of which the loop deletes records, slice by slice, and what it must delete.
    var trims: [PartitionID: Trim] = [:]

    private var queue: LoopInbox.Batch = []
    /// Messages for other loops, by loop number.
    private var outgoing: [LoopInbox.Batch] = []
    /// Messages for other processes, in the order in which the loop first wrote to each.
    var toPeers: [(processID: ProcessID, writer: ByteWriter)] = []
    var toPeersSince = MonotonicTime.zero
    var rows: [Row] = []
    var dirty = PartitionSet()
    /// How many machines of partitions have begun here.
    var incarnations: UInt32 = 0
    var partitionEffects: [PartitionEffect] = []
    private var routerEffects: [RouterEffect] = []
    var limiter: PushLimiter
    var pushServices: [ProjectNumber: PushServices]?
    var limiterEffects: [PushLimiter.Effect] = []
    /// The next timer for the limiter.
    var pushesWake: MonotonicTime?
    var now: Instant

    /// The effects that the shell must carry out, in this order; the shell takes them away.
    public var effects: [LoopEffect] = []

    struct Trim {
        var below: Sequence
        var keeping: [Sequence]
    }

    public init(
        _ options: LoopOptions, host: Host, proofs: any DeviceMACMaker,
        random: any RandomNumberGenerator, now: Instant
    ) {
        var options = options
        options.partition.streamsOutliveOwners = options.isClustered
        if let mistake = options.mistake { preconditionFailure(mistake) }
        self.options = options
        self.host = host
        self.proofs = proofs
        wallClock = TrustedClock(now, witness: options.comparedWitness)
        self.now = now
        var random = random
        epochs = options.epochs
        places = options.isClustered ? PartitionPlaces() : PartitionPlaces(whole: options.epochs)
        deviceLimiter = options.deviceLimiter
        // In a cluster partitions keep windows of request numbers, and must know whose each is to forget it.
        let incarnation =
            options.isClustered ? options.session.rawValue << 8 | UInt64(options.number) : random.next()
        var routing = Router.Options(
            partitionCount: options.map.partitionCount, gateway: options.gateway, session: incarnation)
        routing.isClustered = options.isClustered
        routing.bounds = options.routing
        routing.requestWindow = options.partition.requestWindow
        let spender = SpenderID(options.gateway, incarnation: random.next())
        router = Router(options: routing, admission: Admission(spender, options.quotas), random: random)
        streams = GatewayStreams(
            gateway: options.gateway, histories: options.eventHistories, outlivesOwners: options.isClustered)
        outgoing = Array(repeating: [], count: options.map.loopCount)
        grantor = QuotaGrantor(options.quotas)
        limiter = PushLimiter(options.pushes, random: random)
        pushServices = options.pushServices
        #if DEBUG
            limiter.planted = options.planted
        #endif
        router.invariantSchedule.isHolders = true
        streams.invariantSchedule.isHolders = true
        grantor.invariantSchedule.isHolders = true
    }

    public var gateway: GatewayID { options.gateway }
    public func epoch(of partition: PartitionID) -> Epoch { epochs[Int(partition.rawValue)] }
    func home(of project: ProjectNumber) -> PartitionID { options.map.home(of: project) }

    // MARK: Turns

    /// Whether work waits for the next turn that no message will bring about.
    public var hasWork: Bool { !queue.isEmpty }

    /// Takes the messages out of the caller's batch.
    public func turn(_ messages: inout LoopInbox.Batch, now: Instant) {
        self.now = now
        noteDay(wallClock.read(now).day)
        if queue.isEmpty {
            swap(&queue, &messages)
        } else {
            while let message = messages.popFirst() { queue.append(message) }
        }
        while let message = queue.popFirst() { handle(message) }
        readStreams()
        flushPartitions()
        if !rows.isEmpty {
            effects.append(.append(rows))
            rows.removeAll(keepingCapacity: true)
        }
        for loop in outgoing.indices where !outgoing[loop].isEmpty { effects.append(.post(toLoop: loop)) }
        flushPeers()
        tellDoubts()
        checkInvariants()
    }

    /// Hands over the messages that wait for another loop. `body` may swap them for an empty batch.
    public func takeMessages(for loop: Int, _ body: (inout LoopInbox.Batch) -> Void) {
        guard !outgoing[loop].isEmpty else { return }
        body(&outgoing[loop])
        outgoing[loop].removeAll(keepingCapacity: true)
    }

    public func enqueue(_ message: consuming LoopMessage) { queue.append(message) }

    /// Sends a message to another loop of the node, or to this one. A peer may name a gateway or a spender on
    /// a loop that this node does not have: the message is dropped.
    func post(_ message: consuming LoopMessage, toLoop loop: Int) {
        guard loop != options.number else { return queue.append(message) }
        guard loop < outgoing.count else { return }
        if message.isRepeated, host.pressure(ofLoop: loop) == .full {
            effects.append(.noted(.leftOut))
        } else {
            outgoing[loop].append(message)
        }
    }

    private func handle(_ message: consuming LoopMessage) {
        switch message {
        case .partition(let id, let event): handle(event, of: id)
        case .request(let id, let asked, let request, let requestGuard):
            guard mayCarryOut(asked, requestGuard, partition: id) else { return }
            observer?.carriesOut(asked)
            handle(.request(asked, request), of: id)
        case .reply(let request, let reply):
            if let observer, router.awaits(request.number) { observer.hears(reply, to: request) }
            observer?.trace("\(gateway) gets reply \(request.number) \(reply)")
            router.replied(request.number, reply, now: now, into: &routerEffects)
            carryOutRouting()
        case .stream(let partition, let frame): receive(frame, from: partition)
        case .peerStream(let processID, let partition, let frame):
            if places[partition] == .peer(processID) { receive(frame, from: partition) }
        case .peerEvent(let processID, let speaker, let id, let event):
            if believes(processID, in: speaker) { handle(event, of: id) }
        case .quotaRequest(let request): grant(request)
        case .quotaGrant(let grant): granted(grant)
        case .peerGrant(let processID, let grant):
            if believes(processID, in: home(of: grant.project)) { granted(grant) }
        case .quotaRefusal(let request, let refusal): refused(request, refusal)
        case .peerRefusal(let processID, let request, let refusal):
            guard let asked = router.partition(ofRequest: request.number) else { return }
            if believes(processID, in: asked) { refused(request, refusal) }
        case .resolved(let resolved): handle(resolved)
        case .lost(let partition, let mayHaveAppended, let reason):
            lose(partition, mayHaveAppended: mayHaveAppended, reason: reason)
        case .endStreams(let partition): streams.lost(partition, sink: host)
        case .levelsAsked(let project, let asker, let question):
            post(.levels(levels(of: project), question: question), toLoop: asker)
        case .levels(let levels, let question): effects.append(.levels(levels, question: question))
        case .pushed(let number, let outcome): pushed(number, outcome)
        case .pushesChanged(let changed): pushesChanged(changed)
        case .engine(let answer): handle(answer)
        case .order(let order): handle(order)
        case .linkReset(let processID):
            askAgain(of: processID)
            sendGapNotice(processID)
        case .gap(let processID): askAgain(of: processID)
        case .timer(let timer): handle(timer)
        }
    }

    private func refused(_ request: RequestID, _ refusal: QuotaRefusal) {
        router.refused(request.number, refusal, into: &routerEffects)
        carryOutRouting()
    }

    private func granted(_ grant: QuotaGrant) {
        router.granted(grant, now: now, into: &routerEffects)
        carryOutRouting()
    }

    private func handle(_ timer: LoopTimer) {
        switch timer {
        case .partition(let id, let at): handle(.woke(at), of: id)
        case .deadlines:
            router.woke(now: now, into: &routerEffects)
            carryOutRouting()
        case .retryMoved:
            router.retryMoved(now: now, into: &routerEffects)
            carryOutRouting()
        case .quotas:
            router.quotaWoke(now: now, into: &routerEffects)
            carryOutRouting()
        case .readAgain(let id, let sequences, let bytesMax, let token):
            guard partitions[id] != nil else { return }
            effects.append(.call(.readRecords(id, sequences, bytesMax: bytesMax, token: token)))
        case .loadAgain(let id):
            if let epoch = loading[id] { effects.append(.call(.load(id, epoch, behind: nil))) }
        case .confirmAgain(let id, let token):
            if partitions[id] != nil { effects.append(.call(.confirm(id, token: token))) }
        case .unreachable(let processID):
            unreachable.remove(processID)
            askAgain(of: processID)
            sendGapNotice(processID)
        case .clock: lookAgain()
        case .pushes: lookAtPushes()
        case .readOn: (reading.isWakeSet, reading.isDue) = (false, true)
        case .unopened(let last): expireStreams(upTo: last)
        case .reattach(let partition): if reattaching.contains(partition) { reattach(partition) }
        }
    }

    func wake(_ timer: LoopTimer, in delay: TimeSpan) {
        effects.append(.wake(timer, at: now.monotonic.advanced(by: delay)))
    }

    // MARK: Clients

    /// An operation of a client, which the shell knows by its ticket.
    public func submit(_ operation: Operation, ticket: UInt64, now: Instant) {
        self.now = now
        router.submit(operation, ticket: ticket, now: now, into: &routerEffects)
        carryOutRouting()
    }

    /// A device opens a stream. Returns the number of its stream.
    public func attach(
        _ registration: Registration, by authority: Authority, resume: EventID?, now: Instant
    ) -> UInt64 {
        self.now = now
        let (stream, command) = streams.attach(registration, by: authority, resume: resume)
        expectStreams(upTo: stream)
        if isBehind(registration.partition) {
            effects.append(.noted(.refusedBehind))
            let refused = StreamFrame.refused(StreamID(gateway: gateway, number: stream), LoopCore.behind)
            queue.append(.stream(from: registration.partition, refused))
        } else {
            route(.stream(command), to: registration.partition)
        }
        return stream
    }

    /// The client is gone. False if the loop has no such stream.
    @discardableResult
    public func detach(_ stream: UInt64) -> Bool {
        guard let (partition, command) = streams.detach(stream) else { return false }
        route(.stream(command), to: partition)
        return true
    }

    /// The client has read enough that a stream which fell behind can take events again. False if the
    /// stream does not wait for that.
    @discardableResult
    public func drained(_ stream: UInt64) -> Bool {
        guard let (partition, command) = streams.drained(stream) else { return false }
        route(.stream(command), to: partition)
        return true
    }

    private func receive(_ frame: StreamFrame, from partition: PartitionID) {
        observer?.trace("\(gateway) hears of \(partition.rawValue) \(frame)")
        if case .refused(_, .moved) = frame { return reattachLater(partition) }
        var commands: [StreamCommand] = []
        let router = router
        streams.receive(
            frame, from: partition, sink: host, refusal: { router.refusal($0) }, commands: &commands)
        for command in commands { route(.stream(command), to: partition) }
    }

    // MARK: Effects of the router

    /// Carries out the router's effects. No effect calls the router again before this returns.
    func carryOutRouting() {
        if let observer { tellAdmissions(observer) }
        guard !routerEffects.isEmpty else { return }
        var batch: [RouterEffect] = []
        swap(&batch, &routerEffects)
        batch.consumeEach { carryOut($0) }
        if routerEffects.isEmpty { swap(&batch, &routerEffects) }
    }

    private func carryOut(_ effect: consuming RouterEffect) {
        switch effect {
        case .ask(let partition, let id, let request, let deadline):
            observer?.asks(partition, id, request: request, deadline: deadline)
            ask(partition, id, request: request, deadline: deadline)
        case .finish(let ticket, let outcome): effects.append(.finish(ticket: ticket, outcome))
        case .quota(let request): sendQuota(request)
        case .wake(let time): effects.append(.wake(.deadlines, at: time))
        case .wakeRetry(let time): effects.append(.wake(.retryMoved, at: time))
        case .wakeQuota(let time): effects.append(.wake(.quotas, at: time))
        }
    }

    private func tellAdmissions(_ observer: LoopObserver) {
        for admitted in router.admission.tally ?? [] { observer.admits(admitted) }
        router.admission.tally?.removeAll(keepingCapacity: true)
    }

    func reroute(_ affected: [Bool]) {
        router.rerouted({ affected[Int($0.rawValue)] }, now: now, into: &routerEffects)
        carryOutRouting()
    }
}
