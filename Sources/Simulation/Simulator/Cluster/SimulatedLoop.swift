import Model
import NodeCore
import Partitions
import Routing

/// One event loop of a simulated process: the shell around a real loop's core, in the place of `NodeLoop`.
final class SimulatedLoop {
    /// A loop's way to another process.
    struct Peer {
        /// The machine on which the other process runs.
        var machine: Int
        var connection: SimulatedNetwork.Connection?
        var isConnecting = false
        /// The last try to connect failed, and the pause before the next one is not over.
        var isBackingOff = false
        var backoff: TimeSpan
        var waiting: [[UInt8]] = []
        /// Frames that wait, or are under way on the connection.
        var backlog: Backlog
        var waitingSince = MonotonicTime.zero
    }

    /// Process and loop hold each other until the process has ended (`SimulatedProcess.abandonLoops`).
    let process: SimulatedProcess
    unowned let world: ClusterSimulation
    let number: Int
    var index: Int { process.index }
    var machine: Int { process.machine }
    var processID: ProcessID { process.processID }

    private(set) lazy var core = makeCore()
    private lazy var observer = SimulatedObserver(self)
    private(set) lazy var inbox = LoopInbox(world.options.inbox)
    private var meter = InboxMeter()
    private var isTurnScheduled = false
    /// The loop's last request for tokens before its clock stopped, and until when an answer may be good.
    var askedBeforeStandstill: (number: UInt64, end: MonotonicTime) = (0, .zero)

    var peers: [ProcessID: Peer] = [:]
    /// Clients' operations that are under way.
    private(set) var tickets: [UInt64: (Outcome?) -> Void] = [:]
    private var lastTicket: UInt64 = 0
    private var listeners: [UInt64: Listener] = [:]
    /// The projects' push services, as the loop knows them.
    private var services: [ProjectNumber: PushServices] = [:]

    init(_ process: SimulatedProcess, number: Int) {
        self.process = process
        self.number = number
        world = process.world
    }

    private func makeCore() -> LoopCore<SimulatedLoop> {
        let count = world.options.partitionCount
        var partition = world.options.partition
        partition.databaseCount = process.map.databaseCount
        partition.generation = process.generation
        var options = LoopOptions(
            map: process.map, session: process.session,
            histories: (0..<count).map { ClusterSimulation.history(of: PartitionID(UInt16($0))) },
            partition: partition)
        options.number = number
        options.processID = processID
        options.isClustered = process.lone == nil
        if let lone = process.lone {
            options.epochs = lone.partitions.map(\.epoch)
            options.formerQuotas = lone.formerQuotas
            options.clockWitness = lone.clockWitness
            options.started = process.monotonic
        }
        options.deviceLimiter = world.options.limiter
        options.quotas = world.options.quotas
        options.routing = world.options.routing
        options.bounds = world.options.loop
        options.pushes = world.options.pushes
        options.pushServices = world.options.changesServices ? [:] : nil
        #if DEBUG
            options.planted = world.options.planted
        #endif
        let core = LoopCore(
            options, host: self, proofs: Proofs.shared, random: SeededGenerator(seed: world.random.next()),
            now: process.clock)
        core.observer = observer
        return core
    }

    func start() {
        apply(process.lone == nil ? SimulatedCatalog() : world.home.catalog)
        forgetIdleBuckets()
    }

    /// Adopts a new version of the catalog.
    func apply(_ catalog: SimulatedCatalog) {
        let changed = catalog.services.filter { services[$0.key] != $0.value }
        services = catalog.services
        if !changed.isEmpty { post(.pushesChanged(changed)) }
        core.updateCatalog(
            projects: Set(catalog.births.keys), limits: catalog.limits, births: catalog.births,
            now: process.clock)
        settle()
    }

    private func forgetIdleBuckets() {
        world.after(.seconds(25), .timer, process: process) {
            self.core.forgetIdleBuckets(now: self.process.clock)
            self.forgetIdleBuckets()
        }
    }

    // MARK: Turns

    /// Messages from another thread of the process.
    func post(_ messages: [LoopMessage]) {
        guard !messages.isEmpty else { return }
        inbox.post(messages)
        scheduleTurn(in: .microseconds(20))
    }
    /// Passes messages on to another loop. Some of those that their protocol repeats are left out, as from a
    /// loop that is full, and some come once more.
    private func pass(_ messages: [LoopMessage], toLoop number: Int) {
        let loop = process.loops[number]
        let rate = world.isLoading && !world.isHealing ? world.options.leftOutPerMille : 0
        let passed = messages.filter { message in
            guard case .partition = message, message.isRepeated else { return true }
            if world.chance(rate) {
                world.after(world.roll(.milliseconds(40)), .loop, process: process) { loop.post([message]) }
            }
            return !world.chance(rate)
        }
        loop.post(passed, fromLoop: self.number)
    }
    /// Messages from another loop of the process.
    private func post(_ messages: [LoopMessage], fromLoop number: Int) {
        measure(messages, from: .loop(number))
        post(messages)
    }
    /// Messages from a frame of another process. A full inbox leaves them out.
    func post(_ messages: [LoopMessage], from processID: ProcessID) {
        guard !messages.isEmpty else { return }
        if inbox.post(messages, from: processID) {
            measure(messages, from: .frame)
            for case .peerGrant(_, let grant) in messages { world.forgive(grant, to: self) }
        } else {
            world.count("frames left out")
        }
        scheduleTurn(in: .microseconds(20))
    }
    private func measure(_ messages: [LoopMessage], from giver: InboxMeter.Giver) {
        if let broken = meter.add(messages, from: giver, bound: world.options.inbox.entries) {
            world.violate("bounds", "\(index), loop \(self.number): \(broken)")
        }
    }
    func post(_ message: LoopMessage) { post([message]) }

    func scheduleTurn(in delay: TimeSpan = .zero) {
        guard !isTurnScheduled else { return }
        isTurnScheduled = true
        world.after(delay, .loop, process: process) { self.turn() }
    }

    func turn() {
        isTurnScheduled = false
        meter.clear()
        var messages = inbox.drain()
        core.turn(&messages, now: process.clock)
        settle()
        if core.hasWork { scheduleTurn() }
    }

    func settle() {
        while !core.effects.isEmpty {
            var batch: [LoopEffect] = []
            swap(&batch, &core.effects)
            for effect in batch where process.isRunning { carryOut(effect) }
        }
    }

    private func carryOut(_ effect: LoopEffect) {
        if world.isCrashDue { return world.crash(process, at: effect) }
        world.observer?.carriesOut(effect, at: self)
        switch effect {
        case .finish(let ticket, let outcome): tickets.removeValue(forKey: ticket)?(outcome)
        case .levels: break
        case .post(let loop): core.takeMessages(for: loop) { pass(Array($0), toLoop: loop) }
        case .send(let bytes, let processID):
            world.keepSpecimen(bytes)
            world.strangeAnswers.follow(bytes, from: process, world)
            core.sent(to: processID, isTaken: world.network.send(bytes, from: self, to: processID))
        case .push(let request): process.pushes.send(request, fromLoop: number)
        case .open(let id, let next): process.connections(of: id).journal.open(id, next: next)
        case .close(let id): process.connections(of: id).journal.close(id)
        case .append(let rows):
            world.checkFanouts(of: rows, in: process)
            process.submit(rows)
        case .call(let call): process.call(call)
        case .lost(let id): process.tellOwnership(.lost(id))
        case .serving(let id): process.tellOwnership(.serving(id))
        case .followed(let id): process.tellOwnership(.followed(id))
        case .look: process.tellOwnership(.nudged)
        case .wake(let timer, let at):
            process.wake(at: at) {
                self.core.enqueue(.timer(timer))
                self.scheduleTurn()
            }
        case .noted(let note): receive(note)
        }
    }

    private func receive(_ note: LoopNote) {
        switch note {
        case .pushed: world.count("pushes answered")
        case .doubtedDevices: world.count("services doubted")
        case .requestLate: world.count("late requests")
        case .refusedBehind: world.count("requests refused behind")
        case .leftOut: world.count("messages left out")
        case .wordRefused: world.count("words refused")
        case .frameLost: world.count("frames lost")
        case .partitionLost: world.count("partitions lost")
        case .dropped: break
        case .quarantined(let id, let reason):
            world.violate("journals", "partition \(id.rawValue): \(reason)")
        case .snapshotUnreadable: world.count("snapshots unreadable")
        case .fingerprintsDiffer(let id, let with):
            world.violate("G1", "partitions \(id.rawValue) and \(with.rawValue) differ in their members")
        case .clockDoubted(let isDoubted): world.count("clocks doubted", isDoubted ? 1 : 0)
        case .clockUnconfirmed: break
        case .partition(_, .clockLeapt), .partition(_, .clockAgrees): break
        case .partition(_, .journalRefuses): world.count("partitions refused")
        case .partition(_, .journalTakes): break
        case .partition(_, .pushesEnded(let counts)):
            world.count("pushes ended", counts.values.reduce(0, +))
        case .partition(_, .pushedAgain): world.count("pushes by an heir")
        case .partition(_, .cameLate(let count)): world.count("messages late", count)
        case .partition(_, .undecided(let message, let partitions, let isOver)):
            world.note(undecided: message.time, at: partitions, isOver: isOver)
        case .partition(_, .outboxStalls): world.count("outboxes stalled")
        case .partition(_, .conditionStalls): world.count("conditions stalled")
        case .partition(_, .outboxMoves), .partition(_, .conditionMoves): break
        case .partition(_, .dropped(let drops)):
            for reason in DropReason.allCases {
                world.count("dropped \(reason.rawValue)", drops.counts[reason] ?? 0)
            }
            world.expired(drops.counts[.expired] ?? 0, in: process)
        case .partition(_, .deviceEnds): world.count("absent devices ended")
        case .partition(_, .goneHeld): world.count("ends of addresses held")
        case .partition(let id, let notice): world.violate("bodies", "partition \(id.rawValue): \(notice)")
        }
    }

    // MARK: Clients

    /// A client's operation; `answered` is not called if the process ends first (`SimulatedProcess.calls`).
    func submit(_ operation: Operation, _ answered: @escaping (Outcome?) -> Void) {
        var operation = operation
        // A lone node dates messages by its own clock, which may be wrong by years.
        if process.lone != nil, case .send(var send) = operation {
            send.message.sent = core.believed(process.clock).wall
            operation = .send(send)
        }
        lastTicket += 1
        tickets[lastTicket] = answered
        core.submit(operation, ticket: lastTicket, now: process.clock)
        settle()
        scheduleTurn()
    }

    func listen(
        _ listener: Listener, _ registration: Registration, credential: DeviceMAC, resume: EventID?
    ) {
        listener.number = core.attach(
            registration, by: .device(credential), resume: resume, now: process.clock)
        listeners[listener.number] = listener
        settle()
        scheduleTurn()
    }

    /// The device has hung up.
    func cancelled(_ listener: Listener) {
        guard listeners[listener.number] === listener else { return }
        listeners[listener.number] = nil
        detach(listener.number)
    }

    private func detach(_ stream: UInt64) {
        core.detach(stream)
        settle()
        scheduleTurn()
    }

    private func drained(_ stream: UInt64) {
        core.drained(stream)
        settle()
        scheduleTurn()
    }

    /// Ends every stream; the devices come back.
    func endStreams() {
        for (stream, _) in listeners.sorted(by: { $0.key < $1.key }) {
            detach(stream)
            ended(stream)
        }
    }

    /// Ends the loop with its process. Returns the listeners of the devices that listened here.
    func abandon() -> [Listener] {
        tickets = [:]
        peers = [:]
        defer { listeners = [:] }
        return listeners.sorted { $0.key < $1.key }.map(\.value)
    }

    fileprivate func ended(_ stream: UInt64) {
        guard let listener = listeners.removeValue(forKey: stream) else { return }
        let at = max(listener.lastArrival + .nanoseconds(1), world.now + .microseconds(100))
        let world = world
        world.after(at.since(world.now), .client) { world.hungUp(listener) }
    }
}

/// A device's connection to a gateway, on which its events come.
final class Listener {
    let device: Int
    /// When the device asked for the stream.
    let began: MonotonicTime
    var isOpenAtDevice = true
    /// The device ends before anything comes.
    var isDoomed = false
    /// The device has ended. Its request may still be on its way to the gateway.
    var isDeserted = false
    /// The gateway loop that took the stream.
    var loop: SimulatedLoop?
    /// The stream's number at the loop.
    var number: UInt64 = 0
    var lastPosition: UInt64 = 0
    var lastArrival = MonotonicTime.zero
    init(device: Int, began: MonotonicTime) {
        self.device = device
        self.began = began
    }

    /// The stream's name in sentences.
    var name: String {
        "stream \(number) of process \(loop?.processID ?? ProcessID(0)), loop \(loop?.number ?? 0)"
    }
}

extension SimulatedLoop: LoopHost {
    enum Chunk {
        case event([UInt8], Position)
        case deleted(Position)
    }

    var monotonic: MonotonicTime { process.monotonic }
    var authority: MonotonicTime { process.authority }
    func pressure(ofLoop number: Int) -> Pressure { process.loops[number].inbox.pressure }
    func pressure(ofPeer processID: ProcessID) -> Pressure { peers[processID]?.backlog.pressure ?? .none }
    func withGoneTally<Result: Sendable>(_ body: (inout GoneTally) -> Result) -> Result {
        body(&process.goneTally)
    }

    func event(_ body: [UInt8], position: Position, history: Model.History) -> Chunk {
        .event(body, position)
    }

    func deletedMessages(position: Position, history: Model.History) -> Chunk { .deleted(position) }

    func write(_ chunk: Chunk, to stream: UInt64) -> Bool {
        guard let listener = listeners[stream] else { return false }
        if world.isLoading, world.chance(world.options.fullPerMille) {
            world.after(.milliseconds(1) + world.roll(.milliseconds(50)), .timer, process: process) {
                self.drained(stream)
            }
            return false
        }
        let at = max(
            listener.lastArrival + .nanoseconds(1),
            world.now + .microseconds(100) + world.roll(.milliseconds(2)))
        listener.lastArrival = at
        let world = world
        world.after(at.since(world.now), .client) { world.arrived(chunk, listener) }
        return true
    }

    func open(_ stream: UInt64) {}
    func refuse(_ stream: UInt64, _ refusal: Refusal) { ended(stream) }
    func endReplaced(_ stream: UInt64) { ended(stream) }
    func endUnregistered(_ stream: UInt64) { ended(stream) }
    func endForReconnect(_ stream: UInt64) { ended(stream) }
}
