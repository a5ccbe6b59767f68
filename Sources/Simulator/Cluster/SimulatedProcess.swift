import Journal
import Model
import NodeCore
import Ownership
import Partitions
import Routing

/// One process of a simulated cluster, in the shape of `Node`: its loops, its part in the cluster (as
/// `Cluster`), and its connections to the database.
final class SimulatedProcess {
    unowned let world: ClusterSimulation
    let place: Int
    let session: SessionID
    let life: UInt32
    let map: NodeMap
    /// Its clocks' zero and error: nobody else's.
    private let clockOffset: UInt64
    /// Since when its monotonic clock stands still.
    private var standsSince: UInt64?
    /// Nanoseconds for which it did, all in all, and when it went on again.
    private var stoodStill: UInt64 = 0
    private(set) var standstills: [(end: UInt64, length: UInt64)] = []
    private let wallError: Int64

    var isRunning = true
    var frozenUntil: UInt64 = 0
    var stalled: [(ClusterSimulation.Tag, () -> Void)] = []
    /// It gives everything up and ends.
    var isLeaving = false
    /// Datagrams that were not believed since they came before, or may have.
    var refusedDatagrams = 0
    /// It has given everything up, and ends as soon as nobody waits for an answer.
    var isRetiring = false

    // The part in the cluster.
    let core: ControlCore
    /// Until when nobody else can be owner of what is here.
    var authority = MonotonicTime(nanoseconds: 0)
    /// What it knows of the projects.
    var catalog = SimulatedCatalog()
    /// One for each database, the home first.
    private(set) lazy var lanes = world.databases.map { SimulatedLane(self, $0) }

    private(set) var loops: [SimulatedLoop] = []
    /// Connections of clients that wait for an answer: what they are told when the process ends.
    var calls: [UInt64: () -> Void] = [:]

    init(_ world: ClusterSimulation, place: Int, session: SessionID) {
        self.world = world
        self.place = place
        self.session = session
        life = session.life
        map = world.map
        clockOffset = .seconds(100_000) + world.roll(.seconds(100_000))
        wallError = Int64(world.roll(400)) - 200
        let slot = world.slots[place]
        let mono = MonotonicTime(nanoseconds: world.now + clockOffset)
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

    func begin() {
        for loop in loops { loop.begin() }
        tell(.begin(seeds: []))
    }

    /// The machine stands still from now on, and its monotonic clock with it.
    func stopClock() { standsSince = standsSince ?? world.now }

    /// It goes on. Nanoseconds for which it stood still.
    func startClock() -> UInt64 {
        guard let since = standsSince else { return 0 }
        standsSince = nil
        let length = world.now - since
        stoodStill += length
        standstills.append((world.now, length))
        return length
    }

    /// For how much of the time since then its clock stood still, at most.
    func stoodStill(since moment: UInt64) -> UInt64 {
        standstills.reduce(0) { $1.end >= moment ? $0 + $1.length : $0 }
    }

    /// Its clocks, read now.
    var clock: Instant {
        let world = world
        return Instant(
            monotonic: monotonic,
            wall: WallTime(milliseconds: world.slots[place].clock.reading(world.wall, world.now) + wallError))
    }

    /// Its monotonic clock, read now.
    var monotonic: MonotonicTime {
        MonotonicTime(nanoseconds: (standsSince ?? world.now) + clockOffset - stoodStill)
    }

    func delay(to time: MonotonicTime) -> UInt64 { time.since(monotonic) }

    /// Happens when its own clock shows the time, which may have stood still meanwhile.
    func wake(at time: MonotonicTime, _ body: @escaping () -> Void) {
        world.after(delay(to: time), .timer, self) {
            if self.monotonic < time { return self.wake(at: time, body) }
            body()
        }
    }

    func lane(of partition: PartitionID) -> SimulatedLane { lanes[map.database(of: partition)] }

    // MARK: Loops

    func loop(of partition: PartitionID) -> SimulatedLoop { loops[map.loop(of: partition)] }

    /// Some loop, as the kernel hands a client's connection to one.
    var anyLoop: SimulatedLoop { loops[loops.count > 1 ? Int(world.roll(UInt64(loops.count))) : 0] }

    func serves(_ id: PartitionID) -> Bool { loop(of: id).core.partitions[id] != nil }

    /// By partition number.
    var partitions: [Partition] {
        loops.flatMap { Array($0.core.partitions.values) }.sorted { $0.id < $1.id }
    }

    /// The process has ended. The devices that listened to it.
    func abandonLoops() -> [Listener] {
        defer { loops = [] }
        return loops.flatMap { $0.abandon() }
    }

    /// Whether somebody waits for an answer.
    var isBusy: Bool { loops.contains { !$0.tickets.isEmpty } }

    // MARK: Peers

    /// A frame of a peer. It was sent after this, by the clock of this process.
    func received(_ bytes: [UInt8], from life: UInt32, after: MonotonicTime) {
        let frame = PeerFrame(bytes, from: life, after: after, map)
        if frame.mistake != nil { world.count("frames that cannot be read") }
        for word in frame.words { tell(.peer(life, word)) }
        for (loop, batch) in zip(loops, frame.batches) { loop.post(batch, from: life) }
    }

    /// A connection to or from a process is gone, and with it what was under way.
    func linkReset(_ life: UInt32) {
        world.count("links reset")
        world.debug("\(place) (life \(self.life)): link to \(life) reset")
        renewed(life)
        tell(.linkReset(life))
    }

    /// What was said to a process may be lost.
    func renewed(_ life: UInt32) { for loop in loops { loop.post(.linkReset(life)) } }
}
