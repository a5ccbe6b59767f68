import Model
import Partitions
import Routing

/// The questions that a loop's core asks in the middle of an event: the time right now, how far others are
/// behind, and whether a device's stream can take a chunk.
public protocol LoopHost: StreamSink {
    /// The monotonic clock, read now. A process may have slept since the turn began.
    var monotonic: MonotonicTime { get }
    /// The time until which no other node can own what this node serves; without end on a lone node.
    var authority: MonotonicTime { get }
    /// How far another loop of the node is behind with the messages for it.
    func pressure(ofLoop loop: Int) -> Pressure
    /// How far another process is behind with the frames of this loop.
    func pressure(ofPeer processID: ProcessID) -> Pressure
    /// The tally that all loops of the process share; one loop at a time uses it.
    func withGoneTally<Result: Sendable>(_ body: (inout GoneTally) -> Result) -> Result
}

/// Hook for checkers and traces. Not set in a server.
open class LoopObserver {
    public init() {}

    /// The loop asks a partition's owner to carry out a request before the deadline.
    open func asks(_ partition: PartitionID, _ id: RequestID, request: Request, deadline: Deadline) {}
    /// The process or loop that was asked has replied, and the router still waits for an answer to this copy.
    open func hears(_ reply: Reply, to id: RequestID) {}
    /// The router has admitted more operations of a project.
    open func admits(_ admitted: Admission.Admitted) {}
    /// The loop hands a request to the partition that it serves.
    open func carriesOut(_ id: RequestID) {}
    /// A partition that no other node can own hands a message to the loop's limiter, and the limiter answers.
    open func pushes(_ job: PushJob, of partition: Partition) {}
    open func pushed(_ report: PushReport, of partition: Partition) {}
    /// The loop's limiter sends a message, and gets a push service's answer.
    open func sends(_ job: PushJob) {}
    open func hears(_ outcome: PushOutcome, from origin: PushOrigin, isFormer: Bool) {}
    /// The services of these projects have changed, as the loop's limiter and then a partition's machine
    /// learn.
    open func reopens(_ projects: Set<ProjectNumber>) {}
    open func reopens(_ projects: Set<ProjectNumber>, at partition: Partition) {}
    /// An invariant of the core does not hold.
    open func isBroken(_ invariant: String) {}
    /// A line for the trace.
    open func trace(_ line: @autoclosure () -> String) {}
}

#if DEBUG
    /// Bugs that are planted in a node's core to show that a checker sees them. Only debug builds have them,
    /// and only a simulation switches them on.
    public struct PlantedInNode: OptionSet, Sendable {
        public let rawValue: Int
        public init(rawValue: Int) { self.rawValue = rawValue }

        /// A new owner of buckets begins with full ones (rule: heirs-of-buckets-wait).
        public static let fullBuckets = PlantedInNode(rawValue: 1)
        /// A new owner of buckets does not wait until the previous owner's grants are void
        /// (rule: heirs-of-buckets-wait).
        public static let hastyBuckets = PlantedInNode(rawValue: 2)
        /// Gateways do not attach their streams at a partition's new owner (rule: streams-outlive-owners).
        public static let forgetStreams = PlantedInNode(rawValue: 4)
        /// Gateways do not ask again what was under way at the previous owner (rule: ask-the-next-owner).
        public static let forgetRequests = PlantedInNode(rawValue: 8)
        /// An owner carries out a request past its deadline (rule: deadlines-travel).
        public static let ignoreDeadlines = PlantedInNode(rawValue: 16)
        /// An owner carries out a request that names another of its epochs (rule: named-owner).
        public static let ignoreEpochs = PlantedInNode(rawValue: 32)
        /// A process that lost frames to another process sends it no gap notice.
        public static let sayNoGaps = PlantedInNode(rawValue: 64)
        /// A suspicion is enough to fence (rule: leases-only-save-moves).
        public static let hastyFence = PlantedInNode(rawValue: 128)
        /// An owner keeps a partition that belongs on another node (rule: partitions-go-where-they-belong).
        public static let keepPartitions = PlantedInNode(rawValue: 256)
        /// A gateway asks an owner that is far behind as if it were not.
        public static let ignorePressure = PlantedInNode(rawValue: 512)
        /// A node gives a partition up again and again for no reason.
        public static let restless = PlantedInNode(rawValue: 1024)
        /// The limiter opens no circuit, however often a push service fails (rule: push-services-are-spared).
        public static let callFailing = PlantedInNode(rawValue: 2048)
        /// The limiter does not wait as long as a push service asks (rule: push-services-are-spared).
        public static let forgetRetryAfter = PlantedInNode(rawValue: 4096)
        /// The limiter sends to one push service as much as there is (rule: push-services-are-spared).
        public static let crowdOrigins = PlantedInNode(rawValue: 8192)
        /// The limiter takes answers to requests that left under earlier settings for answers to the present
        /// ones (rule: former-keys-say-nothing).
        public static let believeFormer = PlantedInNode(rawValue: 16384)
        /// The loop does not show its partitions which services refuse a project's key
        /// (rule: refused-keys-are-told).
        public static let hideRefusedKeys = PlantedInNode(rawValue: 32768)
        /// The limiter believes each answer of a push service that a device is gone
        /// (rule: one-word-ends-nothing).
        public static let believeWords = PlantedInNode(rawValue: 65536)
        /// A loop believes processes that speak for partitions which they do not own
        /// (rule: owners-acknowledge).
        public static let believeStrangers = PlantedInNode(rawValue: 131_072)
        /// Origins that have taken nothing yet hold as many places as there are
        /// (rule: push-services-are-spared).
        public static let crowdUnproven = PlantedInNode(rawValue: 262_144)
        /// A lone node believes its first reading whatever its last run believed
        /// (rule: wall-time-is-a-witness).
        public static let believeFirstClock = PlantedInNode(rawValue: 524_288)
        /// The limiter takes one answer that does not explain itself for a refusal of its message
        /// (rule: one-word-ends-nothing).
        public static let refuseSoon = PlantedInNode(rawValue: 1_048_576)
    }
#endif
