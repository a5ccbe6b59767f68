import Bytes
import Model

@testable import Partitions

/// One fact of every kind, with every optional part there and not there.
enum FactSamples {
    static let topic = TopicName(checked: Array("news".utf8))
    static let project = ProjectNumber(70_000)
    static let few = DeviceSet(sorted: [3, 700, 1 << 27])
    /// More indices than a sorted array holds: written as the bitmap library's own bytes.
    static let many = DeviceSet(sorted: (0..<200).map { UInt32($0 * $0) })
    static let message = envelope("some event", key: "score")

    static func envelope(_ event: String, key: String) -> Envelope {
        Envelope(
            id: MessageID(time: 1 << 60, random: 5), event: Array(event.utf8), collapseKey: Array(key.utf8),
            sent: WallTime(milliseconds: 1_800_000_000_000), ttlSeconds: 2_419_200)
    }

    private static var condition: Condition {
        Condition(
            topics: [topic, TopicName(checked: Array("b".utf8))],
            root: .or(.and(.topic(0), .not(.topic(1))), .topic(1)))
    }

    private static var slice: PairSlice {
        PairSlice(
            number: 1, count: 3,
            topics: [PairSlice.Members(project: project, topic: topic, indices: [4, 5, 1 << 20])])
    }

    /// Facts without a large set, and the same facts with one.
    static var small: [Fact] {
        facts(few) + [part(few), .gone([Position(1 << 50), Position(3)])] + transports + withEnds
    }
    static var large: [Fact] { facts(many) + [part(many)] }

    private static func facts(_ devices: DeviceSet) -> [Fact] {
        let key = RequestKey(session: 1 << 63, number: 300)
        let decision = DeliveryDecision(
            disposition: .stored, position: Position(1 << 50), passed: devices, passedUpTo: Position(9),
            exempt: DeviceSet(4))
        let plain = DeliveryDecision(disposition: .refused, position: Position(2))
        let entry = OutboxEntry(
            number: Sequence(500), predecessor: Sequence(499),
            items: [
                .message(project: project, message, devices),
                .join(project: project, topic: topic, indices: [1, 2, 900]),
                .leave(project: project, topic: topic, indices: [0]),
                .message(project: project, envelope("", key: ""), DeviceSet(1)),
                .replace(slice),
            ], fingerprint: 0xFEED_FACE)
        let targets = [
            PartitionTargets(partition: PartitionID(0), devices: devices),
            PartitionTargets(partition: PartitionID(4095), devices: DeviceSet(0)),
        ]
        return [
            .barrier(session: SessionID(.max), epoch: Epoch(77), rules: StoredRules.ofPartitions),
            .register(index: (1 << 28) - 1, project: project, nonce: .max, secret: .max, day: Day(20_000)),
            .end(index: 300),
            .subscribe(project: project, topic: topic, day: Day(9), indices: [0, 1, 1 << 20]),
            .unsubscribe(project: project, topic: topic, indices: [5]),
            .accept(key: key, project: project, topic: topic, message: message),
            .accept(key: nil, project: project, topic: topic, message: message),
            .acceptCondition(key: key, project: project, condition: condition, message: message),
            .resolve(
                ticket: ConditionTicket(record: Sequence(8), ordinal: 2), targets: targets, undecided: []),
            .resolve(
                ticket: ConditionTicket(record: Sequence(9), ordinal: 0), targets: [],
                undecided: [PartitionID(2), PartitionID(300)]),
            .acceptDirect(key: nil, project: project, index: 12, message: message, decision: decision),
            .receive(
                from: PartitionID(17), history: History(.max), entry: entry, decisions: [decision, plain]),
            .acknowledge([OutboxMark(partition: PartitionID(1), number: Sequence(1 << 40))]),
            .read([ReadUpTo(position: Position(.max), devices: devices)]),
            .pass([ReadUpTo(position: Position(77), devices: devices)]),
            .expire(now: WallTime(milliseconds: 1_800_000_000_000)),
            .seen(day: Day(20_001), devices: devices),
            .evict(session: 4),
            .generation(number: 3, leavingOut: 300),
            .rebase(from: PartitionID(2), history: History(9), generation: 3, number: Sequence(70)),
            .compared(generation: 3),
            .repair(to: PartitionID(3), slice),
        ]
    }

    private static var transports: [Fact] {
        [
            .setTransport(
                index: 300, Transport(kind: .web, address: Array("somewhere".utf8)),
                at: WallTime(milliseconds: 1_800_000_000_000)),
            .endTransport(index: 300, .apns, generation: 1 << 40),
            .markTransport(
                index: 300, .fcm, generation: 9,
                AddressMark(.gone, since: WallTime(milliseconds: 1_800_000_000_000), setting: 1 << 60)),
            .markTransport(index: 300, .fcm, generation: 9, nil),
        ]
    }

    /// A message that does not end everywhere at once.
    static var severalEnds: Envelope {
        var message = message
        message.times = TimesToLive(stream: 0, web: 2_419_200, apns: 60, fcm: .max)
        return message
    }

    private static func shared(_ message: Envelope) -> Envelope {
        var message = message
        message.share = [1, 2]
        return message
    }

    private static var withEnds: [Fact] {
        var reached = DeliveryDecision(disposition: .passing, position: Position(1 << 50))
        reached.reach = [Transport.Kinds(.web), Transport.Kinds(.fcm)]
        var refused = DeliveryDecision(disposition: .late, position: Position(1 << 51), exempt: few)
        (refused.reach, refused.isReachRefused) = (.all, true)
        let entry = OutboxEntry(
            number: Sequence(500), predecessor: Sequence(499),
            items: [
                .message(project: project, severalEnds, few), .message(project: project, message, few),
                .message(project: project, severalEnds, DeviceSet(1)),
            ], fingerprint: 3)
        let plain = DeliveryDecision(disposition: .stored, position: Position(2))
        return [
            .accept(key: nil, project: project, topic: topic, message: severalEnds),
            .acceptCondition(key: nil, project: project, condition: condition, message: severalEnds),
            .acceptDirect(key: nil, project: project, index: 12, message: severalEnds, decision: reached),
            .acceptDirect(
                key: nil, project: project, index: 12, message: shared(severalEnds), decision: reached),
            .acceptDirect(
                key: nil, project: project, index: 12, message: shared(message), decision: reached),
            .receive(
                from: PartitionID(17), history: History(.max), entry: entry,
                decisions: [reached, plain, refused]),
            .pushedOne(at: Position(1 << 50), index: 300),
            .pushedKept(upTo: Position(1 << 50), index: 300, .apns),
        ]
    }

    private static func part(_ devices: DeviceSet) -> Fact {
        let entry = OutboxEntry(
            number: Sequence(501), predecessor: Sequence(500),
            items: [.message(project: project, message, devices)], fingerprint: 1)
        return .receivePart(
            from: PartitionID(17), history: History(8), entry: entry,
            decisions: [DeliveryDecision(disposition: .stored, position: Position(1 << 50))], behind: 300,
            isLast: false)
    }

    static func encoded(_ fact: Fact) -> [UInt8] {
        var writer = ByteWriter()
        fact.encode(into: &writer)
        return writer.bytes
    }

    /// A partition's snapshot with everything in it; with `isLarge`, also sets that are bitmaps.
    static func snapshot(isLarge: Bool) -> [UInt8] {
        var state = PartitionState(
            id: PartitionID(0), history: History(9), partitionCount: 2, names: TopicNames())
        let other = PartitionID(1)
        let devices = DeviceSet(sorted: (0..<(isLarge ? 150 : 5)).map { $0 * 3 })
        var facts: [Fact] = [
            .barrier(session: SessionID(1), epoch: Epoch(1), rules: StoredRules.ofPartitions)
        ]
        devices.forEach {
            facts.append(.register(index: $0, project: project, nonce: $0, secret: 1, day: Day(3)))
        }
        let decision = DeliveryDecision(disposition: .stored, position: Position(1000))
        let entry = OutboxEntry(
            number: Sequence(4), predecessor: .zero,
            items: ["news", "b"].map {
                .join(project: project, topic: TopicName(checked: Array($0.utf8)), indices: devices.sorted)
            } + [.message(project: project, message, devices)], fingerprint: 3)
        facts += [
            .subscribe(project: project, topic: topic, day: Day(9), indices: devices.sorted),
            .receive(from: other, history: History(8), entry: entry, decisions: [decision]),
            .accept(
                key: RequestKey(session: 6, number: 2), project: project, topic: topic, message: message),
            .acceptCondition(key: nil, project: project, condition: condition, message: message),
            .acceptDirect(
                key: nil, project: project, index: 3, message: envelope("two", key: ""),
                decision: DeliveryDecision(disposition: .refused, position: Position(2000))),
        ]
        var cursor = PartitionState.Cursor(record: Sequence(1))
        for fact in facts { state.apply(fact, &cursor) }
        state.applied = Sequence(1)
        return SnapshotWriter.whole(of: state)
    }
}
