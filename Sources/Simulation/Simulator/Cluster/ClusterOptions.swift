import Journal
import Membership
import Model
import NodeCore
import Ownership
import Partitions
import PushDesk
import PushMessages
import PushScheduling
import Quotas
import Routing

extension ClusterSimulation {
    public struct Options: Sendable {
        public var seed: UInt64
        /// One lone node, on a database in its process.
        public var isLone = false
        public var nodeCount = 5
        public var partitionCount = 8
        /// Databases over which the partitions are spread.
        public var databaseCount: Int
        /// Event loops of each process.
        public var loopCount: Int
        public var projectCount = 1
        /// Devices over all projects.
        public var deviceCount = 12
        /// Topics of each project.
        public var topicCount = 5
        /// Virtual seconds of load and faults.
        public var seconds: UInt64 = 30
        /// Whether each length of time is the middle of what it may be, and not drawn.
        public var isEven = false
        /// How long a client waits between two operations, at most.
        public var pauseMax: TimeSpan = .milliseconds(1200)
        public var limits = QuotaLimits()
        /// The time between two changes of a project's limits, at most; 0: the limits never change. A
        /// change sets one, two or three times the first limits.
        public var limitsGapMax = TimeSpan.zero
        /// Bytes of a message beside its number, at most; 0: its number alone.
        public var bodyBytesMax = 0
        /// Of 1,000 sends, how many are a burst, and of how many messages at most.
        public var burstPerMille: UInt64 = 0
        public var burstMax: UInt64 = 0
        /// Of 1,000 devices, how many take part in another's change of subscriptions.
        public var companionsPerMille: UInt64 = 167
        /// Of 1,000 operations, how many unregister the device.
        public var unregisterPerMille: UInt64 = 0
        /// Of 1,000 requests of clients, between how many and their answers the client ends.
        public var deathsPerMille: UInt64 = 0
        /// Of 1,000 devices, how many have an address at a push service.
        public var pushedPerMille: UInt64 = 0
        /// Kinds of services of which such a device has addresses, at most. More than one: messages have
        /// another end at each kind.
        public var addressKindsMax = 1
        /// The time between two changes of a project's push services, at most; 0: none.
        public var servicesGapMax = TimeSpan.zero
        var changesServices: Bool {
            (servicesGapMax > .zero || settingsGapMax > .zero) && pushedPerMille > 0
        }
        /// The time between two changes of the setting of a push service, at most; 0: none. Many settings are
        /// another account's.
        public var settingsGapMax = TimeSpan.zero
        var changesSettings: Bool { settingsGapMax > .zero && pushedPerMille > 0 }
        /// Of 1,000 operations of such a device, how many register another address.
        public var addressPerMille: UInt64 = 40
        /// Of 1,000 messages for a push service, how many the service does not take, and for how many it says
        /// that the address is gone.
        public var pushFailPerMille: UInt64 = 0
        public var pushGonePerMille: UInt64 = 0
        /// Whether a run can reach the bound of addresses that are gone in a day.
        var brakes: Bool { partition.goneFew < Options.goneMany }
        public static let goneMany = 1 << 20
        public var pushes = PushBounds()
        public var pushClient = PushClientBounds()
        public var underWay = PushInFlight.Bounds()
        /// A node's access tokens for FCM, and how many seconds they live.
        public var accessTokens = AccessTokens.Bounds()
        public var accessTokenSeconds: UInt64 = 3600
        /// Of 1,000 requests for an access token, after how many its host refuses the account for a while.
        public var tokensRefusedPerMille: UInt64 = 0
        /// The client for Apple's service, the streams that the service allows on a connection with a token,
        /// and the times of tokens. What is an hour at Apple's service lasts `appleHourSeconds`.
        public var apns = APNsClientSettings()
        public var appleStreams = 20
        public var apnsTokens = APNsTokens.Bounds()
        public var appleHourSeconds: Int64 = 55
        /// Services of Web Push.
        public var webPushCount = 3
        /// Of 1,000 times that a push service changes its mood, in how many it is not well.
        public var pushMoodsPerMille: UInt64 = 0
        /// Messages to which a service always answers what explains nothing. With any, services answer so to
        /// all messages now and then.
        public var pushUnexplainedPerMille: UInt64 = 0
        /// Whether each push service says for a while, once, that all devices are gone.
        public var deniesDevices = false
        /// Of 1,000 answers of Apple's service, how many want another connection or the previous token, or
        /// report old news.
        public var appleOddPerMille: UInt64 = 0

        /// After how much load the databases are copied, and nodes start on the copy; 0: never. Not for lone
        /// nodes, and not with addresses at push services, to which both would send.
        public var copiedAfter = TimeSpan.zero
        public var copyNodeCount = 2
        /// Whether the copy has the numbers of the original's server, as files have, or others, as a dump.
        public var copiesFiles = true

        /// Whether anything breaks at all.
        public var hasFaults = true
        /// The faults that may happen.
        public var faults = Set(Fault.allCases.filter { !$0.isOfClocks && $0 != .lostMachine })
        /// The time between two faults, at most.
        public var faultGapMax: TimeSpan = .seconds(4)
        /// Effects of loops between two crashes right before an effect, at most; 0: no such crash.
        public var effectsGapMax: UInt64 = 0
        /// Of 1,000 messages between partitions on two loops of a process, how many are left out, and how
        /// many come twice.
        public var leftOutPerMille: UInt64 = 0
        /// Of 1,000 readings of a partition, in how many the newest of two snapshots cannot be read.
        public var unreadablePerMille: UInt64 = 0
        /// Of 1,000 appends, how many are refused, lose their reply (or their request), and stall.
        public var refusedPerMille: UInt64 = 4
        public var unknownPerMille: UInt64 = 8
        public var stallPerMille: UInt64 = 8
        /// The length of a stall, and of a write that does not stall, at most.
        public var stallMax: TimeSpan = .milliseconds(1500)
        public var writeMax: TimeSpan = .milliseconds(5)
        /// By how much two nodes' wall clocks may differ if no fault has set one wrong.
        public var clocksApart: TimeSpan = .milliseconds(400)
        /// How long every write takes beyond that, from when the load begins until everything heals.
        public var writeMin = TimeSpan.zero
        /// How long a frame or a datagram is under way beyond the least, at most.
        public var latencyMax: TimeSpan = .microseconds(450)
        /// Of 1,000 datagrams of gossip, how many are lost, and how many come twice.
        public var lostDatagramsPerMille: UInt64 = 20
        /// Of 1,000 datagrams of gossip, after how many an eavesdropper repeats an earlier one.
        public var replayedPerMille: UInt64 = 0
        /// Of 1,000 frames between processes, after how many an acknowledgement or an answer of another
        /// process comes late, twice, or from a process that does not own the partition.
        public var strangeAnswersPerMille: UInt64 = 0
        /// Of 1,000 other calls of the database, how many fail.
        public var failedPerMille: UInt64 = 3
        /// Of 1,000 chunks, how many a stream cannot take.
        public var fullPerMille: UInt64 = 20
        /// By how much a fault sets a wall clock wrong, at most.
        public var leapMax: TimeSpan = .milliseconds(200)
        /// Of 1,000 starts, at how many the machine's clock is wrong, by hours to years.
        public var wrongStartsPerMille: UInt64 = 0
        /// Milliseconds in 1,000 by which a wall clock is too fast or too slow, at most.
        public var driftPerMille: UInt64 = 0

        /// The virtual time after the last fault within which all partitions must be served again, and
        /// devices must receive what clients send then. Small bounds take longer over the same work.
        public var patience: TimeSpan = .seconds(15)
        /// Whether the simulation keeps every record, to replay the journals at the end.
        public var keepsPast = true
        /// Whether the simulation hands damaged frames to the nodes when everything else is over.
        public var poisons = true
        /// Whether a run ends with the first broken promise: a planted bug may push a message without end.
        public var stopsAtViolation = false
        /// Virtual milliseconds of which the run keeps a trace.
        public var traced: ClosedRange<UInt64>?
        public var partition: PartitionOptions
        /// Bounds of what may wait for a loop, and from each loop for another process.
        public var inbox = LoopInbox.bound
        public var peerBacklog = Backlog.Bound(entries: 1 << 17, bytes: 64 << 20)
        public var journal = JournalOptions()
        public var routing = RouterBounds()
        public var loop = LoopBounds()
        public var links = LinkTiming()
        /// As `StoredPartition.readBytesMax`.
        public var loadBytesMax = StoredPartition.readBytesMax
        public var quotas = QuotaBounds()
        /// Each loop's limiter of sends to single devices; it remembers 1,024 devices.
        public var limiter = DeviceLimiter(countMax: 1024)
        public var ownership = Ownership.Options()
        public var membership = Membership.Options()
        public var tablePatience: TimeSpan = .milliseconds(500)
        public var looksMissed: UInt64 = 3
        /// The time between two changes of the catalog without new limits, at most; 0: none.
        public var keysGapMax = TimeSpan.zero
        #if DEBUG
            public var planted: PlantedInNode = []
            public var plantedInCluster: PlantedInCluster = []
            public var plantedInScheduling: PlantedInScheduling = []
            public var plantedInTokens: PlantedInTokens = []
            public var plantedInFlight: PlantedInFlight = []
            public var plantedInDesk: PlantedInDesk = []
        #endif

        public init(seed: UInt64) {
            self.seed = seed
            loopCount = 1 + Int(seed % 3)
            databaseCount = [1, 1, 2, 1, 3][Int(seed % 5)]
            partition = PartitionOptions(partitionCount: partitionCount)
            // Most runs check which addresses must be gone, and have no brake.
            (partition.goneFew, partition.goneHold) = (Options.goneMany, .seconds(2))
            partition.snapshotBytesMin = 2000
            // So small that each snapshot has several slices and parts, with turns in between.
            partition.snapshotSliceBytes = 50 + Int(seed % 7) * 150
            partition.bodiesAtOnce = 1 + Int(seed % 4)
            partition.bodyBytesAtOnce = 1 + Int(seed % 3) * 100
            partition.snapshotPartBytes = 200 + Int(seed % 5) * 400
            pushes.pauseMax = .seconds(4)
            pushes.retryMax = .seconds(8)
            pushes.wordRetryMax = .seconds(20)
            pushes.throttledMin = .seconds(2)
            pushes.credentialsPause = .seconds(3)
            pushes.answerMax = .seconds(15)
            underWay.againWithin = .seconds(6)
            accessTokens.endMargin = 1
            accessTokens.answerMax = .seconds(9)
            accessTokens.pauseMax = .seconds(4)
            accessTokens.refusedPause = .seconds(3)
            accessTokens.freshFor = .milliseconds(500)
            shortenAppleTimes()
        }

        /// Push services' answers that devices are gone are confirmed within a short run. Not for runs in
        /// which a service denies all devices for a while: answers that were under way would confirm that.
        mutating func confirmSoon() {
            pushes.wordsSettle = .milliseconds(200)
            pushes.wordRetryMin = .milliseconds(500)
        }

        /// Times of the client for Apple's service that fit into a short run.
        private mutating func shortenAppleTimes() {
            (apns.waitMax, apns.answerMax, apns.connectMax) = (.seconds(4), .seconds(4), .seconds(2))
            (apns.loadWait, apns.connectSpacing) = (.milliseconds(200), .milliseconds(300))
            (apns.backoffMin, apns.backoffMax) = (.milliseconds(400), .seconds(4))
            (apns.stableAfter, apns.refusedPauseMax) = (.seconds(5), .seconds(1))
            (apns.busyPing, apns.idlePing, apns.pingMax) = (.seconds(1), .seconds(10), .seconds(1))
            apns.idleMax = .seconds(20)
            (apnsTokens.period, apnsTokens.changeMin, apnsTokens.ageMax) = (40, 20, 50)
        }

        /// A run of one lone node, with the faults that it can have.
        public mutating func beAlone() {
            isLone = true
            faults.insert(.lostMachine)
            effectsGapMax = 20_000
            (leftOutPerMille, unreadablePerMille) = (30, 100)
            pauseMax = .milliseconds(400)
        }

        /// Draws small bounds of partitions and a short pause of clients, so that runs reach all bounds.
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

        /// Of five nodes two are only gateways, two only shards, one is both; of fewer than 4, all are.
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

/// The times of `PeerTiming`.
public struct LinkTiming: Sendable {
    /// The listening end sends a ping at this interval. An end that receives nothing for `silence` gives the
    /// connection up, up to one ping late.
    public var ping: TimeSpan = .seconds(2)
    public var silence: TimeSpan = .seconds(8)
    /// How long an end tries to connect if no answer comes.
    public var connect: TimeSpan = .seconds(2)
    /// Frames that have waited longer for a connection are dropped when it opens.
    public var waitMax: TimeSpan = .seconds(8)
    /// The pauses between two tries to connect double from the first to the last.
    public var backoffMin: TimeSpan = .milliseconds(100)
    public var backoffMax: TimeSpan = .milliseconds(1500)
}

/// The faults of a simulated cluster.
public enum Fault: Int, CaseIterable, Sendable {
    /// A process ends immediately, and its machine notifies its peers.
    case crash
    /// A process ends immediately with its machine, and its peers get no notice.
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
    /// A machine's wall clock is set wrong.
    case clockLeaps
    /// A machine's wall clock runs too fast or too slow.
    case clockDrifts
    /// A machine's wall clock stops.
    case clockStops
    /// A machine pauses, and its monotonic clock with it: the machine is suspended, or is a virtual one that
    /// its host does not run for a while.
    case standstill
    /// The machine of a partition cannot go on, and the loop reads the journal again.
    case lostMachine

    var isOfClocks: Bool { self != .lostMachine && rawValue >= Fault.clockLeaps.rawValue }

    /// Whether the fault can happen to a lone node.
    var isOfOne: Bool {
        switch self {
        case .reset, .resetAll, .cut, .isolation, .slowLinks, .supersession: false
        default: true
        }
    }
}

extension QuotaLimits {
    /// Limits so low that the clients of a simulated cluster reach them.
    public static let tight = QuotaLimits(
        sends: QuotaRate(count: 4, burst: 12), subscriptionChanges: QuotaRate(count: 8, burst: 30))
}

#if DEBUG
    /// Bugs that are planted in the world of a simulated cluster, and in the part of a node that the
    /// simulation imitates, to show that a checker sees them.
    public struct PlantedInCluster: OptionSet, Sendable {
        public let rawValue: Int
        public init(rawValue: Int) { self.rawValue = rawValue }

        /// Nodes take a dead node's partitions without ending its session (rule: fence-before-take).
        public static let skipFence = PlantedInCluster(rawValue: 1)
        /// The database takes appends of sessions that are dead (rule: checked-append).
        public static let appendUnchecked = PlantedInCluster(rawValue: 2)
        /// A lease waits for takes and releases, on the same connection.
        public static let leaseBehindTakes = PlantedInCluster(rawValue: 4)
        /// The key between nodes comes from the cluster's secrets alone (rule: copies-are-strangers).
        public static let copiesShareKeys = PlantedInCluster(rawValue: 8)
        /// A node keeps the life in the database, whether another node lives or not
        /// (rule: copies-are-strangers).
        public static let copiesKeepLives = PlantedInCluster(rawValue: 16)
    }
#endif
