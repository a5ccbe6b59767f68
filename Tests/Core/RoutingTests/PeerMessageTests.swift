import Bytes
import Model
import Quotas
import Testing

@testable import Partitions
@testable import Routing

/// Messages between nodes: a reader gets the message that was written, and a malformed message stops no node.
@Suite("A message between nodes") struct PeerMessageTests {
    static let project = ProjectNumber(5)
    static let topic = TopicName(checked: Array("news".utf8))
    static let device = Registration(
        project: project, partition: PartitionID(9), index: DeviceIndex(77), nonce: 0xABCDEF, key: 1,
        suffix: DeviceMAC(high: 1, low: 2))
    static let message = Envelope(
        id: MessageID(time: 1, random: 2), event: Array("{}".utf8), collapseKey: [7],
        sent: WallTime(milliseconds: 3), ttlSeconds: 60)
    static let id = RequestID(gateway: GatewayID(0x123401), number: 1 << 40)
    static let stream = StreamID(gateway: GatewayID(0x123401), number: 12)

    static let transport = Transport(kind: .apns, address: [1, 2, 3])

    static var shared: Envelope {
        var shared = message
        (shared.collapseKey, shared.share) = ([], [1, 2])
        return shared
    }

    static var requests: [Request] {
        let key = RequestKey(session: 8, number: 9)
        let condition = Condition(topics: [topic, topic], root: .and(.topic(0), .not(.topic(1))))
        return [
            .register(project: project, limit: 4096, nonce: 3, secret: 4),
            .change(.subscribe, project: project, topic: topic, devices: [device, device], by: .backend),
            .change(
                .unsubscribe, project: project, topic: topic, devices: [],
                by: .device(DeviceMAC(high: 3, low: 4))),
            .subscriptions(of: device, by: .backend), .unregister(device, by: .backend),
            .unregisterUnused(device, by: .backend),
            .acknowledge(device, by: .backend, EventID(position: Position(1000), history: 7)),
            .sendToTopic(key, project: project, topic, message, fanoutsMax: 1000),
            .sendToCondition(nil, project: project, condition, message, fanoutsMax: 1000),
            .sendToDevice(key, device, message), .check(device, by: .backend),
            .members(project: project, topic), .topics(project: project, after: 1, limit: 2),
            .devices(project: project, after: 1, limit: 2), .pushes(project: project, of: message.id),
            .setTransport(device, by: .backend, transport), .endTransport(device, by: .backend, .fcm),
            .device(device, by: .device(DeviceMAC(high: 3, low: 4))),
            .subscription(of: device, to: topic, by: .backend),
            .sendToDevice(nil, device, shared),
        ]
    }

    static var replies: [Reply] {
        [
            .accepted(message.id), .changes([.changed(Day(3)), .unchanged(nil), .unchanged(Day(9))]),
            .changes([
                .refused(.tooManyTopics), .refused(.tooManyFanouts(limit: 9)), .refused(.moved),
                .refused(.handedOver),
            ]),
            .refused(.pushKeyRefused),
            .subscriptions([(topic: topic, since: Day(3))]),
            .registered(index: DeviceIndex(3), nonce: 4, secret: 5), .full(holding: Int(9)), .done,
            .members(UInt64(12)),
            .topics([(name: topic, members: UInt64(3))], next: UInt64(9)), .topics([], next: nil),
            .reachable([(topic: topic, since: Day(3))], by: [.web, .fcm]),
            .device(
                DeviceState(
                    index: DeviceIndex(3), nonce: 4, lastSeen: Day(5), topicCount: 6, waitingCount: 7),
                [
                    StoredTransport(
                        transport: transport, registered: WallTime(milliseconds: 8), generation: 9)
                ]),
            .device(
                DeviceState(
                    index: DeviceIndex(3), nonce: 4, lastSeen: Day(5), topicCount: 6, waitingCount: 7),
                [], pushes: histories),
            .device(
                DeviceState(
                    index: DeviceIndex(3), nonce: 4, lastSeen: Day(5), topicCount: 6, waitingCount: 7),
                [], pushes: [expired]),
            .pushes(tallies), .pushes([]),
            .refused(.unavailable("the disk is full")), .refused(.unknown), .refused(.wrongCredential),
        ]
    }

    private static var expired: PushHistory {
        let attempt = PushHistory.Attempt(
            message: nil, time: WallTime(milliseconds: 8), outcome: .expired, tries: 1)
        return PushHistory(kind: .web, activity: .idle, failed: attempt)
    }

    private static var tallies: [PushTally] {
        [
            PushTally(kind: .web, outcome: .accepted, count: 300, newest: WallTime(milliseconds: 8)),
            PushTally(
                kind: .fcm, outcome: .refusedContent("why"), count: 1, newest: WallTime(milliseconds: -1)),
        ]
    }

    private static var histories: [PushHistory] {
        let outcomes: [PushOutcome] = [
            .gone, .refusedContent("why"), .credentials(""), .throttled(retryAfterSeconds: nil),
            .overQuota(retryAfterSeconds: 0), .transient(retryAfterSeconds: 86_400), .unsent("ä"),
        ]
        let failures = outcomes.enumerated().map { number, outcome in
            PushHistory.Attempt(
                message: nil, time: WallTime(milliseconds: -3), outcome: outcome, tries: number)
        }
        let accepted = PushHistory.Attempt(
            message: message.id, time: WallTime(milliseconds: 8), outcome: .accepted, tries: 0)
        return zip(Transport.Kind.allCases, [[0, 1, 2], [3, 4], [5, 6]]).map { kind, indices in
            PushHistory(
                kind: kind, activity: .paused, accepted: indices[0] == 3 ? nil : accepted,
                failed: failures[indices[indices.count - 1]])
        }
    }

    static var streams: [StreamFrame] {
        [
            .attached(stream, DeviceIndex(1), Epoch(5), from: Position(3)), .replaced(stream, DeviceIndex(1)),
            .ended(stream, DeviceIndex(1)), .refused(stream, .unregistered),
            .events(
                stream, DeviceIndex(1), Epoch(5), after: Position(2), deleted: Position(3),
                [.init(position: Position(4), event: [1, 2, 3])]),
        ]
    }

    static var commands: [StreamCommand] {
        [
            .attach(stream, device, by: .backend, resume: EventID(position: Position(3), history: 4)),
            .attach(stream, device, by: .backend, resume: nil), .detach(stream, DeviceIndex(1)),
            .fellBehind(stream, DeviceIndex(1), written: Position(3)), .caughtUp(stream, DeviceIndex(1)),
            .processed(GatewayID(1), frame: 9),
        ]
    }

    static var all: [PeerMessage] {
        var all: [PeerMessage] = [
            .nudge, .leave, .gap, .follow(PartitionID(7)), .followed(PartitionID(4095)),
        ]
        all += requests.map { .request(PartitionID(3), Epoch(300), id, $0, left: 24_987) }
        all += commands.map { .partition(PartitionID(3), .stream($0)) }
        all += replies.map { .reply(id, $0) }
        all += streams.map { .stream(from: PartitionID(9), to: GatewayID(0x123401), $0) }
        all.append(
            .quotaRefusal(id, QuotaRefusal(kind: .deviceMinute, limit: 240, retryDelay: .seconds(3))))
        return all
    }

    private func bytes(_ message: PeerMessage) -> [UInt8] {
        var out = ByteWriter()
        message.encode(into: &out)
        return out.bytes
    }

    @Test("is read back as it was written")
    func readBack() throws {
        for message in PeerMessageTests.all {
            let written = bytes(message)
            var reader = ByteReader(written)
            let read = try PeerMessage.decode(from: &reader)
            #expect(reader.isAtEnd, "\(message)")
            #expect(bytes(read) == written && "\(read)" == "\(message)")
        }
    }

    @Test("is read from a frame one after the other")
    func oneByOne() throws {
        var out = ByteWriter()
        for message in PeerMessageTests.all { message.encode(into: &out) }
        var reader = ByteReader(out.bytes)
        var count = 0
        while !reader.isAtEnd {
            _ = try PeerMessage.decode(from: &reader)
            count += 1
        }
        #expect(count == PeerMessageTests.all.count)
    }

    /// A message that is cut anywhere is an error. A message with any bit flipped is an error or another
    /// whole message.
    @Test("is no more than an error where it is cut or a bit is flipped")
    func malformed() {
        for message in PeerMessageTests.all {
            let whole = bytes(message)
            for count in 0..<whole.count {
                var reader = ByteReader(Array(whole[..<count]))
                #expect(throws: DecodeError.self) { try PeerMessage.decode(from: &reader) }
            }
            for index in whole.indices {
                for bit in 0..<8 {
                    var bad = whole
                    bad[index] ^= 1 << UInt8(bit)
                    var reader = ByteReader(bad)
                    _ = try? PeerMessage.decode(from: &reader)
                }
            }
        }
    }

    @Test("is refused by name where its kind is unknown")
    func unknownKind() {
        var reader = ByteReader([77, 1, 2, 3])
        let error = #expect(throws: DecodeError.self) { try PeerMessage.decode(from: &reader) }
        #expect(error?.reason == .invalid("a message of an unknown kind 77"))
    }

    @Test("is no more than an error where it is noise")
    func noise() {
        var random = SeededGenerator(seed: 7)
        for _ in 0..<20_000 {
            let count = Int(random.next(upperBound: UInt64(60)))
            var reader = ByteReader((0..<count).map { _ in UInt8(truncatingIfNeeded: random.next()) })
            _ = try? PeerMessage.decode(from: &reader)
        }
    }
}
