import Journal
import Logging
import Model
import Ownership
import Partitions
import Placement
import SQLiteEngine
import Synchronization

/// What the loops of a node share: constants of its data, the way to the engine, and counters.
final class NodeShared: Sendable {
    let partitionCount: Int
    let loopCount: Int
    /// By partition number.
    let histories: [History]
    /// What stands in event ids: another one after the engine may have lost its end.
    var eventHistories: [History] {
        histories.map { History($0.rawValue &+ options.generation) }
    }
    let session: SessionID
    let engines: Engines
    let options: PartitionOptions
    let counters = NodeCounters()
    let metrics = NodeMetrics()
    /// This process among those of a cluster, 24 bits; 0 on a node of its own.
    let life: UInt32
    private let clusterBox = Mutex<Cluster?>(nil)
    var cluster: Cluster? { isClustered ? clusterBox.withLock { $0 } : nil }
    let isClustered: Bool
    let started = Clock.monotonic()
    let formerQuotas: FormerQuotas
    let administrator: Administrator
    private let onFatal: @Sendable (String) -> Void
    private let readiness = Mutex<String?>("starting")
    private let fatalReason = Mutex<String?>(nil)
    let log: Logger
    private let epochs: Mutex<[Epoch]>
    private let trims: Mutex<Set<PartitionID>> = Mutex([])

    init(
        partitions: [OwnedPartition], loopCount: Int, session: SessionID, engines: Engines,
        options: PartitionOptions, administrator: Administrator, formerQuotas: FormerQuotas,
        isClustered: Bool = false, log: Logger,
        onFatal: @escaping @Sendable (String) -> Void
    ) {
        self.administrator = administrator
        self.formerQuotas = formerQuotas
        self.onFatal = onFatal
        partitionCount = partitions.count
        self.loopCount = loopCount
        histories = partitions.map(\.history)
        epochs = Mutex(partitions.map(\.epoch))
        self.session = session
        self.isClustered = isClustered
        life = isClustered ? session.life : 0
        self.engines = engines
        self.options = options
        self.log = log
    }

    func loop(of partition: PartitionID) -> Int { Int(partition.rawValue) % loopCount }
    func loop(ofBuckets project: ProjectNumber) -> Int {
        loop(of: home(of: project))
    }
    func home(of project: ProjectNumber) -> PartitionID {
        ProjectHomes(partitionCount: partitionCount, databaseCount: engines.all.count).home(of: project)
    }
    func epoch(of partition: PartitionID) -> Epoch { epochs.withLock { $0[Int(partition.rawValue)] } }

    // MARK: State of the node

    /// Why the node takes no traffic; `nil` where it does.
    var notReady: String? { readiness.withLock { $0 } }
    func become(notReady reason: String?) {
        readiness.withLock { if $0 != "draining" { $0 = reason } }
    }
    /// Until when nobody else can be owner of what this node serves: its lease's length from when the last
    /// renewal that went through was asked for. A node that wakes from a long sleep is past it, and grants
    /// nothing before it has looked.
    var authority: MonotonicTime {
        MonotonicTime(nanoseconds: renewedAt.load(ordering: .relaxed)).advanced(by: NodeShared.lease)
    }
    private static let lease = Ownership.Options().lease
    /// When the last renewal that went through was asked for.
    let renewedAt = Atomic<UInt64>(0)
    func join(_ cluster: Cluster) { clusterBox.withLock { $0 = cluster } }
    func setEpoch(_ epoch: Epoch, of partition: PartitionID) {
        epochs.withLock { $0[Int(partition.rawValue)] = epoch }
    }
    func becomeReady() { readiness.withLock { $0 = nil } }
    func beginDraining() { readiness.withLock { $0 = "draining" } }

    /// Why the node must end, if it must.
    var fatal: String? { fatalReason.withLock { $0 } }

    /// Something is so wrong that going on would make it worse.
    func stop(_ reason: String) {
        fatalReason.withLock { $0 = $0 ?? reason }
        log.critical("the node stops", metadata: ["reason": "\(reason)"])
        onFatal(reason)
    }

    func metricsText() -> String { metrics.registry.text() }

    /// Rows that a call of the engine deletes at the most, so that appends never wait long behind it.
    static let trimSlice = 500

    /// Deletes what is not needed any more, slice by slice; one run for a partition at a time.
    func trim(_ partition: PartitionID, below: Sequence, keeping: [Sequence]) {
        let isFirst = trims.withLock { $0.insert(partition).inserted }
        if isFirst { trimSlice(partition, below: below, keeping: keeping) }
    }

    private func trimSlice(_ partition: PartitionID, below: Sequence, keeping: [Sequence]) {
        let session = session
        engines[partition].perform({ engine in
            try engine.trim(
                session: session, partition: partition, below: below, keeping: keeping,
                limit: NodeShared.trimSlice)
        }) { result in
            switch result {
            case .success(let left) where left > 0:
                self.trimSlice(partition, below: below, keeping: keeping)
            case .success:
                self.trims.withLock { _ = $0.remove(partition) }
            case .failure(let error):
                self.log.error(
                    "the journal was not trimmed",
                    metadata: ["partition": "\(partition.rawValue)", "error": "\(error)"])
                self.trims.withLock { _ = $0.remove(partition) }
            }
        }
    }

    /// Reads a partition from the journal and gives it to its loop; tries again while the engine cannot be
    /// read.
    func recover(_ id: PartitionID, onto loop: NodeLoop) {
        let mailbox = loop.mailboxes[loop.number]
        engines[id].perform({ engine in try StoredPartition(id, from: engine) }) { result in
            switch result {
            case .success(let loaded): mailbox.post(.run { $0.restore(loaded) })
            case .failure(let error):
                self.log.error(
                    "a partition could not be read",
                    metadata: ["partition": "\(id.rawValue)", "error": "\(error)"])
                mailbox.post(
                    .run { loop in
                        loop.eventLoop.assumeIsolated().scheduleTask(in: .seconds(1)) {
                            self.recover(id, onto: loop)
                        }
                    })
            }
        }
    }
}

/// Counters that loops and shells add to, and that a scrape of the metrics reads.
final class NodeCounters: Sendable {
    let fingerprintDifferences = Atomic<Int>(0)
    let bodiesGone = Atomic<Int>(0)
    let clockLeaps = Atomic<Int>(0)
    let partitionsLost = Atomic<Int>(0)
    let peerMessagesLost = Atomic<Int>(0)
    let peerMessagesBad = Atomic<Int>(0)
    let requestsLate = Atomic<Int>(0)
    let gossipSent = Atomic<Int>(0)
    let gossipReceived = Atomic<Int>(0)
    let gossipRefused = Atomic<Int>(0)
    let sendsAccepted = Atomic<Int>(0)
    let deliveriesWritten = Atomic<Int>(0)
    let deliveriesBehind = Atomic<Int>(0)
    let streams = Atomic<Int>(0)
}

/// A partition that this session owns.
struct OwnedPartition: Sendable {
    var id: PartitionID
    var history: History
    var epoch: Epoch
    /// The sequence that its next record will have.
    var next: Sequence
}
