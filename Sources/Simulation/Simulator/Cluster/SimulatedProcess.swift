import Catalog
import Model
import NodeCore
import Ownership
import Partitions

/// One process of a simulated cluster, in the place of `Node`: its loops, its part in the cluster (in the
/// place of `Cluster`), and its connections to the databases.
final class SimulatedProcess {
    unowned let world: ClusterSimulation
    let index: Int
    /// The machine on the network.
    var machine: Int { world.firstMachine + index }
    var address: String { world.slots[index].address }
    /// From what the key is derived that seals datagrams, and by which a peer proves itself when a connection
    /// begins. In runs without lives all nodes have one key.
    var key: ClusterSecrets.Derivation?
    let generation: UInt64
    let session: SessionID
    let processID: ProcessID
    let map: NodeMap
    /// What the process's monotonic clock shows when virtual time begins. No other process shares it.
    private let clockOffset: TimeSpan
    /// Since when the process's monotonic clock is stopped; `nil` if it runs.
    private var stoppedSince: MonotonicTime?
    /// How long the clock was stopped in all, and each standstill with its end.
    private var stoppedFor = TimeSpan.zero
    private(set) var standstills: [(end: MonotonicTime, length: TimeSpan)] = []
    private let wallError: Int64

    var isRunning = true
    var frozenUntil = MonotonicTime.zero
    var stalled: [(ClusterSimulation.Tag, () -> Void)] = []
    /// The process gives everything up and ends.
    var isLeaving = false
    private lazy var isOpen = lone == nil
    /// How many datagrams the process refused because they had come before, or may have.
    var refusedDatagrams = 0
    /// The process has given everything up, and ends as soon as no client waits for an answer.
    var isRetiring = false

    /// By how many milliseconds the clock was ahead at the start, if the witness contradicted it.
    var unconfirmedAt: Int64?
    /// What the process found at its start; `nil` in a cluster.
    let lone: LoneStart?

    // The part in the cluster.
    /// `nil` on a lone node.
    let core: ControlCore?
    /// Until when no other process can own the partitions that are here.
    var authority = MonotonicTime.zero
    /// The version of the catalog that the process knows.
    var catalog = SimulatedCatalog()
    /// One for each database, the home first.
    private(set) lazy var databaseConnections = world.databases.map { SimulatedConnections(self, $0) }

    private(set) var loops: [SimulatedLoop] = []
    private(set) lazy var pushes = SimulatedPushes(self)
    var goneTally = GoneTally()
    var goneSeen = GoneSeen()
    /// Clients' connections that wait for an answer, with what to call when the process ends.
    var calls: [UInt64: () -> Void] = [:]

    init(
        _ world: ClusterSimulation, index: Int, session: SessionID, generation: UInt64 = 0,
        lone: LoneStart? = nil
    ) {
        self.world = world
        self.index = index
        self.generation = generation
        self.session = session
        self.lone = lone
        if lone != nil { authority = .max }
        processID = lone == nil ? session.processID : ProcessID(0)
        map = world.map
        clockOffset = .seconds(100_000) + world.roll(.seconds(100_000))
        let apart = lone == nil ? world.options.clocksApart.milliseconds : 0
        wallError = Int64(world.roll(apart)) - Int64(apart / 2)
        let slot = world.slots[index]
        let mono = world.now + clockOffset
        let info = Ownership.NodeInfo(
            isShard: slot.isShard, isGateway: slot.isGateway, peer: slot.address, gossip: slot.address)
        var options = ControlOptions(
            session: session, name: slot.name, info: info, map: map,
            histories: (0..<map.partitionCount).map {
                ClusterSimulation.history(of: PartitionID(UInt16($0)))
            },
            seed: world.random.next())
        options.ownership = world.options.ownership
        options.membership = world.options.membership
        options.tablePatience = world.options.tablePatience
        options.looksMissed = world.options.looksMissed
        #if DEBUG
            options.planted = world.options.planted
        #endif
        core = lone == nil ? ControlCore(options, now: mono) : nil
        core?.isBroken = { world.violate("invariant", "\(slot.name): \($0)") }
        loops = (0..<map.loopCount).map { SimulatedLoop(self, number: $0) }
    }

    func start() {
        // A lone node reads its settings before it serves.
        if lone != nil { pushes.change(world.home.catalog.services) }
        for loop in loops { loop.start() }
        if let lone { readAll(lone) } else { tell(.start(seeds: world.seeds)) }
    }

    /// The machine pauses from now on, and its monotonic clock with it.
    func stopClock() { stoppedSince = stoppedSince ?? world.now }

    /// The machine goes on. Returns for how long it paused.
    func startClock() -> TimeSpan {
        guard let since = stoppedSince else { return .zero }
        stoppedSince = nil
        let length = world.now.since(since)
        stoppedFor += length
        standstills.append((world.now, length))
        return length
    }

    /// For how long since `moment` the clock was stopped, at most.
    func stoodStill(since moment: MonotonicTime) -> TimeSpan {
        standstills.reduce(.zero) { $1.end >= moment ? $0 + $1.length : $0 }
    }

    /// The process's clocks, read now.
    var clock: Instant {
        let world = world
        return Instant(
            monotonic: monotonic,
            wall: WallTime(milliseconds: world.slots[index].clock.reading(world.wall, world.now) + wallError))
    }

    /// The process's monotonic clock, read now.
    var monotonic: MonotonicTime {
        ((stoppedSince ?? world.now) + clockOffset).rewound(by: stoppedFor)
    }

    func delay(to time: MonotonicTime) -> TimeSpan { time.since(monotonic) }

    /// Calls `body` when the process's own clock shows the time; the clock may stop meanwhile.
    func wake(at time: MonotonicTime, _ body: @escaping () -> Void) {
        world.after(delay(to: time), .timer, process: self) {
            if self.monotonic < time { return self.wake(at: time, body) }
            body()
        }
    }

    func connections(of partition: PartitionID) -> SimulatedConnections {
        databaseConnections[map.database(of: partition)]
    }

    // MARK: Loops

    func loop(of partition: PartitionID) -> SimulatedLoop { loops[map.loop(of: partition)] }

    /// Some loop, as the kernel hands a client's connection to one.
    var anyLoop: SimulatedLoop { loops[loops.count > 1 ? Int(world.roll(UInt64(loops.count))) : 0] }

    /// Whether the process takes clients. A lone node opens its port when it serves all partitions.
    var takesClients: Bool {
        guard isRunning, !isRetiring else { return false }
        if !isOpen { isOpen = (0..<map.partitionCount).allSatisfy { serves(PartitionID(UInt16($0))) } }
        return isOpen
    }

    func serves(_ id: PartitionID) -> Bool { loop(of: id).core.partitions[id] != nil }

    /// The partitions of all loops, by number.
    var partitions: [Partition] {
        loops.flatMap { Array($0.core.partitions.values) }.sorted { $0.id < $1.id }
    }

    /// Ends the loops with the process. Returns the listeners of the devices that listened to it.
    func abandonLoops() -> [Listener] {
        defer { loops = [] }
        return loops.flatMap { $0.abandon() }
    }

    /// Whether a client waits for an answer.
    var isBusy: Bool { loops.contains { !$0.tickets.isEmpty } }

    // MARK: Peers

    /// A frame of a peer, sent after the moment `after` of this process's clock.
    func received(_ bytes: [UInt8], from processID: ProcessID, after: MonotonicTime) {
        let frame = PeerFrame(bytes, from: processID, after: after, map)
        if frame.mistake != nil { world.count("frames that cannot be read") }
        if frame.foreign > 0 {
            world.violate("routing", "\(processID) spoke for another process's gateway")
        }
        for word in frame.words { tell(.peer(processID, word)) }
        for (loop, batch) in zip(loops, frame.batches) { loop.post(batch, from: processID) }
    }

    /// A connection to or from a process is gone, and with it what was under way.
    func linkReset(_ processID: ProcessID) {
        world.count("links reset")
        world.observer?.breaks(linkTo: processID, at: self)
        world.debug("\(index) (process \(self.processID)): link to \(processID) reset")
        renewed(processID)
        tell(.linkReset(processID))
    }

    /// Frames to a process may be lost.
    func renewed(_ processID: ProcessID) { for loop in loops { loop.post(.linkReset(processID)) } }
}
