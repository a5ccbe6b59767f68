import Bytes
import Model
import Testing

@testable import Partitions

/// Each partition measures a message's time to live by its own clock alone (rule: ages-travel).
@Suite("The age of a message")
struct AgeTests {
    private static let web = Transport(kind: .web, address: Array("endpoint and keys".utf8))
    private static let devices = PartitionID(1)

    /// The clock of the devices' machine is ahead by so many milliseconds, and so is no other.
    private func harness(ahead: Int64) throws -> (PartitionHarness, topic: String) {
        let harness = PartitionHarness()
        let topic = try #require((0..<64).map { "t\($0)" }.first { harness.home($0) != AgeTests.devices })
        harness.ahead[AgeTests.devices] = ahead
        // A clock that is behind is believed when it has passed what was believed before.
        for _ in 0..<12 { harness.pass(seconds: 10) }
        return (harness, topic)
    }

    private func device(_ harness: PartitionHarness, _ topic: String) throws -> (Registration, DeviceMAC) {
        let (device, credential) = try #require(harness.register(in: AgeTests.devices.rawValue))
        _ = harness.change(.subscribe, topic, [device])
        harness.settle()
        return (device, credential)
    }

    @Test(
        "is the same under two clocks: a short time to live is over when it is over",
        arguments: [-50_000, 50_000])
    func twoClocks(ahead: Int64) throws {
        let (harness, topic) = try harness(ahead: ahead)
        let (listening, credential) = try device(harness, topic)
        let (away, _) = try device(harness, topic)
        harness.listen(listening, credential, stream: 1)
        _ = harness.takeEvents()
        harness.publish("m", to: topic, ttl: 10)
        #expect(harness.takeEvents() == ["m"])
        #expect(harness.waitingCount(1, away.index.rawValue) == 1)
        harness.pass(seconds: 9)
        #expect(harness.waitingCount(1, away.index.rawValue) == 1)
        for _ in 0..<7 { harness.pass(seconds: 10) }
        #expect(harness.waitingCount(1, away.index.rawValue) == 0)
    }

    @Test("begins when a partition accepts the message, whatever the gateway's clock shows")
    func accepted() throws {
        let (harness, topic) = try harness(ahead: 0)
        let (one, credential) = try device(harness, topic)
        harness.listen(one, credential, stream: 1)
        _ = harness.takeEvents()
        var message = harness.envelope("m", ttl: 10)
        message.sent = WallTime(milliseconds: message.sent.milliseconds - 50_000)
        _ = harness.request(.sendToDevice(nil, one, message), of: AgeTests.devices)
        _ = harness.request(
            .sendToTopic(
                nil, project: PartitionHarness.project, TopicName(checked: Array(topic.utf8)), message,
                fanoutsMax: 1), of: harness.home(topic))
        #expect(harness.takeEvents() == ["m", "m"])
    }

    @Test("lets a message of now or never be attempted at a push service under another clock")
    func momentary() throws {
        let (harness, topic) = try harness(ahead: 50_000)
        let (one, _) = try device(harness, topic)
        _ = harness.request(.setTransport(one, by: .backend, AgeTests.web), of: AgeTests.devices)
        harness.publish("m", to: topic, ttl: 0)
        #expect(harness.takeJobs() == ["m"])
    }

    @Test("counts the time that a message waits in an outbox, by the clock of the outbox")
    func waits() throws {
        let (harness, topic) = try harness(ahead: -50_000)
        let (one, _) = try device(harness, topic)
        _ = harness.request(.setTransport(one, by: .backend, AgeTests.web), of: AgeTests.devices)
        harness.away = [AgeTests.devices]
        harness.publish("late", to: topic, ttl: 5)
        harness.publish("m", to: topic, ttl: 60)
        harness.pass(seconds: 8)
        harness.away = []
        harness.pass(seconds: 2)
        let jobs = harness.takeAllJobs()
        #expect(jobs.map { String(decoding: $0.job.event, as: UTF8.self) } == ["m"])
        let now = harness.now(at: AgeTests.devices).wall.milliseconds
        #expect(jobs.first?.job.expires.milliseconds == now + 50_000)
        #expect(harness.notices.filter { if case .cameLate(1) = $0 { true } else { false } }.count == 1)
    }

    @Test("lasts over an owner of the outbox whose clock is behind: a message never lives longer than it may")
    func laterOwner() throws {
        let (harness, topic) = try harness(ahead: 0)
        let (one, _) = try device(harness, topic)
        _ = harness.request(.setTransport(one, by: .backend, AgeTests.web), of: AgeTests.devices)
        harness.away = [AgeTests.devices]
        harness.publish("m", to: topic, ttl: 60)
        harness.ahead[harness.home(topic)] = -50_000
        try harness.succeed(Int(harness.home(topic).rawValue))
        harness.away = []
        harness.pass(seconds: 2)
        let now = harness.now.wall.milliseconds
        #expect(harness.takeAllJobs().first?.job.expires.milliseconds == now + 60_000)
    }

    @Test(
        "grows on a frame's way to another process, but for a few seconds",
        arguments: [4, 7, 100] as [UInt64])
    func way(seconds: UInt64) throws {
        let sent = WallTime(milliseconds: 1_000_000)
        let envelope = Envelope(id: MessageID(time: 1, random: 1), event: [], sent: sent, ttlSeconds: 60)
        let entry = OutboxEntry(
            number: Sequence(1), predecessor: .zero,
            items: [.message(project: PartitionHarness.project, envelope, DeviceSet(1))], fingerprint: 0)
        let frame = OutboxFrame(
            from: PartitionID(2), history: History(1), clock: WallTime(milliseconds: 1_003_000),
            underWaySince: MonotonicTime(nanoseconds: 5), entries: [entry])
        var writer = ByteWriter()
        PartitionEvent.offered(frame).encode(into: &writer)
        var reader = ByteReader(writer.bytes)
        let ping = MonotonicTime(nanoseconds: 1_000_000_000)
        let arrived = try PartitionEvent.decode(from: &reader).sent(after: ping)
        guard case .offered(let read) = arrived else {
            Issue.record("\(arrived)")
            return
        }
        let now = Instant(monotonic: ping + .seconds(seconds), wall: WallTime(milliseconds: 9_000_000))
        guard case .message(_, let dated, _)? = read.dated(now).entries.first?.items.first else {
            Issue.record("no message")
            return
        }
        let counted = seconds < 5 ? 0 : Int64(seconds - 5) * 1000
        #expect(dated.sent.milliseconds == 9_000_000 - 3_000 - counted)
    }

    @Test("is bounded, whatever times another process names")
    func bounds() {
        let (first, last) = (WallTime(milliseconds: .min), WallTime(milliseconds: .max))
        #expect(MessageAge(of: first, by: last).milliseconds == MessageAge.max)
        #expect(MessageAge(of: last, by: first).milliseconds == 0)
        let most = MessageAge(milliseconds: .max)
        #expect((most + most).milliseconds == MessageAge.max)
    }
}
