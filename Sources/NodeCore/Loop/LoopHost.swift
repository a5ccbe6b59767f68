import Model
import Partitions
import Routing

/// What a loop's core asks while it handles something, and cannot hear as an event: the time right now, and
/// whether a device's stream can take a chunk.
public protocol LoopHost: StreamSink {
    /// The monotonic clock, read now. A process may have slept since the turn began.
    var monotonic: MonotonicTime { get }
    /// Until when nobody else can own what this node serves. A node on its own has no rivals and is not
    /// asked.
    var authority: MonotonicTime { get }
    /// How far another loop of the node is behind with what others have for it.
    func pressure(ofLoop loop: Int) -> Pressure
    /// How far another process is behind with what this loop has sent it.
    func pressure(ofPeer life: UInt32) -> Pressure
}

/// Sees what a loop's core does inside, for the simulator's checkers and for traces. A server has none.
open class LoopObserver {
    public init() {}

    /// The loop asks a partition's owner to carry out a request before the deadline.
    open func asks(_ partition: PartitionID, _ id: RequestID, _ request: Request, _ deadline: Deadline) {}
    /// Whoever was asked has replied, and an answer to this copy is still waited for.
    open func hears(_ reply: Reply, to id: RequestID) {}
    /// A project's clients were admitted so many more operations.
    open func admits(_ admitted: Admission.Admitted) {}
    /// The loop hands a request to the partition that it serves.
    open func carriesOut(_ id: RequestID) {}
    /// A law of the core does not hold.
    open func isBroken(_ law: String) {}
    /// A line of what happens.
    open func trace(_ line: @autoclosure () -> String) {}
}

#if DEBUG
    /// Bugs that are planted in a node's core to show that a checker sees them. Only in debug builds, and
    /// only where a simulation asks.
    public struct PlantedInNode: OptionSet, Sendable {
        public let rawValue: Int
        public init(rawValue: Int) { self.rawValue = rawValue }

        /// A new owner of buckets begins with full ones (rule: heirs-of-buckets-wait).
        public static let fullBuckets = PlantedInNode(rawValue: 1)
        /// A new owner of buckets does not wait until what the former one granted is void
        /// (rule: heirs-of-buckets-wait).
        public static let hastyBuckets = PlantedInNode(rawValue: 2)
        /// Streams are not told to a partition's new owner (rule: streams-outlive-owners).
        public static let forgetStreams = PlantedInNode(rawValue: 4)
        /// What was asked of a former owner is not asked again (rule: ask-the-next-owner).
        public static let forgetRequests = PlantedInNode(rawValue: 8)
        /// What is past its deadline is done nevertheless (rule: deadlines-travel).
        public static let ignoreDeadlines = PlantedInNode(rawValue: 16)
        /// What was asked of an owner is done by it when it is owner anew (rule: named-owner).
        public static let ignoreEpochs = PlantedInNode(rawValue: 32)
        /// A process that loses what was said to another does not tell it.
        public static let oweNothing = PlantedInNode(rawValue: 64)
        /// A suspicion is enough to fence (rule: leases-only-save-moves).
        public static let hastyFence = PlantedInNode(rawValue: 128)
        /// What belongs on another node is not given up (rule: partitions-go-where-they-belong).
        public static let keepPartitions = PlantedInNode(rawValue: 256)
        /// Who is far behind is asked and told as if it were not.
        public static let ignorePressure = PlantedInNode(rawValue: 512)
        /// A partition is given up again and again for no reason.
        public static let restless = PlantedInNode(rawValue: 1024)
    }
#endif
