import Model

// The facts of a partition's journal. A record is a list of facts, and a partition's state is their fold. A
// fact holds everything that the fold needs: the fold asks no clock, no random generator and no other
// partition.

/// Names one send of one gateway loop, so that no repeat is accepted as new (rule: repeats-do-not-double).
public struct RequestKey: Hashable, Sendable {
    /// One run of a gateway loop; in a cluster `session << 8 | loop`, with the node's session.
    public var session: UInt64
    /// The numbers of one loop's sends to one partition rise from 1 without gaps.
    public var number: UInt64
    public init(session: UInt64, number: UInt64) {
        self.session = session
        self.number = number
    }
}

enum Fact: Sendable {
    /// The first record of an owner, with its digest of `StoredRules`.
    case barrier(session: SessionID, epoch: Epoch, rules: UInt64)
    case register(index: UInt32, project: ProjectNumber, nonce: UInt32, secret: UInt64, day: Day)
    /// The device is gone: unregistered, or unseen for too long.
    case end(index: UInt32)
    /// `indices` ascending; none of them is subscribed yet.
    case subscribe(project: ProjectNumber, topic: TopicName, day: Day, indices: [UInt32])
    /// `indices` ascending; all of them are subscribed.
    case unsubscribe(project: ProjectNumber, topic: TopicName, indices: [UInt32])
    case accept(key: RequestKey?, project: ProjectNumber, topic: TopicName, message: Envelope)
    case acceptCondition(key: RequestKey?, project: ProjectNumber, condition: Condition, message: Envelope)
    /// The targets of the condition that was accepted as `ticket`; none if its deadline passed.
    /// The partitions in `undecided` have not decided yet; the others have, now or in an earlier fact.
    case resolve(ticket: ConditionTicket, targets: [PartitionTargets], undecided: [PartitionID])
    case acceptDirect(
        key: RequestKey?, project: ProjectNumber, index: UInt32, message: Envelope, decision: DeliveryDecision
    )
    /// Applies one outbox entry of another partition. `decisions` has one for each of its messages, in order.
    case receive(from: PartitionID, history: History, entry: OutboxEntry, decisions: [DeliveryDecision])
    /// Applies some items of an entry that does not fit into the open record: the items behind the first
    /// `behind`. With `isLast` they end the entry.
    case receivePart(
        from: PartitionID, history: History, entry: OutboxEntry, decisions: [DeliveryDecision],
        behind: UInt32,
        isLast: Bool)
    /// How far other partitions have durably applied this partition's outboxes.
    case acknowledge([OutboxMark])
    /// Devices that have read the log up to a position.
    case read([ReadUpTo])
    /// Devices for which messages up to a position pass as delivered: their streams were handed these
    /// messages, and more wait than the partition keeps for them.
    case pass([ReadUpTo])
    /// The bodies of the messages at these positions are gone: the devices that waited are notified of a
    /// loss.
    case gone([Position])
    /// The minutes before `now` are over: messages that expired in them go.
    case expire(now: WallTime)
    case seen(day: Day, devices: DeviceSet)
    /// Sends another partition again which of this partition's devices are in some of its topics.
    case repair(to: PartitionID, PairSlice)
    /// This run of a gateway loop has ended: its window of request numbers is forgotten.
    case evict(session: UInt64)
    /// A database may have lost its end once more, `number` times in all. If another partition may know
    /// devices that are lost here, the next `leavingOut` indices are not given out.
    case generation(number: UInt64, leavingOut: UInt32)
    /// The mark of a sender's outbox is `number` from now on, as the sender counts in `generation`: one of
    /// the two partitions has lost its end.
    case rebase(from: PartitionID, history: History, generation: UInt64, number: Sequence)
    /// Every partition that could contradict this partition has been compared with it in `generation`.
    case compared(generation: UInt64)
    /// The device registered a push address.
    case setTransport(index: UInt32, Transport, at: WallTime)
    /// The device's address of this kind ends, if it is still the address of the record `generation`.
    case endTransport(index: UInt32, Transport.Kind, generation: UInt64)
    /// What push services have said of the device's address of this kind, if it is still the address of the
    /// record `generation`; `nil`: what they have said is taken back.
    case markTransport(index: UInt32, Transport.Kind, generation: UInt64, AddressMark?)
    /// A device's push service has the message at a position. Older messages may still wait for the device's
    /// stream that ended at the service.
    case pushedOne(at: Position, index: UInt32)
    /// The push service has the messages of a device up to a position, and they go on waiting, since the
    /// device acknowledges itself.
    case pushedKept(upTo: Position, index: UInt32, Transport.Kind)
}

/// A slice of what one partition should have of another's devices, sent again because the fingerprints of the
/// two differed (rule: fingerprints-repair). Topics are dealt into `count` slices by their hash, so that no
/// record grows with the pair. A topic of the slice that is not named has none of the devices.
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
}

/// Names an accepted condition: the record that accepted it and its index among that record's facts.
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

/// What the owner decided about a message when it came to the delivery log. The decision is in the fact,
/// because it depends on the clock and on the devices that listen at that moment.
struct DeliveryDecision: Sendable {
    enum Disposition: UInt8, Sendable {
        /// Into the log.
        case stored = 0
        /// The time to live is zero: only devices that listen now get the message.
        case passing = 1
        /// The time to live was over when the message came.
        case late = 2
        /// The project's bound of waiting bytes is reached: the targets are notified of a loss.
        case refused = 3
    }
    /// For streams, and for devices without an address at a push service.
    var disposition: Disposition
    /// The push services for which the message waits although it does not wait for streams: it is stored for
    /// devices with an address there, and for nobody else.
    var reach: Transport.Kinds = []
    /// Whether the project's bound of waiting bytes is reached for the devices in `reach`.
    var isReachRefused = false
    /// At least 2 above every earlier position: an overflow that the message causes is reported just before
    /// it.
    var position: Position
    /// Listening devices whose window is full. Each leaves its `DeliveryLimits.passDepth` oldest entries, and
    /// the entries with a collapse key among them, up to `passedUpTo`: these were written to its stream.
    var passed = DeviceSet()
    var passedUpTo = Position.zero
    /// Listening devices, which do not overflow at the limit of absent devices. Only devices near that limit.
    var exempt = DeviceSet()

    /// Whether the devices for which the message would be kept are notified of a loss instead.
    var isRefused: Bool { disposition == .refused || isReachRefused }

    /// Of the targets, those for which the message is kept.
    func kept(_ targets: DeviceSet, _ addresses: AddressTable) -> DeviceSet {
        switch disposition {
        case .stored, .refused: targets
        case .passing, .late: reach.isEmpty ? DeviceSet() : addresses.targets(targets, reach)
        }
    }
}

/// What one partition sends another, exactly once and in order.
public enum OutboxItem: Sendable {
    /// T → D: a message and the devices of D that get it.
    case message(project: ProjectNumber, Envelope, DeviceSet)
    /// D → T: these devices of D are subscribed now. Ascending.
    case join(project: ProjectNumber, topic: TopicName, indices: [UInt32])
    /// D → T: these devices of D are subscribed no longer. Ascending.
    case leave(project: ProjectNumber, topic: TopicName, indices: [UInt32])
    /// D → T: of the topics of the slice, exactly these devices of D are subscribed.
    case replace(PairSlice)
}

extension OutboxItem {
    /// The project and the id of the item's message; `nil` for other items.
    var message: (ProjectNumber, MessageID)? {
        guard case .message(let project, let message, _) = self else { return nil }
        return (project, message.id)
    }

    /// Whether the item may change the topics of the sender's device.
    func changes(_ index: UInt32) -> Bool {
        switch self {
        case .message: false
        case .join(_, _, let indices), .leave(_, _, let indices):
            DeviceSet.search(for: index, in: indices).found
        case .replace: true
        }
    }

    /// Bytes of the item in an entry, at most.
    var weight: Int {
        switch self {
        case .message(_, let message, let targets):
            64 + message.event.count + message.collapseKey.count + message.share.count + targets.weight
        case .join(_, let topic, let indices), .leave(_, let topic, let indices):
            16 + topic.utf8.count + 5 * indices.count
        case .replace(let slice):
            slice.topics.reduce(16) { $0 + 12 + $1.topic.utf8.count + 5 * $1.indices.count }
        }
    }

    /// Bytes of the item in a record of its receiver, at most. If devices listen, a message's decision may
    /// name its targets twice more.
    func weight(withListeners: Bool) -> Int {
        guard case .message(_, _, let targets) = self else { return weight }
        return weight + 32 + (withListeners ? 2 * targets.weight : 0)
    }
}

/// All that a record of the sender has for one receiver.
public struct OutboxEntry: Sendable {
    /// The sequence of the sender's record that made it.
    public var number: Sequence
    /// The number of the entry before this entry in the outbox; 0 for the first.
    public var predecessor: Sequence
    public private(set) var items: [OutboxItem]
    /// The XOR fingerprint of the pair's members after this entry, as the sender has it.
    public var fingerprint: UInt64
    /// Bytes of the entry in a frame, at most.
    private(set) var weight: Int

    init(number: Sequence, predecessor: Sequence, items: [OutboxItem], fingerprint: UInt64) {
        self.number = number
        self.predecessor = predecessor
        self.items = items
        self.fingerprint = fingerprint
        weight = items.reduce(40) { $0 + $1.weight }
    }

    /// At least the sum of the items' weights at the receiver, without a look at each item.
    func weightAtReceiverMax(withListeners: Bool) -> Int {
        (withListeners ? 3 : 1) * weight + 32 * items.count
    }

    mutating func append(_ item: OutboxItem) {
        items.append(item)
        weight += item.weight
    }

    func changes(_ index: UInt32) -> Bool { items.contains { $0.changes(index) } }

    /// Dates the entry's messages by another clock.
    mutating func date(_ time: (WallTime) -> WallTime) {
        for index in items.indices {
            guard case .message(let project, var message, let targets) = items[index] else { continue }
            message.sent = time(message.sent)
            items[index] = .message(project: project, message, targets)
        }
    }

    /// The same entry with some of its items only.
    func part(_ range: Range<Int>) -> OutboxEntry {
        OutboxEntry(
            number: number, predecessor: predecessor, items: Array(items[range]), fingerprint: fingerprint)
    }
}
