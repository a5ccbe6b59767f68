import Model
import Partitions
import Quotas
import Routing

/// The settings of a loop, fixed for its lifetime.
public struct LoopOptions: Sendable {
    public var number = 0
    public var map: NodeMap
    public var session: SessionID
    /// The process id, 24 bits; 0 on a node of its own.
    public var processID = ProcessID(0)
    public var isClustered = false
    /// By partition number.
    public var histories: [History]
    /// The epoch in which the session owns each partition, by partition number, where it owns them from the
    /// start.
    public var epochs: [Epoch]
    public var partition: PartitionOptions
    public var routing = RouterBounds()
    public var bounds = LoopBounds()
    public var quotas = QuotaBounds()
    public var deviceLimiter = DeviceLimiter()
    public var pushes = PushBounds()
    /// The push services of each project that has settings for some; `nil` where nobody tells, and every
    /// project counts as having all.
    public var pushServices: [ProjectNumber: PushServices]?
    /// On a node of its own: the tokens that its former process left in the buckets, and when this process
    /// began.
    public var formerQuotas = FormerQuotas()
    /// On a node of its own: the newest wall time that a former process has believed.
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

    /// The first law of the bounds that does not hold; `nil` where all do.
    var mistake: String? { partition.mistake ?? quotas.mistake }

    var gateway: GatewayID { GatewayID(processID: processID, loop: number) }
    /// The histories in event ids: they change when the engine may have lost its end.
    var eventHistories: [History] { histories.map { History($0.rawValue &+ partition.generation) } }
}
