import Journal
import Membership
import Model
import Ownership
import Partitions
import Placement
import Quotas
import Routing

/// One process of a simulated cluster: the machines of a node and, as thin as it can be, the glue between
/// them, in the shape of the real one (`Cluster` and `NodeLoop`). It has one loop.
final class SimulatedProcess {
    /// What the loop's queue holds, as `LoopMessage`.
    enum Message {
        case partition(PartitionID, PartitionEvent)
        case request(PartitionID, RequestID, Request, Mandate)
        case reply(RequestID, Reply)
        case stream(from: PartitionID, StreamFrame)
        case peerStream(life: UInt32, from: PartitionID, StreamFrame)
        case lost(PartitionID, mayHaveAppended: Bool)
        case quotaRequest(QuotaRequest)
        case quotaGrant(QuotaGrant)
        case quotaRefusal(RequestID, QuotaRefusal)
    }
    /// The way to another process.
    struct Peer {
        /// The machine on which it runs.
        var place: Int
        var connection: SimulatedNetwork.Connection?
        var isConnecting = false
        /// The last try failed; the next is at its time.
        var isBackingOff = false
        var backoff: UInt64 = .milliseconds(100)
        var waiting: [[UInt8]] = []
        var waitingSince: UInt64 = 0
    }

    unowned let world: ClusterSimulation
    let place: Int
    let session: SessionID
    let life: UInt32
    let gateway: GatewayID
    /// Its clocks' zero and error: nobody else's.
    private let clockOffset: UInt64
    private let wallError: Int64

    var isRunning = true
    var frozenUntil: UInt64 = 0
    var stalled: [(ClusterSimulation.Tag, () -> Void)] = []
    /// It gives everything up and ends.
    var isLeaving = false
    /// It has given everything up, and ends as soon as nobody waits for an answer.
    var isRetiring = false

    // The part in the cluster.
    var ownership: Ownership
    var membership: Membership
    var members: [Ownership.Member] = []
    var routes: [Ownership.Route?] = []
    /// Until when nobody else can be owner of what is here.
    var authority = MonotonicTime(nanoseconds: 0)
    private(set) lazy var control = EngineLane(self)
    private(set) lazy var loader = EngineLane(self)
    private(set) lazy var journal = EngineLane(self)
    var appender: Appender
    var doubts: UInt64 = 0
    /// As `NodeShared.epochs`.
    var epochs: [Epoch]

    // The loop.
    let names = TopicNames()
    var partitions: [Partition?]
    var router: Router
    var streams: GatewayStreams
    var grantor = QuotaGrantor()
    var deviceLimiter = DeviceLimiter(countMax: 1024)
    var places = PartitionPlaces()
    var livingSessions: Set<SessionID> = []
    var peers: [UInt32: Peer] = [:]
    var toPeers: [UInt32: ByteWriter] = [:]
    var followed: [PartitionID: FollowedPartition] = [:]
    var inherited: [PartitionID: Partition] = [:]
    var leaving: [PartitionID: ([ProjectNumber: [UInt64]]) -> Void] = [:]
    var handedOver: [ProjectNumber: [UInt64]] = [:]
    var births: [ProjectNumber: Epoch] = [:]
    var reattaching: Set<PartitionID> = []
    var unreachable: Set<UInt32> = []
    var owed: [UInt32: Int] = [:]
    var servedSince: [PartitionID: MonotonicTime] = [:]
    var queue: [Message] = []
    var rows: [Row] = []
    var dirty = PartitionSet()
    private var lives: UInt32 = 0
    var effects: [PartitionEffect] = []
    var now: Instant
    private var isInTurn = false

    // The clients' side.
    var tickets: [UInt64: (Outcome?) -> Void] = [:]
    var lastTicket: UInt64 = 0
    /// Connections of clients that wait for an answer: what they are told when the process ends.
    var calls: [UInt64: () -> Void] = [:]
    var listeners: [UInt64: Listener] = [:]
    var lastAsked: UInt64 = 0

    init(_ world: ClusterSimulation, place: Int, session: SessionID) {
        self.world = world
        self.place = place
        self.session = session
        life = session.life
        gateway = GatewayID(life << 8)
        clockOffset = world.roll(.seconds(100_000))
        wallError = Int64(world.roll(400)) - 200
        let count = world.options.partitionCount
        epochs = Array(repeating: Epoch(0), count: count)
        partitions = Array(repeating: nil, count: count)
        appender = Appender(session: session)
        let slot = world.slots[place]
        let mono = MonotonicTime(nanoseconds: world.now + clockOffset)
        now = Instant(monotonic: mono, wall: world.wall)
        let info = Ownership.NodeInfo(
            isShard: slot.isShard, isGateway: slot.isGateway, peer: slot.name, gossip: slot.name)
        ownership = Ownership(session: session, name: slot.name, info: info, now: mono)
        membership = Membership(
            session: session, name: slot.name, address: slot.name, info: info.encoded,
            seed: world.random.next(), now: mono)
        var options = Router.Options(partitionCount: count, gateway: gateway, session: session.rawValue << 8)
        options.isClustered = true
        let spender = SpenderID(world.random.next() << 32 | UInt64(gateway.rawValue))
        router = Router(
            options: options, admission: Admission(spender),
            random: SeededGenerator(seed: world.random.next()))
        router.admission.adopt([ClusterSimulation.project: world.options.limits])
        streams = GatewayStreams(
            gateway: gateway, histories: (0..<count).map { .init(UInt64($0) + 7) }, outlivesOwners: true)
    }

    /// Its monotonic clock at a moment of the world.
    func clock(at moment: UInt64) -> MonotonicTime { MonotonicTime(nanoseconds: moment + clockOffset) }

    /// Its clocks, read now.
    var clock: Instant {
        Instant(
            monotonic: MonotonicTime(nanoseconds: world.now + clockOffset),
            wall: WallTime(milliseconds: world.wall.milliseconds + wallError))
    }

    func delay(to time: MonotonicTime) -> UInt64 { time.since(clock.monotonic) }

    // MARK: Turns

    /// Does something on the loop and then the rest of its turn, as `NodeLoop.turn`.
    func turn(_ body: () -> Void) {
        guard !isInTurn else { return body() }
        isInTurn = true
        now = clock
        body()
        while !queue.isEmpty {
            var batch: [Message] = []
            swap(&batch, &queue)
            for message in batch { handle(message) }
        }
        for id in dirty.sorted() {
            partitions[Int(id.rawValue)]?.flush(now: now, into: &effects)
            carryOut(of: id)
        }
        dirty.removeAll()
        if !leaving.isEmpty { finishLeaving() }
        if !rows.isEmpty {
            let offered = rows
            rows = []
            onAppender(.offered(offered))
        }
        flushPeers()
        isInTurn = false
        if !queue.isEmpty { world.after(0, .loop, self) { self.turn {} } }
    }

    /// From the other threads of the process to the loop.
    func post(_ body: @escaping () -> Void) {
        world.after(20_000, .loop, self) { self.turn(body) }
    }

    /// A timer of the loop.
    func wake(at time: MonotonicTime, _ body: @escaping () -> Void) {
        world.after(delay(to: time), .timer, self) { self.turn(body) }
    }

    func handle(_ message: Message) {
        switch message {
        case .partition(let id, let event): handle(event, of: id)
        case .request(let id, let asked, let request, let mandate):
            switch standing(of: mandate, at: id) {
            case .late: return world.count("late requests")
            case .moved: return answer(asked, .refused(.moved))
            case .valid: break
            }
            if world.now > world.deadlines[asked] ?? .max {
                world.violate("5.12", "\(place) carries out request \(asked.number) past its deadline")
            }
            handle(.request(asked, request), of: id)
        case .reply(let request, let reply):
            world.debug("\(place) (life \(life)) gets reply \(request.number) \(reply)")
            var done: [RouterEffect] = []
            router.replied(request.number, reply, now: now, into: &done)
            carryOut(done)
        case .stream(let partition, let frame): receive(frame, from: partition)
        case .peerStream(let life, let partition, let frame):
            world.debug("\(place) (life \(self.life)) hears of \(partition.rawValue) from \(life)")
            if places[partition] == .peer(life) { receive(frame, from: partition) }
        case .lost(let id, let mayHaveAppended): lose(id, mayHaveAppended: mayHaveAppended)
        case .quotaRequest(let request): grant(request)
        case .quotaGrant(let grant):
            var done: [RouterEffect] = []
            router.granted(grant, now: now, into: &done)
            carryOut(done)
        case .quotaRefusal(let request, let refusal):
            var done: [RouterEffect] = []
            router.refused(request.number, refusal, into: &done)
            carryOut(done)
        }
    }

    private func handle(_ event: PartitionEvent, of id: PartitionID) {
        guard let partition = partitions[Int(id.rawValue)] else { return refuse(event, id) }
        guard leaving[id] == nil || !event.mayTravel else { return refuse(event, id) }
        guard !isPastDeviceLimit(event) else { return }
        if case .stream(let c) = event { world.debug("\(place) p\(id.rawValue) command \(c)") }
        partition.handle(event, now: now, into: &effects)
        dirty.insert(id)
        carryOut(of: id)
    }

    private func standing(of mandate: Mandate, at id: PartitionID) -> Mandate.Standing {
        let standing = mandate.standing(in: epochs[Int(id.rawValue)], now: now.monotonic)
        #if DEBUG
            let planted = world.options.planted
            if planted.contains(.ignoreDeadlines), case .late = standing { return .valid }
            if planted.contains(.ignoreEpochs), case .moved = standing { return .valid }
        #endif
        return standing
    }

    /// A request for a partition that is not here.
    private func refuse(_ event: PartitionEvent, _ partition: PartitionID) {
        switch event {
        case .request(let id, _): answer(id, .refused(.moved))
        case .stream(.attach(let stream, _, _, _)):
            tellStream(stream.gateway, .refused(stream, .moved), from: partition)
        default: break
        }
    }

    // MARK: The router

    func carryOut(_ effects: [RouterEffect]) {
        for effect in effects {
            switch effect {
            case .ask(let partition, let id, let request, let deadline):
                world.debug(
                    "\(place) (life \(life)) asks \(partition.rawValue) number \(id.number) \(request)")
                meter(id, request)
                world.deadlines[id] = world.now + delay(to: deadline.time)
                ask(partition, id, request, deadline)
            case .finish(let ticket, let outcome): tickets.removeValue(forKey: ticket)?(outcome)
            case .quota(let request): sendQuota(request)
            case .wakeRetry(let time):
                wake(at: time) { self.route { $0.retryMoved(now: $1, into: &$2) } }
            case .wakeQuota(let time):
                wake(at: time) { self.route { $0.quotaWoke(now: $1, into: &$2) } }
            case .wake(let time):
                wake(at: time) { self.route { $0.woke(now: $1, into: &$2) } }
            }
        }
    }

    func route(_ body: (Router, Instant, inout [RouterEffect]) -> Void) {
        var done: [RouterEffect] = []
        body(router, now, &done)
        carryOut(done)
    }

    /// A client's operation; `answered` with nothing where the process ends first.
    func submit(_ operation: Operation, _ answered: @escaping (Outcome?) -> Void) {
        turn {
            lastTicket += 1
            tickets[lastTicket] = answered
            let ticket = lastTicket
            route { $0.submit(operation, ticket: ticket, now: $1, into: &$2) }
        }
    }

    // MARK: Partitions that come and go

    /// A partition that was read from its journal begins to serve.
    func adopt(_ partition: Partition) {
        partitions[Int(partition.id.rawValue)] = partition
        now = clock
        servedSince[partition.id] = now.monotonic
        lives &+= 1
        partition.begin(now: now, life: lives, into: &effects)
        dirty.insert(partition.id)
        carryOut(of: partition.id)
    }

    /// Its machine is thrown away; who waited is told; it begins anew under another epoch.
    private func lose(_ id: PartitionID, mayHaveAppended: Bool) {
        guard let partition = partitions[Int(id.rawValue)] else { return }
        partitions[Int(id.rawValue)] = nil
        world.count("partitions lost")
        var replies: [(RequestID, Reply)] = []
        partition.abandon(mayHaveAppended: mayHaveAppended, reason: "a fault", into: &replies)
        for (request, reply) in replies { answer(request, reply) }
        dirty.remove(id)
        grantor.close { world.home(of: $0) == id }
        tellOwnership(.lost(id))
    }

    /// The partition is not this process's any more.
    func drop(_ id: PartitionID) {
        leaving[id] = nil
        inherited[id] = nil
        guard let partition = partitions[Int(id.rawValue)] else { return }
        partitions[Int(id.rawValue)] = nil
        var replies: [(RequestID, Reply)] = []
        partition.abandon(mayHaveAppended: true, reason: "the partition is another's", into: &replies)
        for (request, _) in replies { answer(request, .refused(.handedOver)) }
        grantor.close { world.home(of: $0) == id }
    }

    func release(_ id: PartitionID, _ done: @escaping ([ProjectNumber: [UInt64]]) -> Void) {
        inherited[id] = nil
        guard partitions[Int(id.rawValue)] != nil else { return done([:]) }
        leaving[id] = done
    }

    private func finishLeaving() {
        for id in leaving.keys.sorted() {
            guard let done = leaving[id] else { continue }
            guard partitions[Int(id.rawValue)].map({ $0.isIdle }) ?? true else { continue }
            leaving[id] = nil
            var left = handedOver.filter { world.home(of: $0.key) == id }
            for project in left.keys { handedOver[project] = nil }
            let remainders = grantor.remainders(now: now.monotonic)
            left.merge(remainders.filter { world.home(of: $0.key) == id }) { $1 }
            drop(id)
            done(left)
        }
    }
}
