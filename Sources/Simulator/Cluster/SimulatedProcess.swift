import Journal
import Model
import NodeCore
import Ownership
import Partitions
import Routing

/// One process of a simulated cluster, in the place of `Node`: its loops, its part in the cluster (in the
/// place of `Cluster`), and its connections to the databases.
final class SimulatedProcess {
    unowned let world: ClusterSimulation
    let index: Int
    let session: SessionID
    let processID: ProcessID
    let map: NodeMap
    /// What the process's monotonic clock shows when virtual time begins. No other process shares it.
    private let clockOffset: TimeSpan
    /// Since when the process's monotonic clock stands still; `nil` where it runs.
    private var standsSince: MonotonicTime?
    /// How long the clock stood still in all, and each standstill with its end.
    private var stoodStill = TimeSpan.zero
    private(set) var standstills: [(end: MonotonicTime, length: TimeSpan)] = []
    private let wallError: Int64

    var isRunning = true
    var frozenUntil = MonotonicTime.zero
    var stalled: [(ClusterSimulation.Tag, () -> Void)] = []
    /// The process gives everything up and ends.
    var isLeaving = false
    /// How many datagrams the process refused because they had come before, or may have.
    var refusedDatagrams = 0
    /// The process has given everything up, and ends as soon as no client waits for an answer.
    var isRetiring = false

    // The part in the cluster.
    let core: ControlCore
    /// Until when no other process can own the partitions that are here.
    var authority = MonotonicTime.zero
    /// The version of the catalog that the process knows.
    var catalog = SimulatedCatalog()
    /// One for each database, the home first.
    private(set) lazy var databaseConnections = world.databases.map { SimulatedConnections(self, $0) }

    private(set) var loops: [SimulatedLoop] = []
    private(set) lazy var pushes = SimulatedPushes(self)
    /// Clients' connections that wait for an answer, with what to call when the process ends.
    var calls: [UInt64: () -> Void] = [:]

    init(_ world: ClusterSimulation, index: Int, session: SessionID) {
        self.world = world
        self.index = index
        self.session = session
        processID = session.processID
        map = world.map
        clockOffset = .seconds(100_000) + world.roll(.seconds(100_000))
        let apart = world.options.clocksApart.milliseconds
        wallError = Int64(world.roll(apart)) - Int64(apart / 2)
        let slot = world.slots[index]
        let mono = world.now + clockOffset
        let info = Ownership.NodeInfo(
            isShard: slot.isShard, isGateway: slot.isGateway, peer: slot.name, gossip: slot.name)
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
        core = ControlCore(options, now: mono)
        core.isBroken = { world.violate("invariant", "\(slot.name): \($0)") }
        loops = (0..<map.loopCount).map { SimulatedLoop(self, number: $0) }
    }

    func start() {
        for loop in loops { loop.start() }
        tell(.start(seeds: []))
    }

    /// The machine stands still from now on, and its monotonic clock with it.
    func stopClock() { standsSince = standsSince ?? world.now }

    /// The machine goes on. Returns for how long it stood still.
    func startClock() -> TimeSpan {
        guard let since = standsSince else { return .zero }
        standsSince = nil
        let length = world.now.since(since)
        stoodStill += length
        standstills.append((world.now, length))
        return length
    }

    /// For how long since `moment` the clock stood still, at most.
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
        ((standsSince ?? world.now) + clockOffset).rewound(by: stoodStill)
    }

    func delay(to time: MonotonicTime) -> TimeSpan { time.since(monotonic) }

    /// Calls `body` when the process's own clock shows the time; the clock may stand still meanwhile.
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
