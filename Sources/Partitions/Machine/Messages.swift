import Journal
import Model

// What goes into a partition and comes out of it. Everything is a value that may cross loops or, later, a
// network.

/// A gateway loop: what holds device streams and asks on behalf of clients.
public struct GatewayID: Hashable, Sendable {
    public let rawValue: UInt32
    public init(_ rawValue: UInt32) { self.rawValue = rawValue }
}

/// Where an answer goes.
public struct RequestID: Hashable, Sendable {
    public var gateway: GatewayID
    public var number: UInt64
    public init(gateway: GatewayID, number: UInt64) {
        self.gateway = gateway
        self.number = number
    }
}

/// A device's stream. Frames for it name the attachment that they belong to: what was said to an earlier one
/// is not for this one, which its partition may not hold for up to date.
public struct StreamID: Hashable, Sendable {
    public var gateway: GatewayID
    public var number: UInt64
    /// Rises each time that the stream is told to its partition.
    public var turn: UInt32

    public init(gateway: GatewayID, number: UInt64, turn: UInt32 = 1) {
        self.gateway = gateway
        self.number = number
        self.turn = turn
    }

    func isSameStream(as other: StreamID) -> Bool { gateway == other.gateway && number == other.number }
}

/// On whose word an operation on a device is done.
public enum Authority: Hashable, Sendable {
    /// A backend with authority over the project, or an operator.
    case backend
    /// The device itself, by its credential.
    case device(DeviceProof)
}

public enum Request: Sendable {
    /// A device for `project`, unless the project has `limit` devices here already.
    case register(project: ProjectNumber, limit: Int, nonce: UInt32, secret: UInt64)
    case change(ChangeKind, project: ProjectNumber, topic: TopicName, devices: [Registration], by: Authority)
    case subscriptions(of: Registration, by: Authority)
    case unregister(Registration, by: Authority)
    case acknowledge(Registration, by: Authority, EventID)
    case sendToTopic(RequestKey?, project: ProjectNumber, TopicName, Envelope, fanoutsMax: Int)
    case sendToCondition(RequestKey?, project: ProjectNumber, Condition, Envelope, fanoutsMax: Int)
    case sendToDevice(RequestKey?, Registration, Envelope)
    /// Everything is looked at, nothing is done.
    case check(Registration, by: Authority)
    case members(project: ProjectNumber, TopicName)
    case topics(project: ProjectNumber, after: UInt64, limit: Int)
    case devices(project: ProjectNumber, after: UInt64, limit: Int)

    public enum ChangeKind: Hashable, Sendable { case subscribe, unsubscribe }

    /// Bytes that it keeps besides a fixed few, about.
    public var weight: Int {
        switch self {
        case .sendToTopic(_, _, _, let message, _), .sendToCondition(_, _, _, let message, _),
            .sendToDevice(_, _, let message):
            message.event.count
        case .change(_, _, _, let devices, _): devices.count * 24
        default: 0
        }
    }
}

public enum Reply: Sendable {
    case accepted(MessageID)
    /// One for each device of the request, in its order.
    case changes([DeviceChange])
    case subscriptions([(topic: TopicName, since: Day)])
    case registered(index: DeviceIndex, nonce: UInt32, secret: UInt64)
    /// The project has as many devices here as the request allows, or more: this many.
    case full(holding: Int)
    case done
    case members(UInt64)
    case topics([(name: TopicName, members: UInt64)], next: UInt64?)
    case devices([DeviceState], next: UInt64?)
    case refused(PartitionRefusal)
    /// To a condition's question: a topic's members.
    case memberSets([PartitionTargets])
}

public enum DeviceChange: Hashable, Sendable {
    case changed(Day)
    /// It was so already; subscribed since that day.
    case unchanged(Day?)
    case refused(PartitionRefusal)
}

public struct DeviceState: Sendable {
    public var index: DeviceIndex
    public var nonce: UInt32
    public var lastSeen: Day
    public var topicCount: Int
    public var waitingCount: Int
}

public enum PartitionRefusal: Error, Hashable, Sendable {
    case unregistered
    case invalidToken
    case wrongCredential
    case tooManyTopics
    /// The project has this many unfinished fan-outs in the partition already.
    case tooManyFanouts(limit: Int)
    /// The partition has no index left for new devices.
    case indicesUsedUp
    /// Not done; safe to repeat.
    case unavailable(String)
    /// The fate of a send is not known.
    case unknown
    /// The node that was asked does not own the partition: nothing was done, another is to be asked.
    case moved
    /// It was asked before it gave the partition away, and may have done it: the next owner, asked under the
    /// same number, knows.
    case handedOver
}

/// Outbox entries in order. Without entries it asks for the receiver's mark.
public struct OutboxFrame: Sendable {
    /// What a receiver that knew the sender in a generation before this one has up to the number is so still;
    /// what came behind it was lost since.
    struct Cut: Hashable, Sendable {
        var generation: UInt64
        var kept: Sequence
    }
    public var from: PartitionID
    public var history: History
    /// The sender's, and what it has lost in coming to it.
    var generation: UInt64 = 0
    var cuts: [Cut] = []
    /// The receiver has told that it has everything up to here.
    var floor = Sequence.zero
    public var entries: [OutboxEntry]

    public var weight: Int { entries.reduce(0) { $0 + $1.weight } }
}

/// How far a receiver has durably applied an outbox.
public struct OutboxAcknowledgement: Sendable {
    public var from: PartitionID
    /// The history and the generation of the sender for which the mark holds.
    public var history: History
    var generation: UInt64 = 0
    public var mark: Sequence
    /// XOR over the pair's members as the receiver has them at the mark.
    public var fingerprint: UInt64
}

/// C asks the owner of one of a condition's topics for its members.
public struct ConditionQuestion: Hashable, Sendable {
    var asker: PartitionID
    var ticket: ConditionTicket
    var place: Int
    var project: ProjectNumber
    var topic: TopicName
}

public struct ConditionAnswer: Sendable {
    var ticket: ConditionTicket
    var place: Int
    var members: [PartitionTargets]
}

// MARK: Streams

public enum StreamCommand: Sendable {
    /// `resume` is the client's `Last-Event-ID`: everything up to it is acknowledged.
    case attach(StreamID, Registration, by: Authority, resume: EventID?)
    case detach(StreamID, DeviceIndex)
    /// The stream could not take an event; it has written everything up to `written`.
    case fellBehind(StreamID, DeviceIndex, written: Position)
    /// It can take events again.
    case caughtUp(StreamID, DeviceIndex)
    /// Every frame up to this one was handed to its streams, or they were reported as behind before.
    case processed(GatewayID, frame: UInt64)
}

/// To one gateway, in order. Frames with deliveries are numbered for each (partition, gateway), and name the
/// epoch of the machine that says it: what another machine of the partition pushes is not for streams that it
/// does not know.
public enum StreamFrame: Sendable {
    /// The credential fits; what is waiting behind `from` comes next.
    case attached(StreamID, DeviceIndex, Epoch, from: Position)
    case refused(StreamID, PartitionRefusal)
    /// Another stream of the same device took its place.
    case replaced(StreamID, DeviceIndex)
    /// The device is gone.
    case ended(StreamID, DeviceIndex)
    /// What waited for one device behind `after`; `deleted` says that older messages were dropped. Without
    /// either it says that nothing more waits: from here on the stream is live, and pushes are for it too.
    case events(StreamID, DeviceIndex, Epoch, after: Position, deleted: Position?, [Event])
    case push(Push)
    /// From here on these of the gateway's devices are pushed nothing: their streams are not live until they
    /// are told so anew. Numbered like a push, so that its loss is noticed like one.
    case cutOff(CutOff)

    /// Bytes that it keeps besides a fixed few, about.
    public var weight: Int {
        switch self {
        case .events(_, _, _, _, _, let events): events.reduce(0) { $0 + 32 + $1.event.count }
        case .push(let push): push.items.reduce(0) { $0 + 64 + $1.event.count }
        default: 0
        }
    }

    public struct Event: Sendable {
        public var position: Position
        public var event: [UInt8]
        public init(position: Position, event: [UInt8]) {
            self.position = position
            self.event = event
        }
    }
    public struct Push: Sendable {
        public var epoch: Epoch
        public var number: UInt64
        public var items: [PushItem]
    }
    public struct CutOff: Sendable {
        public var epoch: Epoch
        public var number: UInt64
        /// Of the last push before it.
        public var position: Position
        public var devices: DeviceSet
    }
    public struct PushItem: Sendable {
        public var position: Position
        public var event: [UInt8]
        public var targets: DeviceSet
        /// Those of the targets that are told first, as `position - 1`, that older messages were dropped.
        public var deleted: DeviceSet
    }
}

// MARK: Events and effects

public enum PartitionEvent: Sendable {
    case request(RequestID, Request)
    case offered(OutboxFrame)
    case acknowledged(OutboxAcknowledgement)
    case asked(ConditionQuestion)
    case told(ConditionAnswer)
    case stream(StreamCommand)
    /// The journal holds this record.
    case appended(Sequence)
    /// The engine refuses records of this partition: what is in flight waits, and is appended again.
    case postponed(String)
    /// More records wait for the engine than should: nothing new until this one is in.
    case crowded(Sequence)
    /// The session was seen alive after the question with this token.
    case confirmed(UInt64)
    /// The bodies of records that were asked for.
    case records(RecordBodies, token: UInt64)
    /// The part is stored, under the upload of this number.
    case snapshotPart(upload: UInt64, token: UInt64)
    case snapshotFailed(token: UInt64)
    /// At the time for which that was asked.
    case woke(MonotonicTime)
}

/// `append`, `confirm`, `readRecords`, `writeSnapshot`, `trim` and `wake` are for the partition's own shell
/// and may go at once; whatever goes to others is `Proven`.
public enum PartitionEffect: Sendable {
    case append(Sequence, body: [UInt8])
    case confirm(UInt64)
    /// One at a time.
    case readRecords([Sequence], bytesMax: Int, token: UInt64)
    case writeSnapshot(covering: Sequence, SnapshotPart, token: UInt64)
    /// Records below are not needed any more, but for those in `keeping`, whose bodies somebody waits for.
    case trim(below: Sequence, keeping: [Sequence])
    case wake(at: MonotonicTime)
    case reply(RequestID, Proven<Reply>)
    case offer(to: PartitionID, Proven<OutboxFrame>)
    case acknowledge(to: PartitionID, Proven<OutboxAcknowledgement>)
    case ask(of: PartitionID, Proven<ConditionQuestion>)
    case tell(PartitionID, Proven<ConditionAnswer>)
    case stream(GatewayID, Proven<StreamFrame>)
    /// Both ends of a pair count different members.
    case fingerprintsDiffer(with: PartitionID)
    /// For the operator.
    case notice(PartitionNotice)
}

/// What an operator should know of a partition.
public enum PartitionNotice: Hashable, Sendable {
    /// The bodies of so many messages that somebody waited for are not in the journal any more.
    case bodiesGone(Int)
    /// The wall clock is ahead by so much of where it should be, or behind: nothing expires, and no device
    /// ends, until it agrees again or is vouched for.
    case clockLeapt(milliseconds: Int64)
    case clockAgrees
    /// The engine refuses the partition's records, which wait; and it takes them again.
    case journalRefuses(String)
    case journalTakes
}
