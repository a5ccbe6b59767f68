import Model
import Partitions
import Quotas
import Routing

/// The settings of a loop, fixed for its lifetime.
public struct LoopOptions: Sendable {
    public var number = 0
    public var map: NodeMap
    public var session: SessionID
    /// The process id, 24 bits; 0 on a lone node.
    public var processID = ProcessID(0)
    public var isClustered = false
    /// By partition number.
    public var histories: [History]
    /// The epoch in which the session owns each partition, by partition number, if it owns them from the
    /// start.
    public var epochs: [Epoch]
    public var partition: PartitionOptions
    public var routing = RouterBounds()
    public var bounds = LoopBounds()
    public var quotas = QuotaBounds()
    public var deviceLimiter = DeviceLimiter()
    public var pushes = PushBounds()
    /// The push services of each project that has settings for some; `nil` if unknown, and every project
    /// counts as having all.
    public var pushServices: [ProjectNumber: PushServices]?
    /// On a lone node: the tokens that its previous process left in the buckets, and when this process began.
    public var formerQuotas = FormerQuotas()
    /// The newest wall time that an earlier process, or another node of the cluster, has believed.
    public var clockWitness: WallTime?
    public var started = MonotonicTime.zero
    #if DEBUG
        public var planted: PlantedInNode = []
    #endif

    public init(map: NodeMap, session: SessionID, histories: [History], partition: PartitionOptions) {
        self.map = map
        self.session = session
        self.histories = histories
        self.partition = partition
        epochs = Array(repeating: Epoch(0), count: map.partitionCount)
    }

    /// The first invariant of the bounds that does not hold; `nil` if all do.
    var mistake: String? {
        if bounds.readBytesAtOnce < 1 { return "`readBytesAtOnce` must be at least 1" }
        return partition.mistake ?? quotas.mistake
    }

    /// The time with which the loop compares its first reading; a planted bug leaves it out.
    var comparedWitness: WallTime? {
        #if DEBUG
            if planted.contains(.believeFirstClock) { return nil }
        #endif
        return clockWitness
    }

    var gateway: GatewayID { GatewayID(processID: processID, loop: number) }
    /// The histories in event ids: they change when the engine may have lost its end.
    var eventHistories: [History] { histories.map { History($0.rawValue &+ partition.generation) } }
}
