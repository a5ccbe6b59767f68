import Model

/// What clients did and saw, in virtual time (nanoseconds). Checkers read this and nothing else.
public struct History: Sendable {
    public enum Outcome: Sendable, Hashable {
        case ok(at: UInt64)
        /// Refused: it changed nothing.
        case refused(at: UInt64)
        /// Not answered before the node crashed, or answered that it is not known.
        case unknown

        var isOK: Bool { if case .ok = self { true } else { false } }
    }
    public struct Change: Sendable {
        public var device: Int
        public var topic: Int
        public var subscribe: Bool
        public var began: UInt64
        public var outcome: Outcome
    }
    public struct Send: Sendable {
        public enum Target: Sendable, Hashable {
            case topic(Int)
            /// In the first and not in the second.
            case butNot(Int, Int)
            case device(Int)
        }
        public var message: UInt64
        public var target: Target
        public var key: String
        /// When its time to live is over, where that is within the run.
        public var expires: UInt64?
        public var began: UInt64
        public var outcome: Outcome
        /// Of its body.
        public var bytes = 0
        public var project = 1
    }
    public struct Delivery: Sendable {
        public var device: Int
        public var message: UInt64
        public var position: UInt64
        public var at: UInt64
        /// When the device opened the stream on which it came, where that is known.
        public var streamBegan: UInt64?
    }
    /// A device that is unregistered.
    public struct Ending: Sendable {
        public var began: UInt64
        /// When it was answered.
        public var ended: UInt64?
    }
    public struct Acknowledgement: Sendable {
        public var device: Int
        public var position: UInt64
        public var at: UInt64
    }
    /// A device was told that messages for it were dropped.
    public struct Telling: Sendable {
        public var device: Int
        public var at: UInt64
    }
    public var changes: [Change] = []
    public var sends: [Send] = []
    public var deliveries: [Delivery] = []
    /// Answered ones only.
    public var acknowledgements: [Acknowledgement] = []
    /// Devices that were told that messages were dropped, and when they last were.
    public var told: [Int: UInt64] = [:]
    public var tellings: [Telling] = []
    /// What each device is subscribed to when everything has settled.
    public var final: [Int: Set<Int>] = [:]
    /// Devices that were unregistered.
    public var gone: [Int: Ending] = [:]
    public var faults: [String] = []
    public init() {}
}
