import Journal
import Model
import Testing

@testable import Partitions

/// Each acknowledged send must fit into the records that it makes, at its topic and at its devices.
@Suite("Records and outbox entries are bounded in bytes")
struct RecordBoundTests {
    /// `count` devices of one partition, every second one, subscribe to a topic of another partition. Their
    /// set takes 2 bytes for each.
    private func subscribe(_ count: Int, _ harness: PartitionHarness) throws -> (
        devices: PartitionID, topic: String
    ) {
        let topic = try #require(
            (0..<100).lazy.map { "news-\($0)" }.first { harness.home($0) == PartitionID(1) })
        let devices = (0..<2 * count).compactMap { _ in harness.register(in: 0)?.0 }
        #expect(devices.count == 2 * count)
        let subscribing = devices.filter { $0.index.rawValue % 2 == 0 }
        for start in stride(from: 0, to: count, by: 1000) {
            _ = harness.change(.subscribe, topic, Array(subscribing[start..<min(start + 1000, count)]))
        }
        return (PartitionID(0), topic)
    }

    /// A quarter of every bound, and of the 500 sends that a slow commit may gather.
    @Test("125 sends to 4,000 devices in one commit arrive, in records of at most a megabyte")
    func oneEntry() throws {
        let harness = PartitionHarness(count: 2) {
            $0.recordBytesMax = 1 << 18
            $0.entryBytesMax = 1 << 19
            $0.offerBytesMax = 1 << 20
        }
        let (devices, topic) = try subscribe(4000, harness)
        let text = String(repeating: "x", count: 1000)
        harness.holdsAppends = true
        var accepted = 0
        for _ in 0..<126 {
            if case .accepted = harness.publish(text, to: topic) { accepted += 1 }
        }
        #expect(accepted == 0, "nothing is durable yet")
        harness.holdsAppends = false
        harness.releaseAppends()
        harness.settle()
        for case .accepted in harness.replies.values { accepted += 1 }
        #expect(accepted == 126)
        // Each device has room for 100 messages, and lost all earlier ones with the 101st.
        #expect(harness.waitingCount(0, 0) == 26)
        #expect(harness.partitions[1].state.outboxes[devices]?.isEmpty ?? false)
        #expect(harness.recordBytesMost <= 1 << 20)
        #expect(harness.offerBytesMost <= 3 << 19)
    }

    @Test("a backlog of 64 records of 17 sends of 4 kB comes in when its receiver is back")
    func backlog() throws {
        let harness = PartitionHarness(count: 2)
        let (devices, topic) = try subscribe(60, harness)
        let text = String(repeating: "x", count: 4000)
        harness.away = [devices]
        harness.holdsAppends = true
        harness.publish("first", to: topic, key: "k")
        for _ in 0..<64 {
            for _ in 0..<17 { harness.publish(text, to: topic, key: "k") }
            harness.releaseAppends(1)
        }
        harness.holdsAppends = false
        harness.releaseAppends()
        harness.away = []
        for _ in 0..<4 { harness.settle() }
        #expect(harness.partitions[1].state.outboxes[devices]?.isEmpty ?? false)
        #expect(harness.recordBytesMost <= RecordCodec.bodyBytesMax)
        #expect(harness.offerBytesMost <= 5 << 20)
    }

    /// Each stream that begins writes down what its device acknowledges by `Last-Event-ID`.
    @Test("a stream that would begin while the journal is behind is refused")
    func attaching() throws {
        let harness = PartitionHarness(count: 1) {
            $0.recordBytesMax = 200
            $0.recordsInFlightMax = 1
        }
        let (device, credential) = try #require(harness.register(in: 0))
        harness.holdsAppends = true
        for _ in 0..<20 { harness.publish(String(repeating: "x", count: 100), to: "news") }
        harness.listen(device, credential, stream: 1)
        let refused = harness.frames.contains {
            if case .refused(_, .unavailable) = $0 { true } else { false }
        }
        #expect(refused, "\(harness.frames)")
        harness.holdsAppends = false
        harness.releaseAppends()
        harness.listen(device, credential, stream: 2)
        #expect(harness.frames.contains { if case .attached = $0 { true } else { false } })
    }

    @Test("a frame for which the journal has no room comes in without being offered again")
    func deferred() throws {
        let harness = PartitionHarness(count: 2) {
            $0.recordBytesMax = 1000
            $0.recordsInFlightMax = 2
        }
        let (devices, _) = try subscribe(3, harness)
        let mark = harness.mark(of: 1, at: 0)
        var entries: [OutboxEntry] = []
        for number in 1...50 as ClosedRange<UInt64> {
            let text = String(repeating: "x", count: 300)
            entries.append(
                OutboxEntry(
                    number: Sequence(mark.rawValue + number),
                    predecessor: Sequence(mark.rawValue + number - 1),
                    items: [
                        .message(project: PartitionHarness.project, harness.envelope(text), DeviceSet(0))
                    ],
                    fingerprint: 0))
        }
        harness.send(
            .offered(
                OutboxFrame(
                    from: PartitionID(1), history: harness.partitions[1].history, clock: harness.now.wall,
                    entries: entries)),
            to: devices)
        #expect(harness.waitingCount(0, 0) == 50)
        #expect(harness.recordBytesMost < 2000)
    }

    /// A partition that is away for long must not fill the memory of partitions with entries for it.
    @Test("changes are refused while too much waits for the topic's partition, and go on when it is back")
    func outboxes() throws {
        let harness = PartitionHarness(count: 2) { $0.outboxBytesMax = 2000 }
        let (_, topic) = try subscribe(40, harness)
        let devices = (0..<200).compactMap { _ in harness.register(in: 0)?.0 }
        harness.away = [PartitionID(1)]
        for device in devices { _ = harness.change(.subscribe, topic, [device]) }
        #expect((2000..<2200).contains(harness.outboxBytes(from: 0, to: 1)))
        let last = try #require(devices.last)
        guard
            case .refused(.unavailable) = harness.request(
                .change(
                    .subscribe, project: PartitionHarness.project,
                    topic: TopicName(checked: Array(topic.utf8)),
                    devices: [last], by: .backend), of: PartitionID(0))
        else {
            Issue.record("it is not refused")
            return
        }
        harness.away = []
        harness.settle()
        #expect(harness.outboxBytes(from: 0, to: 1) == 0)
        #expect(harness.change(.subscribe, topic, [last]) == [.changed(harness.now.wall.day)])
    }

    /// Journals hold entries that were acknowledged before there was a bound: receivers must take them.
    @Test("an entry that is larger than a record is received in parts", arguments: [1 << 20, 4000])
    func parts(recordBytesMax: Int) throws {
        let harness = PartitionHarness(count: 2) { $0.recordBytesMax = recordBytesMax }
        let (devices, topic) = try subscribe(600, harness)
        let all = DeviceSet(sorted: (0..<600).map { UInt32($0 * 2) })
        let mark =
            harness.partitions[0].state.marks[PartitionID(1)]
            ?? InboxMark(history: harness.partitions[1].history, number: .zero, fingerprint: 0)
        var items: [OutboxItem] = []
        for number in 0..<90 {
            let text = String(repeating: "x", count: 20_000 / (recordBytesMax == 4000 ? 20 : 1))
            items.append(
                .message(project: PartitionHarness.project, harness.envelope("\(number) \(text)"), all))
        }
        let entry = OutboxEntry(
            number: Sequence(1_000), predecessor: mark.number, items: items, fingerprint: mark.fingerprint)
        let frame = OutboxFrame(
            from: PartitionID(1), history: harness.partitions[1].history, clock: harness.now.wall,
            entries: [entry])
        harness.away = []
        for _ in 0..<30 {
            harness.send(.offered(frame), to: devices)
            if harness.partitions[0].state.marks[PartitionID(1)]?.number == Sequence(1_000) { break }
        }
        _ = topic
        #expect(harness.partitions[0].state.marks[PartitionID(1)]?.number == Sequence(1_000))
        #expect(harness.recordBytesMost <= max(recordBytesMax * 2, 10_000))
        #expect(harness.waitingCount(0, 598) == 90)
        #expect(try harness.replayed(0).image() == harness.partitions[0].image())
        // The body of each part is in the record that applied the part.
        let partition = try harness.replayed(0)
        let entries = partition.state.log.waiting(for: 598, after: .zero, limit: 1000)
        let texts = entries.compactMap { entry -> String? in
            guard let body = harness.journal[0].first(where: { $0.0 == entry.record })?.1 else { return nil }
            let event = Fact.events(in: body)[Int(entry.ordinal)]
            return String(decoding: event, as: UTF8.self).split(separator: " ").first.map(String.init)
        }
        #expect(texts == (0..<90).map(String.init))
    }
}
