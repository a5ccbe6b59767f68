import Journal
import Model

// What goes into a partition and comes out of it. Everything is a value that may cross loops or a network.

/// A gateway loop: it holds device streams and asks partitions for its clients.
public struct GatewayID: Hashable, Sendable {
    /// As frames carry the gateway: 24 bits name the process, 8 bits the loop.
    public let rawValue: UInt32
    public init(_ rawValue: UInt32) { self.rawValue = rawValue }

    public init(processID: ProcessID, loop: Int) { rawValue = processID.rawValue << 8 | UInt32(loop) }
    public var processID: ProcessID { ProcessID(rawValue >> 8) }
    /// The loop's number in its process.
    public var loop: Int { Int(rawValue & 0xFF) }
}

/// Names a request, and the gateway loop to which the answer goes.
public struct RequestID: Hashable, Sendable {
    public var gateway: GatewayID
    public var number: UInt64
    public init(gateway: GatewayID, number: UInt64) {
        self.gateway = gateway
        self.number = number
    }
}

/// A device's stream in one attachment. A frame for an earlier attachment is not for a later one, because the
/// partition may not hold the later attachment for up to date (rule: one-state-on-two-sides).
public struct StreamID: Hashable, Sendable {
    public var gateway: GatewayID
    public var number: UInt64
    /// Rises each time that the gateway attaches the stream at its partition.
    public var attachment: UInt32

    public init(gateway: GatewayID, number: UInt64, attachment: UInt32 = 1) {
        self.gateway = gateway
        self.number = number
        self.attachment = attachment
    }

    func isSameStream(as other: StreamID) -> Bool { gateway == other.gateway && number == other.number }
}

/// The authority under which an operation on a device is done.
public enum Authority: Hashable, Sendable {
    /// A backend with authority over the project, or an operator.
    case backend
    /// The device itself, by its credential.
    case device(DeviceMAC)
}

public enum Request: Sendable {
    /// Registers a device for `project`, unless the project already has `limit` devices here.
    case register(project: ProjectNumber, limit: Int, nonce: UInt32, secret: UInt64)
    case change(ChangeKind, project: ProjectNumber, topic: TopicName, devices: [Registration], by: Authority)
    case subscriptions(of: Registration, by: Authority)
    /// Whether the device is subscribed to the topic: answered as `subscriptions`, with that topic alone.
    case subscription(of: Registration, to: TopicName, by: Authority)
    case unregister(Registration, by: Authority)
    /// Ends the device if it has no topic and no stream, as its owner sees that when the request comes.
    /// Answered with `.done` also if the device stays.
    case unregisterUnused(Registration, by: Authority)
    case acknowledge(Registration, by: Authority, EventID)
    case sendToTopic(RequestKey?, project: ProjectNumber, TopicName, Envelope, fanoutsMax: Int)
    case sendToCondition(RequestKey?, project: ProjectNumber, Condition, Envelope, fanoutsMax: Int)
    case sendToDevice(RequestKey?, Registration, Envelope)
    /// Checks everything and does nothing.
    case check(Registration, by: Authority)
    /// The device's address at a push service, in place of an earlier address of the same kind.
    case setTransport(Registration, by: Authority, Transport)
    /// No push service of this kind reaches the device any more.
    case endTransport(Registration, by: Authority, Transport.Kind)
    case device(Registration, by: Authority)
    case members(project: ProjectNumber, TopicName)
    case topics(project: ProjectNumber, after: UInt64, limit: Int)
    case devices(project: ProjectNumber, after: UInt64, limit: Int)
    /// How push services have answered to a message.
    case pushes(project: ProjectNumber, of: MessageID)

    public enum ChangeKind: Hashable, Sendable { case subscribe, unsubscribe }

    /// About how many bytes the request keeps, beyond a fixed few.
    public var weight: Int {
        switch self {
        case .sendToTopic(_, _, _, let message, _), .sendToCondition(_, _, _, let message, _),
            .sendToDevice(_, _, let message):
            message.event.count
        case .change(_, _, _, let devices, _): devices.count * 24
        case .setTransport(_, _, let transport): transport.address.count
        default: 0
        }
    }
}

public enum Reply: Sendable {
    case accepted(MessageID)
    /// One for each device of the request, in its order.
    case changes([DeviceChange])
    case subscriptions([(topic: TopicName, since: Day)])
    /// The same of a device that push services reach, by these.
    case reachable([(topic: TopicName, since: Day)], by: [Transport.Kind])
    case registered(index: DeviceIndex, nonce: UInt32, secret: UInt64)
    /// The project already has at least as many devices here as the request allows: this many.
    case full(holding: Int)
    case done
    case members(UInt64)
    case topics([(name: TopicName, members: UInt64)], next: UInt64?)
    case devices([DeviceState], next: UInt64?)
    case device(DeviceState, [StoredTransport], pushes: [PushHistory] = [])
    case pushes([PushTally])
    case refused(PartitionRefusal)
    /// The answer to a condition's question: the devices of one partition.
    case matching(DeviceSet)
}

public enum DeviceChange: Hashable, Sendable {
    case changed(Day)
    /// Already subscribed, since that day; `nil`: already not subscribed.
    case unchanged(Day?)
    case refused(PartitionRefusal)
}

public struct DeviceState: Sendable {
    public var index: DeviceIndex
    public var nonce: UInt32
    public var lastSeen: Day
    public var topicCount: Int
    public var waitingCount: Int
    public init(
        index: DeviceIndex, nonce: UInt32, lastSeen: Day, topicCount: Int, waitingCount: Int
    ) {
        self.index = index
        self.nonce = nonce
        self.lastSeen = lastSeen
        self.topicCount = topicCount
        self.waitingCount = waitingCount
    }
}

extension DeviceState {
    init(of index: UInt32, on page: DevicePage, at slot: Int) {
        self.init(
            index: DeviceIndex(index), nonce: page.nonces[slot], lastSeen: Day(page.seen[slot]),
            topicCount: page.topics[slot].count,
            waitingCount: Int(page.waiting[slot]) + Int(page.collapsible[slot]))
    }
}

public enum PartitionRefusal: Error, Hashable, Sendable {
    case unregistered
    case invalidToken
    case wrongCredential
    /// The device has as many topics as it may have, or the project as many names of topics (`TopicBounds`).
    case tooManyTopics
    /// The project has this many unfinished fan-outs in the partition already.
    case tooManyFanouts(limit: Int)
    /// The partition has no index left for new devices.
    case indicesUsedUp
    /// Only push services reach the device, and these refuse the project's key. Nothing was done.
    case pushKeyRefused
    /// Not done; safe to repeat.
    case unavailable(String)
    /// The fate of a send is not known.
    case unknown
    /// The node does not own the partition and has done nothing: the gateway must ask another node.
    case moved
    /// The owner got the request before it gave the partition away, and may have carried it out. The next
    /// owner knows, if the gateway asks it under the same number.
    case handedOver
}

/// Outbox entries in order. A frame without entries asks for the receiver's mark.
public struct OutboxFrame: Sendable {
    /// For a receiver whose mark is of a generation before `generation`: the entries up to `kept` are still
    /// there, and the sender has lost the entries behind since.
    struct Cut: Hashable, Sendable {
        var generation: UInt64
        var kept: Sequence
    }
    public var from: PartitionID
    public var history: History
    /// The sender's generation, and what the sender has lost on the way to it.
    var generation: UInt64 = 0
    var cuts: [Cut] = []
    /// The receiver has said that it has everything up to here.
    var floor = Sequence.zero
    /// The receiver has sent this mark, and the sender has never made an entry of this number.
    var denied: ToldMark?
    /// The sender's wall clock when it made the frame: the messages of the entries are dated by it.
    public var clock: WallTime
    /// Since when the frame's way counts, by the receiver's monotonic clock; `nil` for a way that does not.
    public var underWaySince: MonotonicTime?
    public var entries: [OutboxEntry]

    public var weight: Int { entries.reduce(0) { $0 + $1.weight } }
}

/// A receiver's mark by the names of what it counts.
struct ToldMark: Hashable, Sendable {
    var history: History
    var generation: UInt64
    var number: Sequence
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

extension OutboxFrame {
    /// The acknowledgement by `receiver` of all that the frame offers; `nil` for a frame without entries.
    public func acknowledgement(by receiver: PartitionID) -> OutboxAcknowledgement? {
        entries.last.map {
            OutboxAcknowledgement(
                from: receiver, history: history, generation: generation, mark: $0.number,
                fingerprint: $0.fingerprint)
        }
    }
}

/// The coordinator asks the owner of a device partition for which of its devices a condition holds.
public struct ConditionQuestion: Hashable, Sendable {
    var asker: PartitionID
    var ticket: ConditionTicket
    var project: ProjectNumber
    var condition: Condition
}

/// The devices of `partition` for which the condition held at one moment after the question.
public struct ConditionAnswer: Sendable {
    var ticket: ConditionTicket
    var partition: PartitionID
    var devices: DeviceSet
}

// MARK: Streams

public enum StreamCommand: Sendable {
    /// `resume` is the client's `Last-Event-ID`: everything up to it is acknowledged.
    case attach(StreamID, Registration, by: Authority, resume: EventID?)
    case detach(StreamID, DeviceIndex)
    /// The stream could not take an event; it has written everything up to `written`.
    case fellBehind(StreamID, DeviceIndex, written: Position)
    /// The stream can take events again.
    case caughtUp(StreamID, DeviceIndex)
    /// The gateway has handed every frame up to this one to its streams, or reported the streams as behind.
    case processed(GatewayID, frame: UInt64)
}

/// Frames to one gateway loop, in order. Frames with deliveries are numbered for each pair of partition and
/// gateway loop, and name the epoch of the machine that sends them: a machine's pushes are not for streams
/// that the machine does not know.
public enum StreamFrame: Sendable {
    /// The credential fits. The messages that wait behind `from` come next.
    case attached(StreamID, DeviceIndex, Epoch, from: Position)
    case refused(StreamID, PartitionRefusal)
    /// Another stream of the same device took its place.
    case replaced(StreamID, DeviceIndex)
    /// The device is gone.
    case ended(StreamID, DeviceIndex)
    /// Messages that waited for one device behind `after`; `deleted`: older messages were dropped. Without
    /// either nothing more waits: from here on the stream is live, and pushes are for it too.
    case events(StreamID, DeviceIndex, Epoch, after: Position, deleted: Position?, [Event])
    case push(Push)
    /// From here on the partition pushes nothing to these devices of the gateway: their streams are not live
    /// until a frame says so again. The frame is numbered like a push, so that the gateway notices its loss.
    case cutOff(CutOff)

    /// About how many bytes the frame keeps, beyond a fixed few.
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
    }
    public struct Push: Sendable {
        public var epoch: Epoch
        public var number: UInt64
        public var items: [PushItem]
    }
    public struct CutOff: Sendable {
        public var epoch: Epoch
        public var number: UInt64
        /// The position of the last push before this frame.
        public var position: Position
        public var devices: DeviceSet
    }
    public struct PushItem: Sendable {
        public var position: Position
        public var event: [UInt8]
        public var targets: DeviceSet
        /// The targets that are first notified, at `position - 1`, that older messages were dropped.
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
    /// This record is durable.
    case appended(Sequence)
    /// The engine refuses this partition's records. They wait, and the appender appends them again.
    case postponed(String)
    /// More records wait for the engine than should: nothing new begins until this record is durable.
    case crowded(Sequence)
    /// The engine saw the session alive after the partition asked with this token.
    case confirmed(UInt64)
    /// The bodies of records that the partition asked for.
    case records(RecordBodies, token: UInt64)
    /// The engine has stored the part, under the upload of this number.
    case snapshotPart(upload: UInt64, token: UInt64)
    case snapshotFailed(token: UInt64)
    /// What became of a message for a push service.
    case pushed(PushReport)
    /// An operator has changed how these projects reach push services. They have these services now.
    case pushesChanged([ProjectNumber: PushServices])
    /// The service refuses the project's key, and the loop keeps its circuit open until then; `nil`: not any
    /// more.
    case keyRefused(PushOrigin, until: MonotonicTime?)
    /// The timer for this time has fired.
    case woke(MonotonicTime)
}

/// `reply`, `offer`, `acknowledge`, `ask`, `tell`, `stream` and `push` go to others and must be `Proven`. The
/// other effects are for the partition's own shell, and may go immediately.
public enum PartitionEffect: Sendable {
    case append(Sequence, body: [UInt8])
    case confirm(UInt64)
    /// At most one read is under way.
    case readRecords([Sequence], bytesMax: Int, token: UInt64)
    case writeSnapshot(covering: Sequence, SnapshotPart, token: UInt64)
    /// The engine may delete the records below, except those in `keeping`: devices wait for their bodies.
    case trim(below: Sequence, keeping: [Sequence])
    case wake(at: MonotonicTime)
    case reply(RequestID, Proven<Reply>)
    case offer(to: PartitionID, Proven<OutboxFrame>)
    case acknowledge(to: PartitionID, Proven<OutboxAcknowledgement>)
    case ask(of: PartitionID, Proven<ConditionQuestion>)
    case tell(PartitionID, Proven<ConditionAnswer>)
    case stream(GatewayID, Proven<StreamFrame>)
    /// Answered by `.pushed`.
    case push(Proven<PushJob>)
    /// The two ends of a pair count different members.
    case fingerprintsDiffer(with: PartitionID)
    /// For the operator.
    case notice(PartitionNotice)
}
