/// The bounds of deliveries, each with its reason. What a record does to the log depends on them: they are
/// the same on all nodes, for as long as the data lives.
public struct DeliveryLimits: Hashable, Sendable {
    /// Messages without a collapse key that wait for an absent device (FCM: 100, past which all are dropped
    /// and the device is told).
    public var waitingMax: UInt16 = 100
    /// Distinct collapse keys that wait for one device (FCM: 4).
    public var collapsibleMax: UInt8 = 4
    /// A listening device's unacknowledged messages are passed in steps, so that the cost is shared by many
    /// messages: at `waitingMax + passDepth` the `passDepth` oldest pass as delivered.
    public var passDepth: UInt16 = 64
    /// What not even a listening device may exceed, if its gateway has not confirmed writing the oldest.
    public var waitingHardMax: UInt16 = 1000
    /// What a device may have unacknowledged whose stream cannot take more for now: as many as wait for one
    /// that is away, beside what was written to it.
    var behindMax: Int { min(Int(waitingHardMax), 2 * Int(waitingMax) + Int(passDepth)) }
    /// Topics that one device may be subscribed to (FCM: 2,000).
    public var topicsPerDeviceMax = DeliveryLimits.topicsStoredMax

    /// What a snapshot may say of one device.
    static let topicsStoredMax = 2000

    public init() {}

    /// What must hold of them, if it does not.
    public var mistake: String? {
        if waitingMax < 1 || collapsibleMax < 1 || passDepth < 1 { return "one is the least of everything" }
        // Else a listening device would lose what passes for others.
        if Int(waitingMax) + Int(passDepth) > Int(waitingHardMax) {
            return "what a listening device has been handed passes before it is dropped"
        }
        if !(1...DeliveryLimits.topicsStoredMax).contains(topicsPerDeviceMax) {
            return "a snapshot has room for a device's topics"
        }
        return nil
    }
}

public struct PartitionOptions: Sendable {
    /// The number of partitions that the data was made with.
    public var partitionCount: Int
    public var delivery = DeliveryLimits()
    /// Bytes of an open record past which it is closed though another is in flight.
    public var recordBytesMax = 1 << 20
    /// Bytes that one record may put into one outbox, past which it is closed as well: a record of the sender
    /// makes larger ones at its receivers, where each message stands with all of its targets.
    public var entryBytesMax = 2 << 20
    /// Rises when the engine may have lost its end: event ids of before are not believed any more.
    public var generation: UInt64 = 0
    /// Databases over which the partitions are spread: one of them may lose its end alone, and then the two
    /// ends of a pair do not fit together.
    public var databaseCount = 1
    /// Device indices that are left out when the engine may have lost its end: a topic elsewhere may still
    /// have those that are forgotten here.
    public var indicesLeftOut: UInt32 = 1 << 16
    /// Pairs that are compared at once after that.
    public var comparedAtOnce = 256
    /// Records offered to the journal and not yet durable, past which requests are refused.
    public var recordsInFlightMax = 8
    /// Bytes of waiting bodies that one project may have in this partition.
    public var waitingBytesMax: UInt64 = 256 << 20
    /// Outbox entries offered to one partition and not yet acknowledged.
    public var outboxWindow = 64
    /// Bytes of outbox entries offered to one partition and not yet acknowledged, but for the first of them.
    public var offerBytesMax = 4 << 20
    /// Bytes of offered entries that are kept until the journal has room for them.
    public var deferredBytesMax = 16 << 20
    /// Bytes of entries to one partition that it has not acknowledged, past which changes of subscriptions to
    /// its topics are refused. Messages have a bound of their own: the unfinished fan-outs of a project.
    public var outboxBytesMax = 64 << 20
    /// Nanoseconds after which an unacknowledged outbox entry is offered again.
    public var outboxRetry: UInt64 = .seconds(1)
    /// Members in one record of those that tell a pair again, about.
    public var repairSliceMembers = 50_000
    /// Nanoseconds within which a pair that differs again is not told again.
    public var repairInterval: UInt64 = .seconds(60)
    /// Records whose bodies are read at once, and bytes after which the rest of them waits for another time.
    public var bodiesAtOnce = 32
    public var bodyBytesAtOnce = 1 << 20
    /// Frames to one gateway that it has not confirmed, past which its streams fall behind.
    public var pushWindow = 1024
    /// By how many of the last numbers of a gateway loop's sends a repeat is known, no more than a snapshot
    /// keeps of them (1,024). Gateways ask again within half of it (`Router.Options.requestWindow`), so it is
    /// the same on every node.
    public var requestWindow = 1024
    /// Of those that were cut off from a gateway, how many read the log before it must confirm something.
    public var returningAtOnce = 256
    /// Bytes of recent bodies that are kept in memory.
    public var bodyCacheBytesMax = 4 << 20
    /// Whether a device's stream goes on while its partition changes owners: in a cluster.
    public var streamsOutliveOwners = false
    /// Nanoseconds for which a new owner takes everybody for a listener: what it reads does not say who
    /// listens, and those who do are told to it within that.
    public var listenersReturn: UInt64 = .seconds(10)
    /// Journal bytes after which a snapshot is due, at least.
    public var snapshotBytesMin = 8 << 20
    /// Bytes of a snapshot that are made in one go, about a millisecond's work, and nanoseconds between two.
    public var snapshotSliceBytes = 64 << 10
    public var snapshotPause: UInt64 = .milliseconds(2)
    /// Bytes of a snapshot that the engine is given at once; no more than twice as many wait for it.
    public var snapshotPartBytes = 128 << 10
    /// Nanoseconds after which a record of bookkeeping alone is written.
    public var bookkeepingDelay: UInt64 = .seconds(1)
    /// Days after which an unseen device ends (FCM: 270).
    public var deviceDaysMax: UInt16 = 270
    /// Devices that may end in one day because they were not seen, or a share of all where that is more: what
    /// a clock that is wrong without anybody's noticing can do.
    public var sweptDayMax = 1000
    public var sweptShare = 64

    #if DEBUG
        public var planted: Planted = []
    #endif

    public init(partitionCount: Int) { self.partitionCount = partitionCount }

    /// What must hold of them, if it does not.
    public var mistake: String? {
        let counts = [
            recordBytesMax, entryBytesMax, comparedAtOnce, recordsInFlightMax, outboxWindow, offerBytesMax,
            repairSliceMembers, bodiesAtOnce, bodyBytesAtOnce, pushWindow, snapshotBytesMin,
            snapshotSliceBytes, snapshotPartBytes, sweptDayMax, sweptShare,
        ]
        if counts.contains(where: { $0 < 1 }) { return "one is the least of everything" }
        if outboxRetry == 0 || deviceDaysMax == 0 { return "what is done again takes some time" }
        return delivery.mistake
    }
}
