import Journal
import Membership
import Model
import NodeCore
import Ownership
import Partitions
import Quotas
import Routing

extension ClusterSimulation {
    public struct Options: Sendable {
        public var seed: UInt64
        public var nodeCount = 5
        public var partitionCount = 8
        /// Databases over which the partitions are spread.
        public var databaseCount: Int
        /// Event loops of each process.
        public var loopCount: Int
        public var projectCount = 1
        /// Over all projects.
        public var deviceCount = 12
        /// Of each project.
        public var topicCount = 5
        /// Virtual seconds of load and faults.
        public var seconds: UInt64 = 30
        /// Nanoseconds that a client waits between two operations, at most.
        public var pauseMax: UInt64 = .milliseconds(1200)
        public var limits = QuotaLimits()
        /// Nanoseconds between two changes of a project's limits, at most, to up to three times what they are
        /// at first; 0: they never change.
        public var limitsGapMax: UInt64 = 0
        /// Bytes of a message, at most; 0: its number alone.
        public var bodyBytesMax = 0
        /// Of 1,000 sends, how many are a burst, and of how many messages at most.
        public var burstPerMille: UInt64 = 0
        public var burstMax: UInt64 = 0
        /// Of 1,000 devices, how many take part in another's change of subscriptions.
        public var companionsPerMille: UInt64 = 167
        /// Of 1,000 operations, how many unregister the device.
        public var unregisterPerMille: UInt64 = 0

        /// Whether anything breaks at all.
        public var hasFaults = true
        /// What may break.
        public var faults = Set(Fault.allCases.filter { !$0.isOfClocks })
        /// Nanoseconds between two faults, at most.
        public var faultGapMax: UInt64 = .seconds(4)
        /// Of 1,000 appends, how many are refused, lose their reply (or their request), and stall.
        public var refusedPerMille: UInt64 = 4
        public var unknownPerMille: UInt64 = 8
        public var stallPerMille: UInt64 = 8
        /// Nanoseconds of a stall, and of a write that does not stall, at most.
        public var stallMax: UInt64 = .milliseconds(1500)
        public var writeMax: UInt64 = .milliseconds(5)
        /// Nanoseconds that a frame or a datagram is under way beyond the least, at most.
        public var latencyMax: UInt64 = 450_000
        /// Of 1,000 datagrams of gossip, how many are lost, and how many come twice.
        public var lostDatagramsPerMille: UInt64 = 20
        /// Of 1,000 datagrams of gossip, after how many somebody who heard an earlier one sends it again.
        public var replayedPerMille: UInt64 = 0
        /// Of 1,000 other calls of the database, how many fail.
        public var failedPerMille: UInt64 = 3
        /// Of 1,000 chunks, how many a stream cannot take.
        public var fullPerMille: UInt64 = 20
        /// Milliseconds by which a clock on a wall is set wrong, at most.
        public var leapMax: UInt64 = .milliseconds(200) / 1_000_000
        /// Of 1,000 of its milliseconds, how many a clock on a wall is too fast or too slow, at most.
        public var driftPerMille: UInt64 = 0

        /// Virtual nanoseconds after the last fault within which everything must be served again, and what is
        /// sent then heard: small bounds take longer over the same work.
        public var patience: UInt64 = .seconds(15)
        /// Whether every record is kept for replaying the journals at the end.
        public var keepsPast = true
        /// Whether nodes are fed damaged frames when everything else is over.
        public var poisons = true
        /// Virtual milliseconds of which the run is to keep a trace, for reading.
        public var traced: ClosedRange<UInt64>?
        public var partition: PartitionOptions
        /// What may wait for a loop, and of each loop for another process.
        public var inbox = LoopInbox.bound
        public var peerBacklog = Backlog.Bound(entries: 1 << 17, bytes: 64 << 20)
        public var journal = JournalOptions()
        public var routing = RouterBounds()
        public var loop = LoopBounds()
        public var links = LinkTiming()
        /// As `StoredPartition.readBytesMax`.
        public var loadBytesMax = StoredPartition.readBytesMax
        public var quotas = QuotaBounds()
        /// Devices whose own limits a loop remembers, and how many of them it looks at.
        public var limiter = DeviceLimiter(countMax: 1024)
        public var ownership = Ownership.Options()
        public var membership = Membership.Options()
        public var tablePatience: UInt64 = .milliseconds(500)
        public var looksMissed: UInt64 = 3
        /// Nanoseconds between two changes of the catalog that say nothing of limits, at most; 0: none.
        public var keysGapMax: UInt64 = 0
        #if DEBUG
            public var planted: PlantedInNode = []
            public var plantedInCluster: PlantedInCluster = []
        #endif

        public init(seed: UInt64) {
            self.seed = seed
            loopCount = 1 + Int(seed % 3)
            databaseCount = [1, 1, 2, 1, 3][Int(seed % 5)]
            partition = PartitionOptions(partitionCount: partitionCount)
            partition.snapshotBytesMin = 2000
            // Several slices and parts of each snapshot, and turns in between.
            partition.snapshotSliceBytes = 50 + Int(seed % 7) * 150
            partition.bodiesAtOnce = 1 + Int(seed % 4)
            partition.bodyBytesAtOnce = 1 + Int(seed % 3) * 100
            partition.snapshotPartBytes = 200 + Int(seed % 5) * 400
        }

        /// Small bounds of partitions, drawn from the seed, and clients in a hurry, so that all are reached.
        public mutating func drawBounds() {
            var random = SeededGenerator(seed: seed ^ 0xB0_07D5)
            func draw(_ from: Int, _ to: Int) -> Int {
                from + Int(random.next(upperBound: UInt64(to - from + 1)))
            }
            partition.pushWindow = 2 << draw(0, 4)
            partition.recordBytesMax = draw(100, 2000)
            partition.entryBytesMax = draw(100, 2000)
            partition.offerBytesMax = draw(100, 4000)
            partition.recordsInFlightMax = draw(2, 8)
            partition.outboxWindow = draw(1, 64)
            partition.deferredBytesMax = draw(0, 8000)
            partition.snapshotBytesMin = draw(500, 5000)
            pauseMax = .milliseconds(UInt64(draw(50, 1200)))
        }

        /// Two of five are gateways alone, two shards alone, one is both; a small cluster's nodes are both.
        func role(of number: Int) -> (isGateway: Bool, isShard: Bool) {
            if nodeCount < 4 { return (true, true) }
            return switch number % 5 {
            case 0, 3: (true, false)
            case 1, 2: (false, true)
            default: (true, true)
            }
        }
    }
}

extension QuotaLimits {
    func times(_ factor: UInt64) -> QuotaLimits {
        func times(_ rate: QuotaRate) -> QuotaRate {
            QuotaRate(
                count: rate.count * factor, perSeconds: rate.seconds, burst: rate.burst * factor)
        }
        var limits = self
        (limits.sends, limits.subscriptionChanges) = (times(sends), times(subscriptionChanges))
        return limits
    }
}

/// As `PeerTiming`, in nanoseconds.
public struct LinkTiming: Sendable {
    /// The listening end asks for a sign of life so often, and an end that hears nothing gives up after the
    /// silence, up to a ping late.
    public var ping: UInt64 = .seconds(2)
    public var silence: UInt64 = .seconds(8)
    /// How long a connection may take that nobody answers.
    public var connect: UInt64 = .seconds(2)
    /// What has waited longer for a connection is forgotten when it stands.
    public var waitMax: UInt64 = .seconds(8)
    /// Pauses between two tries, doubling from the first to the last.
    public var backoffMin: UInt64 = .milliseconds(100)
    public var backoffMax: UInt64 = .milliseconds(1500)
}

/// What breaks in a simulated cluster.
public enum Fault: Int, CaseIterable, Sendable {
    /// A process ends at once; its machine says so.
    case crash
    /// Nobody says so.
    case silentCrash
    case nap
    case sleep
    case leave
    case reset
    case resetAll
    case cut
    case isolation
    case blindness
    case databaseAway
    case stalledConnection
    case slowLinks
    case supersession
    /// A machine's clock on the wall is set wrong.
    case clockLeaps
    /// It goes too fast or too slow.
    case clockDrifts
    /// It shows the same time again and again.
    case clockStops
    /// A machine stands still, and its monotonic clock with it: as one that is suspended, or a virtual one
    /// that its host does not run for a while.
    case standstill

    var isOfClocks: Bool { rawValue >= Fault.clockLeaps.rawValue }
}

extension QuotaLimits {
    /// So little that the clients of a simulated cluster meet it.
    public static let tight = QuotaLimits(
        sends: QuotaRate(count: 4, burst: 12), subscriptionChanges: QuotaRate(count: 8, burst: 30))
}

#if DEBUG
    /// Bugs that are planted in the world of a simulated cluster, and in the part of a node that the
    /// simulation imitates, to show that a checker sees them.
    public struct PlantedInCluster: OptionSet, Sendable {
        public let rawValue: Int
        public init(rawValue: Int) { self.rawValue = rawValue }

        /// A dead node's partitions are taken without ending its session (rule: fence-before-take).
        public static let skipFence = PlantedInCluster(rawValue: 1)
        /// The database takes appends of sessions that are dead (rule: checked-append).
        public static let appendUnchecked = PlantedInCluster(rawValue: 2)
        /// A lease waits for takes and releases, on the same connection.
        public static let leaseBehindTakes = PlantedInCluster(rawValue: 4)
    }
#endif
