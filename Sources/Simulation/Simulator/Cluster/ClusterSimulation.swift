import Journal
import Model
import NodeCore
import Partitions
import Quotas
import VirtualTime

/// A whole cluster in virtual time, by seed: several nodes with the machines of real ones (ownership,
/// partitions, router, streams, quotas), a network that carries the nodes' frames as bytes, one database or
/// several, and clients. Everything happens in one thread. The seed decides how long each step takes and what
/// breaks.
///
/// Two runs of one seed are the same, event by event.
public final class ClusterSimulation {
    /// What an event is about, for the digest of a run.
    enum Tag: UInt8 {
        case loop, control, database, answered, network, arrived, client, fault, timer
    }
    private struct Happening {
        var tag: Tag
        /// The process of the event, which must run and not be frozen; `nil` for an event of the world.
        var process: SimulatedProcess?
        var body: () -> Void
    }
    /// A machine with a name, on which processes come and go.
    struct Slot {
        var name: String
        /// The machine's address if nodes of a copy run on it.
        var addressOfCopy: String?
        var address: String { addressOfCopy ?? name }
        var isGateway: Bool
        var isShard: Bool
        var process: SimulatedProcess?
        /// When the next process starts on this machine; `nil` if no start is planned.
        var startsAt: MonotonicTime?
        /// Until when the machine was hindered (asleep, without database, stopped): others may fence it.
        var hinderedUntil = MonotonicTime.zero
        /// The machine's wall clock.
        var clock = WallClock()
    }

    let options: Options
    var random: SeededGenerator
    public var now: MonotonicTime { original?.now ?? queue.now }
    var history = History()
    /// A digest of everything that happened, for comparing two runs.
    public private(set) var digest: UInt64 = 0
    public private(set) var eventCount = 0
    /// Violations that were seen during the run.
    var violations: [Violation] = []
    private var queue = EventQueue<Happening>(began: MonotonicTime(.seconds(1)))
    weak var observer: ClusterObserver?

    /// The home database is first.
    lazy var databases = (0..<map.databaseCount).map { SimulatedDatabase(self, number: $0) }
    var home: SimulatedDatabase { databases[0] }
    let map: NodeMap
    lazy var network = SimulatedNetwork(self)
    /// A copy of the databases with the nodes on it, and in the copy the original.
    var copy: ClusterSimulation?
    unowned var original: ClusterSimulation?
    /// The number of the first machine on the network, which a copy shares with its original.
    var firstMachine = 0
    /// Addresses that nodes ask from their start on.
    var seeds: [String] = []
    private(set) lazy var pushServices = SimulatedPushServices(self)
    private(set) lazy var pushChecks = PushChecks(self)
    var pushSettings = PushSettings()
    var slots: [Slot] = []
    /// Earlier processes of machines on which another has begun: they run on until they learn of their fence.
    var ghosts: [SimulatedProcess] = []
    var clients: [ClusterClient] = []
    var nextMessage: UInt64 = 0
    /// Whether messages end as late as may be, on each way.
    var sendsLong = false
    var isLoading = false
    var isHealing = false
    /// No client changes anything any more, so that the answers are final.
    var isAsking = false
    var isPoisoning = false
    /// `Options.writeMax` and `Options.latencyMax`; at most the defaults of these once everything heals.
    var writeMax: TimeSpan
    var latencyMax: TimeSpan
    /// Until when no client may change a device's subscription to a topic: an earlier try may still take
    /// effect.
    var quiet: [Pair: MonotonicTime] = [:]
    /// The deadline of each request by the clock of the world, which no process sees.
    var deadlines: [RequestID: MonotonicTime] = [:]
    /// For each message and request, the number of copies that an owner may have looked at: all copies that
    /// were asked, less those to which an owner replied "moved".
    var copies: [UInt64: [RequestID: Int]] = [:]
    var messages: [RequestID: UInt64] = [:]
    /// When an owner last began each send: no later than that it was accepted.
    var begun: [UInt64: MonotonicTime] = [:]
    /// Partitions that had not decided a condition when its sender was answered, by message.
    var undecided: [UInt64: Set<PartitionID>] = [:]
    /// Partitions that some condition did not wait for.
    var silent: Set<PartitionID> = []
    /// Why the newest try of an undertaking was not taken.
    var hindrances: [Undertaking: Hindrance] = [:]
    /// Operations under way, by number.
    var underWay: [UInt64: (what: String, began: MonotonicTime)] = [:]
    var lastCall: UInt64 = 0
    /// How many questions at the end of the run have no answer yet.
    var questionsLeft = 0
    /// The longest time for which a client waited.
    var slowest = TimeSpan.zero
    /// Until when something was last broken. A send that begins long after it has no reason to be in doubt.
    var troubledUntil = MonotonicTime.zero
    /// Effects of loops until the next crash.
    var effectsLeft: UInt64 = 0
    /// When a lone node kept what was left in its buckets, and its wall clock then.
    var quotasKept: (at: MonotonicTime, wall: WallTime)?
    var firstClocks = FirstClocks()
    /// The largest error of a wall clock.
    var worstClock = TimeSpan.zero
    var meter: QuotaMeter
    /// The next fault is one of these.
    private(set) lazy var faultLots = ClusterSimulation.lots(options)
    public internal(set) var counts: [String: Int] = [:]
    /// The number of members of each topic, when everything has come to rest.
    var memberCounts: [Int: Int] = [:]
    /// The trace of the milliseconds that `Options.traced` names.
    public private(set) var trace: [String] = []
    private(set) var outboxChecks = OutboxChecks()
    var strangeAnswers = StrangeAnswers()
    /// Some of the sent frames, to be damaged at the end.
    var specimens: [[UInt8]] = []

    struct Pair: Hashable {
        var device: Int
        var topic: Int
    }

    /// Project numbers, from 1.
    let projects: [ProjectNumber]

    public init(_ options: Options) {
        var options = options
        if options.isLone { (options.nodeCount, options.databaseCount) = (1, 1) }
        self.options = options
        random = SeededGenerator(seed: options.seed)
        (writeMax, latencyMax) = (options.writeMax, options.latencyMax)
        projects = (1...options.projectCount).map { ProjectNumber(UInt32($0)) }
        let most = options.limitsGapMax > .zero ? options.limits.times(3) : options.limits
        meter = QuotaMeter(most, projects: projects)
        map = NodeMap(
            partitionCount: options.partitionCount, loopCount: options.loopCount,
            databaseCount: options.databaseCount)
        clients = (0..<options.deviceCount).map {
            ClusterClient(number: $0, project: projects[$0 % options.projectCount])
        }
        for number in 0..<options.nodeCount {
            let role = options.role(of: number)
            slots.append(
                Slot(name: "node-\(number)", isGateway: role.isGateway, isShard: role.isShard, process: nil))
        }
    }

    // MARK: Time

    var wall: WallTime { WallTime(milliseconds: 1_800_000_000_000 + Int64(now.nanoseconds / 1_000_000)) }

    func roll(_ bound: UInt64) -> UInt64 { random.next(upperBound: max(1, bound)) }
    func roll(_ bound: TimeSpan) -> TimeSpan {
        .nanoseconds(options.isEven ? bound.nanoseconds / 2 : roll(bound.nanoseconds))
    }
    func chance(_ perMille: UInt64) -> Bool { perMille > 0 && roll(1000) < perMille }

    func after(_ delay: TimeSpan, _ tag: Tag, body: @escaping () -> Void) {
        plan(after: delay, Happening(tag: tag, process: nil, body: body))
    }

    /// Plans an event of a process, which happens only if the process still runs then.
    func after(
        _ delay: TimeSpan, _ tag: Tag, process: SimulatedProcess, body: @escaping () -> Void
    ) {
        plan(after: delay, Happening(tag: tag, process: process, body: body))
    }

    private func plan(after delay: TimeSpan, _ happening: Happening) {
        if let original { return original.plan(after: delay, happening) }
        queue.push(after: delay, happening)
    }

    func note(_ value: UInt64) {
        digest = (digest ^ value) &* 0x0000_0100_0000_01B3
        digest ^= digest >> 29
    }

    func run(until end: MonotonicTime) {
        while !isOver, let happening = queue.next(until: end) {
            if let process = happening.process {
                guard process.isRunning else { continue }
                if process.frozenUntil > now {
                    process.stalled.append((happening.tag, happening.body))
                    continue
                }
            }
            happen(happening.tag, happening.process, body: happening.body)
        }
        queue.pass(to: end)
        if isHealing, !isPoisoning { outboxChecks.look(self) }
    }

    /// Nothing happens any more once a promise is broken, if the options say so.
    private var isOver: Bool {
        options.stopsAtViolation && violations.contains { $0.guarantee != "invariant" }
    }

    private func happen(_ tag: Tag, _ process: SimulatedProcess?, body: () -> Void) {
        eventCount += 1
        note(now.nanoseconds ^ UInt64(tag.rawValue) << 56 ^ UInt64(process?.index ?? 99) << 48)
        body()
    }

    /// Ends a process's sleep: the events that waited for the process happen, in order.
    func thaw(_ process: SimulatedProcess) {
        guard process.frozenUntil <= now else { return }
        let stalled = process.stalled
        process.stalled = []
        if process.startClock() > .zero { forgiveQuotas(of: process) }
        for (tag, body) in stalled where process.isRunning { happen(tag, process, body: body) }
    }

    func violate(_ guarantee: String, _ description: String) {
        if let original { return original.violate(guarantee, "in the copy: \(description)") }
        guard violations.count < 50, !isPoisoning || guarantee == "G8" else { return }
        violations.append(Violation(guarantee, "\(description) (at \(seconds))"))
    }

    /// The time in sentences.
    var seconds: String {
        let milliseconds = now.nanoseconds / 1_000_000
        let rest = String(milliseconds % 1000)
        return "\(milliseconds / 1000)." + String(repeating: "0", count: 3 - rest.count) + rest + " s"
    }

    /// How much happened, in one line.
    public var summary: String {
        let all = counts.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }
        return
            "\(now.nanoseconds / 1_000_000_000) s, \(eventCount) events, \(history.changes.count) changes, "
            + "\(history.sends.count) sends, \(history.deliveries.count) deliveries, "
            + "slowest \(slowest.milliseconds) ms, " + all.joined(separator: ", ")
    }

    /// Adds a line to the trace, if the options ask for this time.
    func debug(_ text: @autoclosure () -> String) {
        if let original { return original.debug("copy: \(text())") }
        guard let times = options.traced, times.contains(now.nanoseconds / 1_000_000) else { return }
        trace.append("\(seconds) \(text())")
    }

    /// Something breaks, for `length` at most.
    func trouble(for length: TimeSpan = .zero) { troubledUntil = max(troubledUntil, now + length) }

    func count(_ what: String, _ by: Int = 1) { counts[what, default: 0] += by }

    // MARK: Running

    /// Runs to the end, and returns the history and the violations.
    public func run() -> (history: History, violations: [Violation]) {
        boot()
        isLoading = true
        for client in clients.indices { after(roll(.milliseconds(500)), .client) { self.operate(client) } }
        scheduleFaults()
        scheduleCopy()
        scheduleLimits()
        scheduleKeys()
        scheduleServices()
        scheduleSettings()
        run(until: now + .seconds(options.seconds))
        settle()
        violations += check()
        if options.poisons, violations.isEmpty { poison() }
        dissolve()
        return (history, violations)
    }

    /// Lets go of all processes and of all events that are left: these hold the simulation, which holds them.
    func dissolve() {
        copy?.dissolve()
        for process in slots.compactMap(\.process) + ghosts {
            _ = process.abandonLoops()
            process.stalled = []
        }
        for client in clients.indices { (clients[client].awaited, clients[client].putOff) = ([:], []) }
        queue.removeAll()
    }

    /// Starts all nodes, waits until they serve, then creates the projects.
    func boot() {
        for index in slots.indices {
            if options.isLone { setFirstClock(index) }
            start(index)
        }
        let limit = now + options.patience
        while now < limit, !isServed { run(until: now + .milliseconds(100)) }
        if !isServed { violate("G7", "the cluster does not come up: \(unserved) are not served") }
        for project in projects { home.makeProject(project) }
        setAllServices()
        run(until: now + .seconds(2))
    }

    static func history(of partition: PartitionID) -> Model.History {
        Model.History(UInt64(partition.rawValue) + 7)
    }

    func database(of partition: PartitionID) -> SimulatedDatabase {
        databases[map.database(of: partition)]
    }

    func process(of processID: ProcessID) -> SimulatedProcess? {
        for slot in slots {
            if let process = slot.process, process.processID == processID, process.isRunning {
                return process
            }
        }
        return ghosts.first { $0.processID == processID && $0.isRunning }
    }

    var unserved: [Int] {
        let rows = databases.flatMap { (try? $0.engine.partitions()) ?? [] }.sorted { $0.id < $1.id }
        return rows.filter { row in
            guard let owner = row.owner else { return true }
            return !slots.contains { slot in
                guard let process = slot.process, process.isRunning, process.session == owner else {
                    return false
                }
                return process.frozenUntil <= now && process.serves(row.id)
            }
        }.map { Int($0.id.rawValue) }
    }
    var isServed: Bool { unserved.isEmpty }
}
