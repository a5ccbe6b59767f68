import Model

/// The bounds of deliveries. A server has those of `StoredRules`, because the effect of a record on the log
/// depends on them; tests and simulations draw others.
public struct DeliveryLimits: Hashable, Sendable {
    public var waitingMax = StoredRules.waitingMax
    public var collapsibleMax = StoredRules.collapsibleMax
    public var passDepth = StoredRules.passDepth
    public var waitingHardMax = StoredRules.waitingHardMax
    /// Unacknowledged messages of a device whose stream cannot take more for now: what was written to the
    /// stream, and as many more as wait for an absent device.
    var behindMax: Int { min(Int(waitingHardMax), 2 * Int(waitingMax) + Int(passDepth)) }
    /// Topics that a device may be subscribed to (FCM: 2,000).
    public var topicsPerDeviceMax = StoredRules.topicsMax

    public init() {}

    /// The rule that these limits break; `nil` if they break none.
    public var mistake: String? {
        if waitingMax < 1 || collapsibleMax < 1 || passDepth < 1 {
            return "`waitingMax`, `collapsibleMax` and `passDepth` must each be at least 1"
        }
        // Otherwise a listening device would lose messages before they can pass as delivered.
        if Int(waitingMax) + Int(passDepth) > Int(waitingHardMax) {
            return "`waitingMax` + `passDepth` must be at most `waitingHardMax`"
        }
        if !(1...StoredRules.topicsMax).contains(topicsPerDeviceMax) {
            return "`topicsPerDeviceMax` must be 1 to \(StoredRules.topicsMax)"
        }
        return nil
    }
}

public struct PartitionOptions: Sendable {
    /// The number of partitions that the data was created with.
    public var partitionCount: Int
    public var delivery = DeliveryLimits()
    /// Bytes of an open record past which the partition closes it although another record is in flight.
    public var recordBytesMax = 1 << 20
    /// Bytes that a record may put into one outbox, past which the partition closes it as well: the record
    /// makes larger records at its receivers, in which each message has all of its targets.
    public var entryBytesMax = 2 << 20
    /// Rises when the engine may have lost its end. Older event ids count only up to their generation's end.
    public var generation: UInt64 = 0
    /// Databases over which the partitions are spread. One database may lose its end alone; then the two ends
    /// of a pair do not fit together.
    public var databaseCount = 1
    /// Device indices that a partition leaves out when a database may have lost its end. A topic elsewhere
    /// may still have devices that the partition has lost.
    public var indicesLeftOut: UInt32 = 1 << 16
    /// Partitions that a partition asks at once to compare pairs after such a loss.
    public var comparedAtOnce = 256
    /// Records in flight. At this many a full open record makes the partition refuse requests.
    public var recordsInFlightMax = 8
    /// Bytes of waiting bodies that a project may have in this partition.
    public var waitingBytesMax: UInt64 = 256 << 20
    /// Outbox entries offered to one partition and not yet acknowledged.
    public var outboxWindow = 64
    /// Bytes of outbox entries offered to one partition and not yet acknowledged; one alone may be longer.
    public var offerBytesMax = 4 << 20
    /// Bytes of offered entries that wait until the journal has room for them; one frame may be longer.
    public var deferredBytesMax = 16 << 20
    /// Bytes of unacknowledged entries to one partition. Past them subscriptions to its topics do not change,
    /// and their devices do not end. Messages have their own bound: a project's unfinished fan-outs.
    public var outboxBytesMax = 64 << 20
    /// After this long an unacknowledged outbox entry is offered again.
    public var outboxRetry: TimeSpan = .seconds(1)
    /// The sender of a condition is answered after this long, without the partitions that are away. Google's
    /// Node SDK ends a send after 15 s (firebase-admin 13).
    public var conditionPatience: TimeSpan = .seconds(8)
    /// An outbox is stalled if its first entry waits longer than this though its receiver has an owner.
    public var outboxStallMax: TimeSpan = .seconds(30)
    /// About how many members one repair record may carry.
    public var repairSliceMembers = 50_000
    /// For this long after the beginning of a repair the same pair is not repaired again.
    public var repairInterval: TimeSpan = .seconds(60)
    /// Records whose bodies one read asks for, and bytes after which the rest waits for the next read.
    public var bodiesAtOnce = 32
    public var bodyBytesAtOnce = 1 << 20
    /// Bytes of waiting messages that a stream gets before the next stream has its turn. One message may be
    /// longer.
    public var streamBytesAtOnce = 64 << 10
    /// Frames to one gateway loop without confirmation, at which its live streams are cut off.
    public var pushWindow = 1024
    /// `StoredRules.requestWindow`, the most that a snapshot keeps; simulations draw less.
    public var requestWindow = StoredRules.requestWindow
    /// Cut-off streams of a gateway loop that read the log before the loop must confirm something.
    public var returningAtOnce = 256
    /// Bytes of recent bodies that are kept in memory.
    public var bodyCacheBytesMax = 4 << 20
    /// Messages of the partition that are at push services concurrently, and as many attempts for TTL-0
    /// messages.
    public var pushesAtOnce = 64
    /// Devices for which one event looks into the log.
    public var pushLooksAtOnce = 1024
    /// Attempts for TTL-0 messages that wait for a slot, and bytes of the messages that they are for.
    public var momentaryMax = 1 << 16
    public var momentaryBytesMax = 4 << 20
    /// Devices that an event looks at for a listing; the gateway asks for more.
    public var listedAtOnce = 100_000
    /// Devices whose newest accepted push, and whose newest failed one, a partition can report; and messages
    /// for which it can report the answers of push services.
    public var pushAttemptsMax = 256
    /// How long a device that listens may acknowledge a message before a push service gets it.
    public var pushGrace: TimeSpan = .seconds(5)
    /// Whether a device's stream goes on while its partition changes owners, as in a cluster.
    public var streamsOutliveOwners = false
    /// How long a new owner counts every device as a listener. The journal does not say which
    /// devices listen; gateways attach their streams at the new owner within this time.
    public var listenersReturn: TimeSpan = .seconds(10)
    /// Journal bytes after which a snapshot is due, at least: a larger snapshot waits for its own length.
    public var snapshotBytesMin = 8 << 20
    /// The greatest age of a change that no snapshot covers. Partitions take half of it to all of it.
    public var snapshotAge: TimeSpan = .seconds(21_600)
    /// Bytes of a snapshot that a slice makes, about 1 ms of work, and the time between two slices.
    public var snapshotSliceBytes = 64 << 10
    public var snapshotPause: TimeSpan = .milliseconds(2)
    /// Bytes of one part of a snapshot. No slice is made while twice as many bytes wait for the engine.
    public var snapshotPartBytes = 128 << 10
    /// How long the open record may wait while nobody waits for it.
    public var bookkeepingDelay: TimeSpan = .seconds(1)
    /// Days after which an unseen device ends (FCM: 270).
    public var deviceDaysMax: UInt16 = 270
    /// How long all addresses of a device may be gone before the device ends; `nil`: only `deviceDaysMax`
    /// ends it.
    public var unreachableMax: TimeSpan? = .seconds(7 * 86_400)
    /// So long after the first answer that a device is gone a second one, under the same settings, is
    /// believed though the service has taken nothing.
    public var wordsApart: TimeSpan = .seconds(86_400)
    /// For so long one owner must have heard such answers. A wrong clock is corrected meanwhile, which the
    /// owner notices.
    public var wordsHeardFor: TimeSpan = .seconds(3600)
    /// Of a project's devices in the process one in so many may get a mark that an address is gone in one
    /// day. The nodes of the project may give so many marks in any case, and each may give one. Words past
    /// that are held for so long, then looked at again.
    public var goneShare = 10
    public var goneFew = 3
    public var goneHold: TimeSpan = .seconds(3600)
    /// One in so many of a partition's devices, and at least one, may end in one day because nobody has seen
    /// it: the harm that a wrong clock can do unnoticed.
    public var sweptShare = 64

    #if DEBUG
        public var planted: PlantedBug = []
    #endif

    public init(partitionCount: Int) { self.partitionCount = partitionCount }

    /// The rule that these options break; `nil` if they break none.
    public var mistake: String? {
        let counts = [
            recordBytesMax, entryBytesMax, comparedAtOnce, recordsInFlightMax, outboxWindow, offerBytesMax,
            repairSliceMembers, bodiesAtOnce, bodyBytesAtOnce, streamBytesAtOnce, pushWindow,
            snapshotBytesMin, snapshotSliceBytes, snapshotPartBytes, sweptShare, pushesAtOnce,
            pushLooksAtOnce, momentaryMax, momentaryBytesMax, pushAttemptsMax, listedAtOnce, goneShare,
        ]
        if counts.contains(where: { $0 < 1 }) { return "each of the bounds must be at least 1" }
        if outboxRetry == .zero || deviceDaysMax == 0 {
            return "`outboxRetry` and `deviceDaysMax` must be longer than zero"
        }
        return delivery.mistake
    }
}
