import Model

// The vocabulary of a partition's journal. A record is a sequence of facts; a partition's state is their
// fold. Everything that the fold needs stands in the fact: it asks no clock, no generator and no other
// partition.

/// Which request of which gateway loop a send was, so that a repeated one is not accepted twice.
public struct RequestKey: Hashable, Sendable {
    /// One incarnation of a gateway loop.
    public var session: UInt64
    /// Dense for each partition, from 1.
    public var number: UInt64
    public init(session: UInt64, number: UInt64) {
        self.session = session
        self.number = number
    }
}

enum Fact: Sendable {
    /// The first record of an owner.
    case barrier(session: SessionID, epoch: Epoch)
    case register(index: UInt32, project: ProjectNumber, nonce: UInt32, secret: UInt64, day: Day)
    /// The device is gone: unregistered, or unseen for too long.
    case end(index: UInt32)
    /// `indices` ascending; none of them is subscribed yet.
    case subscribe(project: ProjectNumber, topic: TopicName, day: Day, indices: [UInt32])
    /// `indices` ascending; all of them are subscribed.
    case unsubscribe(project: ProjectNumber, topic: TopicName, indices: [UInt32])
    case accept(key: RequestKey?, project: ProjectNumber, topic: TopicName, message: Envelope)
    case acceptCondition(key: RequestKey?, project: ProjectNumber, condition: Condition, message: Envelope)
    /// The targets of the condition that was accepted as `ticket`; none where its deadline passed.
    case resolve(ticket: ConditionTicket, targets: [PartitionTargets])
    case acceptDirect(
        key: RequestKey?, project: ProjectNumber, index: UInt32, message: Envelope, placing: Placing)
    /// Applies one outbox entry of another partition. `placings` has one for each of its messages, in order.
    case receive(from: PartitionID, history: History, entry: OutboxEntry, placings: [Placing])
    /// Applies some items of one that does not fit into a record with others: those behind the first
    /// `behind`, and the last of all where `isLast` says so.
    case receivePart(
        from: PartitionID, history: History, entry: OutboxEntry, placings: [Placing], behind: UInt32,
        isLast: Bool)
    /// What other partitions have durably applied of this one's outboxes.
    case acknowledge([OutboxMark])
    /// Devices that have read the log up to a position.
    case read([ReadUpTo])
    /// Devices whose streams were handed the log up to a position, more of it than is kept for them.
    case pass([ReadUpTo])
    /// The bodies of the messages at these positions are gone: who waited for them is told of a loss.
    case gone([Position])
    /// Minutes before `now` are over.
    case expire(now: WallTime)
    case seen(day: Day, devices: DeviceSet)
    /// Tells another partition again who of this one's devices is in some of its topics.
    case repair(to: PartitionID, PairSlice)
    /// The session of this gateway incarnation has ended: its window of request numbers is forgotten.
    case bury(session: UInt64)
    /// A database had lost its end once more, `number` times in all, when this was written. Where another
    /// partition may know devices that are forgotten here, the next `leavingOut` indices are not given out.
    case generation(number: UInt64, leavingOut: UInt32)
    /// What this partition has of another's outbox ends at `number`, in the sender's words of `generation`:
    /// one of the two has lost its end.
    case rebase(from: PartitionID, history: History, generation: UInt64, number: Sequence)
    /// All partitions that could contradict this one have been compared with it in `generation`.
    case compared(generation: UInt64)
}

/// Part of what one partition should have of another's devices, told again because the fingerprints of the
/// two differed (rule: fingerprints-repair). The topics are dealt into `count` slices by their hash, so that
/// no record grows with the pair; within its slice a topic that is not named has none of the devices.
public struct PairSlice: Sendable {
    public struct Members: Sendable {
        public var project: ProjectNumber
        public var topic: TopicName
        /// Ascending.
        public var indices: [UInt32]
    }
    public var number: UInt32
    public var count: UInt32
    public var topics: [Members]

    func covers(_ topicHash: UInt64) -> Bool { topicHash % UInt64(count) == UInt64(number) }
    var isLast: Bool { number + 1 == count }
}

public struct PartitionTargets: Sendable {
    public var partition: PartitionID
    public var devices: DeviceSet
    public init(partition: PartitionID, devices: DeviceSet) {
        self.partition = partition
        self.devices = devices
    }
}

/// Names an accepted condition: the record that accepted it and its place among that record's facts.
struct ConditionTicket: Hashable, Sendable {
    var record: Sequence
    var ordinal: UInt32
}

struct OutboxMark: Hashable, Sendable {
    var partition: PartitionID
    var number: Sequence
}

struct ReadUpTo: Sendable {
    var position: Position
    var devices: DeviceSet
}

/// What the owner decided about a message when it came to the delivery log, because it depends on the clock
/// and on who listens at that moment.
struct Placing: Sendable {
    enum Fate: UInt8, Sendable {
        /// Into the log.
        case stored = 0
        /// Time to live is zero: only for those who listen now.
        case passing = 1
        /// Its time to live was over when it came.
        case late = 2
        /// The project's bound of waiting bytes is reached: its targets are told of a loss.
        case refused = 3
    }
    var fate: Fate
    /// Above every earlier position by at least 2: the one before it names an overflow that it causes.
    var position: Position
    /// Listening devices whose window is full: each leaves its `DeliveryLimits.passDepth` oldest entries, and
    /// those with a collapse key among them, up to `passedUpTo`, which were written to its stream.
    var passed = DeviceSet()
    var passedUpTo = Position.zero
    /// Listening devices, which do not overflow at the limit of those who are away. Only those near the
    /// limit.
    var exempt = DeviceSet()
}

/// What one partition tells another, exactly once and in order.
public enum OutboxItem: Sendable {
    /// T → D: a message and those of D's devices that get it.
    case message(project: ProjectNumber, Envelope, DeviceSet)
    /// D → T: these devices of D are subscribed now. Ascending.
    case join(project: ProjectNumber, topic: TopicName, indices: [UInt32])
    /// D → T: these devices of D are subscribed no longer. Ascending.
    case leave(project: ProjectNumber, topic: TopicName, indices: [UInt32])
    /// D → T: these and no others are subscribed, of the topics of the slice.
    case replace(PairSlice)
}

extension OutboxItem {
    /// Whose message it has, and which.
    var message: (ProjectNumber, MessageID)? {
        guard case .message(let project, let message, _) = self else { return nil }
        return (project, message.id)
    }

    /// Bytes that it takes in an entry, at most.
    var weight: Int {
        switch self {
        case .message(_, let message, let targets):
            64 + message.event.count + message.collapseKey.count + targets.weight
        case .join(_, let topic, let indices), .leave(_, let topic, let indices):
            16 + topic.utf8.count + 5 * indices.count
        case .replace(let slice):
            slice.topics.reduce(16) { $0 + 12 + $1.topic.utf8.count + 5 * $1.indices.count }
        }
    }

    /// Bytes that it takes in a record of its receiver, at most: where devices listen, what is decided of a
    /// message names some of its targets twice more.
    func weight(withListeners: Bool) -> Int {
        guard case .message(_, _, let targets) = self else { return weight }
        return weight + 32 + (withListeners ? 2 * targets.weight : 0)
    }
}

/// All that one record of the sender has for one receiver.
public struct OutboxEntry: Sendable {
    /// The sequence of the sender's record that made it.
    public var number: Sequence
    /// The number of the entry before it in this stream; 0 for the first.
    public var predecessor: Sequence
    public private(set) var items: [OutboxItem]
    /// The XOR fingerprint of the pair's members after this entry, as the sender has it.
    public var fingerprint: UInt64
    /// Bytes that it takes in a frame, at most.
    private(set) var weight: Int

    init(number: Sequence, predecessor: Sequence, items: [OutboxItem], fingerprint: UInt64) {
        self.number = number
        self.predecessor = predecessor
        self.items = items
        self.fingerprint = fingerprint
        weight = items.reduce(40) { $0 + $1.weight }
    }

    /// No less than the weights of its items at the receiver together, without a look at each.
    func weightAtReceiverMax(withListeners: Bool) -> Int {
        (withListeners ? 3 : 1) * weight + 32 * items.count
    }

    mutating func append(_ item: OutboxItem) {
        items.append(item)
        weight += item.weight
    }

    /// Some of its items.
    func part(_ places: Range<Int>) -> OutboxEntry {
        OutboxEntry(
            number: number, predecessor: predecessor, items: Array(items[places]), fingerprint: fingerprint)
    }
}
