import Bytes
import Model
import StoredFormats
import Testing

@testable import Partitions
@testable import Quotas
@testable import Routing

/// A node must understand the messages of closed revisions, and must write them as those revisions do.
@Suite("Messages of closed revisions") struct StoredMessagesTests {
    /// At least one message of each kind.
    private static var samples: [PeerMessage] {
        let (here, there) = (PartitionID(3), PartitionID(9))
        let (project, topic) = (PeerMessageTests.project, PeerMessageTests.topic)
        let gateway = GatewayID(0x123401)
        let few = DeviceSet(sorted: [3, 700, 1 << 27])
        let many = DeviceSet(sorted: (0..<200).map { UInt32($0 * $0) })
        let entries = [few, many].map {
            OutboxEntry(
                number: Sequence(500), predecessor: Sequence(499),
                items: [
                    .message(project: project, PeerMessageTests.message, $0),
                    .join(project: project, topic: topic, indices: [1, 2, 900]),
                    .leave(project: project, topic: topic, indices: [0]),
                    .replace(
                        PairSlice(
                            number: 1, count: 3,
                            topics: [.init(project: project, topic: topic, indices: [4, 5])])),
                ], fingerprint: 0xFEED)
        }
        var frame = OutboxFrame(
            from: there, history: History(8), generation: 2, clock: WallTime(milliseconds: 1_800_000_000_500),
            entries: entries)
        frame.cuts.append(.init(generation: 1, kept: Sequence(77)))
        frame.floor = Sequence(400)
        let ticket = ConditionTicket(record: Sequence(8), ordinal: 2)
        let condition = Condition(topics: [topic, topic], root: .or(.topic(0), .not(.topic(1))))
        let events: [PartitionEvent] = [
            .offered(frame),
            .acknowledged(
                .init(from: there, history: History(8), generation: 2, mark: Sequence(500), fingerprint: 7)),
            .asked(.init(asker: there, ticket: ticket, project: project, condition: condition)),
            .told(.init(ticket: ticket, partition: here, devices: few)),
        ]
        let item = StreamFrame.PushItem(
            position: Position(4), event: Array("{}".utf8), targets: many, deleted: few)
        let frames: [StreamFrame] = [
            .push(.init(epoch: Epoch(5), number: 6, items: [item, item])),
            .push(.init(epoch: Epoch(5), number: 7, items: [])),
            .cutOff(.init(epoch: Epoch(5), number: 8, position: Position(9), devices: few)),
        ]
        let devices = [
            DeviceState(
                index: DeviceIndex(3), nonce: 4, lastSeen: Day(5), topicCount: 6, waitingCount: 7)
        ]
        let spender = SpenderID(9)
        return PeerMessageTests.all + events.map { .partition(here, $0) }
            + frames.map { .stream(from: there, to: gateway, $0) }
            + [
                .reply(PeerMessageTests.id, .devices(devices, next: 4)),
                .reply(PeerMessageTests.id, .matching(few)), .gossip([1, 2, 3]),
                .quotaRequest(
                    QuotaRequest(
                        spender: spender, project: project, kind: .sends, number: 1, grantorEpoch: Epoch(2),
                        applied: 3, floor: 4, spent: 5, shareSpent: 6, shareOffset: .nanoseconds(7), held: 8,
                        demand: 9,
                        needed: 10, demandPerSecond: 11, isRelease: true)),
                .quotaGrant(
                    QuotaGrant(
                        spender: spender, project: project, kind: .registrations, number: 1,
                        grantorEpoch: Epoch(2), tokens: 3, leaseLength: .nanoseconds(4), shareRate: 5,
                        shareLength: .nanoseconds(6),
                        retryAfter: .nanoseconds(7), rate: QuotaRate(count: 8, perSeconds: 9, burst: 10))),
            ]
    }

    private func bytes(_ message: PeerMessage) -> [UInt8] {
        var out = ByteWriter()
        message.encode(into: &out)
        return out.bytes
    }

    @Test("are read, and written as those revisions did")
    func asThen() throws {
        let samples = StoredMessagesTests.samples.enumerated().map {
            StoredFormats.Sample("message-\($0)", bytes($1))
        }
        let stored = try StoredFormats.read("messages.txt", recording: samples)
        #expect(!stored.isEmpty)
        for (revision, samples) in stored {
            for sample in samples {
                var reader = ByteReader(sample.bytes)
                let message = try PeerMessage.decode(from: &reader)
                #expect(reader.isAtEnd && bytes(message) == sample.bytes, "\(revision) \(sample.name)")
            }
            // Each revision has samples of all its kinds: the first byte of a message is its kind.
            #expect(Set(samples.compactMap(\.bytes.first)).isSuperset(of: 1...13), "\(revision)")
        }
    }
}
