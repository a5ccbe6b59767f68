import Credentials
import Listener
import Logging
import Model
import NodeCore
import Ownership
import Partitions
import Synchronization

/// What the loops of a node share: constants of its data, the engines, and counters.
final class NodeShared: Sendable {
    let map: NodeMap
    var partitionCount: Int { map.partitionCount }
    /// By partition number.
    let histories: [History]
    let session: SessionID
    let engines: Engines
    let options: PartitionOptions
    let counters = NodeCounters()
    /// What a scrape reads, from the time before the node's ports open.
    let metrics = Mutex<MetricSource?>(nil)
    /// The process id in a cluster, 24 bits; 0 on a lone node.
    let processID: ProcessID
    private let clusterBox = Mutex<Cluster?>(nil)
    var cluster: Cluster? { isClustered ? clusterBox.withLock { $0 } : nil }
    let isClustered: Bool
    /// See `NodeConfiguration`.
    let isForOneCommand: Bool
    let started = Clock.monotonic()
    let formerQuotas: FormerQuotas
    let clockWitness: WallTime?
    let administrator: Administrator
    let pushes: PushDispatch
    let goneTally = Mutex(GoneTally())
    private let onFatal: @Sendable (String) -> Void
    private let readiness = Mutex<String?>("starting")
    private let fatalReason = Mutex<String?>(nil)
    let log: Logger
    /// The epoch in which the session owned each partition at the start, by partition number.
    let epochs: [Epoch]
    /// Limits the lines about refused peers to one a minute for each reason.
    let refusalsTold = Mutex(LogLimit<String>())

    init(
        partitions: [OwnedPartition], loopCount: Int, session: SessionID, engines: Engines,
        options: PartitionOptions, administrator: Administrator, formerQuotas: FormerQuotas,
        clockWitness: WallTime?,
        isClustered: Bool = false, isForOneCommand: Bool = false,
        pushConnections: Int = DescriptorPlan.pushesMax, log: Logger,
        onFatal: @escaping @Sendable (String) -> Void
    ) {
        self.administrator = administrator
        let pushes = PushDispatch(
            connectionsMax: pushConnections, mailboxes: { administrator.boxes },
            notices: PushNotices(log, counters.pushes))
        administrator.tellPushRoutes { pushes.change($0) }
        self.pushes = pushes
        self.formerQuotas = formerQuotas
        self.clockWitness = clockWitness
        self.onFatal = onFatal
        map = NodeMap(
            partitionCount: partitions.count, loopCount: loopCount, databaseCount: engines.all.count)
        histories = partitions.map(\.history)
        epochs = partitions.map(\.epoch)
        self.session = session
        self.isClustered = isClustered
        self.isForOneCommand = isForOneCommand
        processID = isClustered ? session.processID : ProcessID(0)
        self.engines = engines
        self.options = options
        self.log = log
    }

    func loop(of partition: PartitionID) -> Int { map.loop(of: partition) }

    // MARK: State of the node

    /// Why the node takes no traffic; `nil` if it does.
    var notReady: String? { readiness.withLock { $0 } ?? unread.reason ?? clockReason }
    /// Loops that doubt the wall clock.
    private let doubting = Mutex<Set<Int>>([])
    private var clockReason: String? {
        doubting.withLock(\.isEmpty)
            ? nil
            : "the wall clock leapt against the monotonic clock: nothing expires until they agree; if the"
                + " wall clock is right, restart the server"
    }
    func doubtsClock(_ isDoubted: Bool, loop: Int) {
        let (was, are) = doubting.withLock { loops in
            let was = !loops.isEmpty
            if isDoubted { loops.insert(loop) } else { loops.remove(loop) }
            return (was, !loops.isEmpty)
        }
        guard was != are else { return }
        are ? log.error("the node doubts its clock") : log.notice("the node believes its clock again")
    }
    func note(_ notice: PartitionNotice, of partition: PartitionID) {
        switch notice {
        case .bodiesGone, .cameLate, .undecided, .dropped, .pushesEnded, .pushedAgain, .goneHeld, .clockLeapt,
            .clockAgrees, .deviceEnds, .markMended:
            break
        case .outboxStalls(let to): stalledOutboxes.begin(partition, to: to, log)
        case .outboxMoves(let to): stalledOutboxes.end(partition, to: to, log)
        case .conditionStalls(let to): stalledConditions.begin(partition, to: to, log)
        case .conditionMoves(let to): stalledConditions.end(partition, to: to, log)
        case .journalRefuses(let reason):
            refusals.begin(partition, reason, now: Clock.monotonic(), log: log)
        case .journalTakes: refusals.end(partition, now: Clock.monotonic(), log)
        }
    }
    /// Forgets what was wrong with a partition that has left this node or begins again.
    func forgetDoubts(of partition: PartitionID) {
        refusals.forget(partition)
        stalledOutboxes.forget(partition, log)
        stalledConditions.forget(partition, log)
        quarantines.withLock { $0[partition] = nil }
        unread.forget(partition)
    }

    let unconfirmedClock = UnconfirmedClock()
    let refusals = JournalRefusals()
    let stalledOutboxes = StalledPairs(.outboxes)
    let stalledConditions = StalledPairs(.conditions)
    let unread = UnreadPartitions()

    /// Partitions on this node that cannot be served, and why.
    private let quarantines = Mutex<[PartitionID: String]>([:])
    func quarantine(_ partition: PartitionID, _ reason: String) {
        refusals.forget(partition)
        stalledOutboxes.forget(partition, log)
        stalledConditions.forget(partition, log)
        unread.quarantined(partition)
        quarantines.withLock { $0[partition] = reason }
    }
    var quarantined: [(partition: PartitionID, reason: String)] {
        quarantines.withLock { known in known.sorted { $0.key < $1.key }.map { ($0.key, $0.value) } }
    }
    func become(notReady reason: String?) {
        readiness.withLock { if $0 != "draining" { $0 = reason } }
    }
    /// Until when no other node can own what this node serves: a lease's length after the node asked for the
    /// last renewal that went through. A node that wakes from a long sleep is past this moment, and grants
    /// nothing before it has looked (rule: heirs-of-buckets-wait). No end on a lone node.
    var authority: MonotonicTime {
        guard isClustered else { return .max }
        return MonotonicTime(nanoseconds: renewedAt.load(ordering: .relaxed)).advanced(by: NodeShared.lease)
    }
    private static let lease = Ownership.Options().lease
    /// When the node asked for the last renewal that went through, in nanoseconds.
    let renewedAt = Atomic<UInt64>(0)
    /// Whether the node has looked at the catalog within half the time for which a new key is announced.
    var isCatalogCurrent: Bool {
        guard isClustered else { return true }
        let age = Clock.monotonic().since(
            MonotonicTime(nanoseconds: renewedAt.load(ordering: .relaxed)))
        return age < .milliseconds(UInt64(RegistrationKeyRules.announcement / 2))
    }
    func join(_ cluster: Cluster) { clusterBox.withLock { $0 = cluster } }
    func becomeReady() { readiness.withLock { $0 = nil } }
    func beginDraining() { readiness.withLock { $0 = "draining" } }

    /// Why the node must end, if it must.
    var fatal: String? { fatalReason.withLock { $0 } }

    /// Stops the node if going on would make things worse.
    func stop(_ reason: String) {
        fatalReason.withLock { $0 = $0 ?? reason }
        log.critical("the node stops", metadata: ["reason": "\(reason)"])
        onFatal(reason)
    }

    func metricsText() -> String { metrics.withLock { $0 }?.text() ?? "" }
}

/// Counters that loops and shells add to, and that a scrape of the metrics reads.
final class NodeCounters: Sendable {
    let fingerprintDifferences = Atomic<Int>(0)
    let bodiesGone = Atomic<Int>(0)
    let marksMended = Atomic<Int>(0)
    let answeredUndecided = Atomic<Int>(0)
    let answersRefused = Atomic<Int>(0)
    let clockLeaps = Atomic<Int>(0)
    /// Milliseconds by which the node's clock is ahead of the home's.
    let clockAhead = Atomic<Int64>(0)
    let partitionsLost = Atomic<Int>(0)
    let peerMessagesLost = Atomic<Int>(0)
    let peerMessagesBad = Atomic<Int>(0)
    let requestsLate = Atomic<Int>(0)
    let refusedBehind = Atomic<Int>(0)
    let leftOut = Atomic<Int>(0)
    let peersCutOff = Atomic<Int>(0)
    let gossipSent = Atomic<Int>(0)
    let gossipReceived = Atomic<Int>(0)
    let gossipRefused = Atomic<Int>(0)
    let gossipRepeated = Atomic<Int>(0)
    let sendsAccepted = Atomic<Int>(0)
    let deliveriesWritten = Atomic<Int>(0)
    let deliveriesBehind = Atomic<Int>(0)
    let streams = Atomic<Int>(0)
    let cameLate = LimitedCount(
        "messages came to their devices' partition after their time to live: streams do not get them",
        of: "messages")
    let undecided = LimitedCount(
        "partitions were away until the end of a condition's message: their devices do not get it",
        of: "partitions")
    let pushedAgain = LimitedCount(
        "messages of a former owner were pushed, which may have pushed them too", of: "messages")
    let unseenEnded = LimitedCount("devices ended that nobody has seen for long", of: "devices")
    let unreachableEnded = LimitedCount("devices ended whose addresses are long gone", of: "devices")
    private let drops = Mutex(MessageDrops())
    func add(_ more: MessageDrops) { drops.withLock { $0.add(more) } }
    func dropped(_ reason: DropReason) -> Int { drops.withLock { $0.counts[reason] ?? 0 } }
    let pushes = PushCounters()
    let userAgents = UserAgentCounters()
}
