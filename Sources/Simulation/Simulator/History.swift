import Model

/// What clients did and saw, in virtual time. Checkers read this and nothing else.
public struct History: Sendable {
    public enum Outcome: Sendable, Hashable {
        case ok(at: MonotonicTime)
        /// The operation was refused, and changed nothing.
        case refused(at: MonotonicTime)
        /// No answer came before the node crashed, or the answer says that the outcome is not known.
        case unknown

        var isOK: Bool { if case .ok = self { true } else { false } }
    }
    public struct Change: Sendable {
        public var device: Int
        public var topic: Int
        public var subscribe: Bool
        public var began: MonotonicTime
        public var outcome: Outcome
    }
    public struct Send: Sendable {
        public enum Target: Sendable, Hashable {
            case topic(Int)
            /// Devices in the first topic that are not in the second.
            case butNot(Int, Int)
            /// Devices in one of the topics, or in both.
            case either(Int, Int)
            case device(Int)
        }
        public var message: UInt64
        public var target: Target
        public var key: String
        /// When the message ends on streams, if that is within the run.
        public var expires: MonotonicTime?
        /// When the message ends at each kind of push service, if that is within the run: by the clock of the
        /// world, and by wall clocks unless its time to live is 0.
        public var pushExpires: [Transport.Kind: MonotonicTime] = [:]
        public var pushEnds: [Transport.Kind: WallTime] = [:]
        /// Whether the message waits on streams, and at which push services, for as long as the run.
        public var waitsOnStreams = true
        public var waitsAt = Set(Transport.Kind.allCases)
        public var began: MonotonicTime
        public var outcome: Outcome
        /// Bytes of the message's body.
        public var bytes = 0
        public var project = 1
    }
    public struct Delivery: Sendable {
        public var device: Int
        public var message: UInt64
        public var position: UInt64
        public var at: MonotonicTime
        /// When the device opened the stream of this delivery, if that is known.
        public var streamBegan: MonotonicTime?
        /// The push service that took the message.
        public var service: Transport.Kind?
    }
    /// The unregistration of a device.
    public struct Ending: Sendable {
        public var began: MonotonicTime
        /// When the unregistration was answered.
        public var ended: MonotonicTime?
    }
    public struct Acknowledgement: Sendable {
        public var device: Int
        public var position: UInt64
        public var at: MonotonicTime
    }
    /// A device was notified that messages for it were dropped.
    public struct Telling: Sendable {
        public var device: Int
        public var at: MonotonicTime
    }
    public var changes: [Change] = []
    public var sends: [Send] = []
    public var deliveries: [Delivery] = []
    /// What a push service has taken for a device.
    public var pushes: [Delivery] = []
    /// Acknowledgements that were answered.
    public var acknowledgements: [Acknowledgement] = []
    /// Devices that were notified of dropped messages, and when they were notified last.
    public var told: [Int: MonotonicTime] = [:]
    public var tellings: [Telling] = []
    /// The topics of each device when everything has settled.
    public var final: [Int: Set<Int>] = [:]
    /// Devices that were unregistered.
    public var gone: [Int: Ending] = [:]
    public var faults: [String] = []
    private var oldNews: [Push: Int] = [:]
    private var unexplained: [Push: Int] = [:]
    private struct Push: Hashable {
        var device: Int
        var message: UInt64
    }
    public init() {}

    /// Apple has answered a message with the end of an earlier registration.
    mutating func noteOldNews(of message: UInt64, to device: Int) {
        oldNews[Push(device: device, message: message), default: 0] += 1
    }

    /// How often Apple has answered so.
    func oldNews(of message: UInt64, to device: Int) -> Int {
        oldNews[Push(device: device, message: message)] ?? 0
    }

    /// A service has answered a message with what explains nothing.
    mutating func noteUnexplained(_ message: UInt64, to device: Int) {
        unexplained[Push(device: device, message: message), default: 0] += 1
    }

    /// How often services have answered so.
    func unexplained(_ message: UInt64, to device: Int) -> Int {
        unexplained[Push(device: device, message: message)] ?? 0
    }
}
