import Model

/// A message for a device that a push service reaches. The loop's sender answers with a `PushReport`.
public struct PushJob: Sendable {
    /// Given by the partition's machine; another machine of the partition gives other numbers.
    public var number: UInt64
    public var project: ProjectNumber
    public var device: DeviceIndex
    public var transport: Transport
    /// When the device registered the address, and the address's generation.
    public var registered: WallTime
    public var generation: UInt64
    /// The body of the stream's event.
    public var event: [UInt8]
    /// When the message ends at this push service.
    public var expires: WallTime
    /// Best effort: one attempt, with a time to live of 0 at the service.
    public var isMomentary = false
    /// How often the message was tried in vain.
    public var tries: Int
    /// How many of these tries brought an answer that does not explain itself.
    public var unexplained = 0
    /// What the sender gave with the first answer that the device is gone; `nil` if there was none.
    public var witness: PushWitness?

    public init(
        number: UInt64, project: ProjectNumber, device: DeviceIndex, transport: Transport,
        registered: WallTime, generation: UInt64, event: [UInt8], expires: WallTime, tries: Int
    ) {
        self.number = number
        self.project = project
        self.device = device
        self.transport = transport
        self.registered = registered
        self.generation = generation
        self.event = event
        self.expires = expires
        self.tries = tries
    }
}

/// A push service as one project uses it. The services judge a project's key, so that messages of one project
/// to one service share a fate, and other projects' do not.
public struct PushOrigin: Hashable, Comparable, Sendable {
    public var project: ProjectNumber
    public var kind: Transport.Kind
    /// `Transport.origin`.
    public var name: [UInt8]

    public init(_ project: ProjectNumber, _ transport: Transport) {
        self.project = project
        kind = transport.kind
        name = transport.origin
    }

    public static func < (left: PushOrigin, right: PushOrigin) -> Bool {
        if left.project != right.project { return left.project < right.project }
        if left.kind != right.kind { return left.kind < right.kind }
        return left.name.lexicographicallyPrecedes(right.name)
    }
}

extension PushJob {
    public var origin: PushOrigin { PushOrigin(project, transport) }
}

/// What a sender knew of a service when the service first answered that a device is gone. The sender believes
/// a second such answer only if the service has taken other messages since (rule: one-word-ends-nothing).
public struct PushWitness: Hashable, Sendable {
    /// Names what the sender knows of the service: it begins again with other settings.
    public var era: UInt64
    /// When the first word came, by the clock of the sender.
    public var since: MonotonicTime
    public init(era: UInt64, since: MonotonicTime) {
        self.era = era
        self.since = since
    }
}

/// What became of a `PushJob`.
public struct PushReport: Sendable {
    public enum Result: Hashable, Sendable {
        /// The service has the message, or never takes it: the device does not wait for it any more.
        case done
        /// The address is of no use any more, and the sender has reasons to believe it.
        case gone
        /// The service says that the address is of no use, and nothing confirms this. The message is held,
        /// and tried again after this time with the witness. `isAlone`: the sender has lately heard that of
        /// no other device of the service.
        case doubted(after: TimeSpan, PushWitness, isAlone: Bool = true)
        /// To be tried again after this time. `isFailure`: the message was tried in vain.
        case later(after: TimeSpan, isFailure: Bool)
        /// Not tried: the service's circuit is open, or the service has enough messages, for this long.
        case closed(for: TimeSpan)
    }
    public var number: UInt64
    public var result: Result
    /// What the service answered, or why no answer came; `nil` if the message was not tried.
    public var outcome: PushOutcome?
    public init(number: UInt64, _ result: Result, outcome: PushOutcome? = nil) {
        self.number = number
        self.result = result
        self.outcome = outcome
    }

    /// If the service was not asked: how long the sender has no room, or keeps the service's circuit open.
    public var untriedFor: TimeSpan? {
        switch result {
        case .closed(let time): time
        case .later(let time, let isFailure): outcome == nil && !isFailure ? time : nil
        case .done, .gone, .doubted: nil
        }
    }
}
