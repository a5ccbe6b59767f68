import Bytes
import Model
import Testing

@testable import Partitions

/// Messages that end at another time for each way to a device (rule: ends-of-their-own).
@Suite("Time to live on each way")
struct EndsTests {
    private static let web = Transport(kind: .web, address: Array("endpoint and keys".utf8))
    private static let apns = Transport(kind: .apns, address: [0, 1, 2])

    /// A device that is subscribed to `news`; with an address at a service where one is given.
    private static func device(
        _ harness: PartitionHarness, _ transport: Transport?
    ) throws -> (device: Registration, credential: DeviceMAC) {
        let (device, credential) = try #require(harness.register(in: 1))
        _ = harness.change(.subscribe, "news", [device])
        if let transport {
            _ = harness.request(.setTransport(device, by: .backend, transport), of: device.partition)
        }
        return (device, credential)
    }

    private static func waiting(_ harness: PartitionHarness, _ device: Registration) -> Int? {
        harness.waitingCount(1, device.index.rawValue)
    }

    private static func times(stream: UInt32, web: UInt32) -> TimesToLive {
        TimesToLive(stream: stream, web: web, apns: 3600, fcm: stream)
    }

    private static func lawsHold(_ harness: PartitionHarness) {
        for partition in harness.partitions {
            _ = partition.brokenInvariant(isWhole: true).map { Issue.record("\($0)") }
        }
    }

    @Test("an android.ttl of 0 does not stop the web copy, and keeps nothing for a device without an address")
    func streamsAtOnce() throws {
        let harness = PartitionHarness()
        let (pushed, _) = try EndsTests.device(harness, EndsTests.web)
        let (listener, _) = try EndsTests.device(harness, nil)
        let (absent, _) = try EndsTests.device(harness, EndsTests.apns)
        harness.publish("a", to: "news", times: EndsTests.times(stream: 0, web: 600))
        #expect(harness.jobs.map(\.job.device) == [pushed.index, absent.index])
        let now = harness.now.wall.milliseconds
        #expect(harness.jobs.map(\.job.expires.milliseconds) == [now + 600_000, now + 3_600_000])
        #expect(harness.jobs.map(\.job.isMomentary) == [false, false])
        #expect(EndsTests.waiting(harness, pushed) == 1)
        #expect(EndsTests.waiting(harness, listener) == 0)
        #expect(EndsTests.waiting(harness, absent) == 1, "an hour at Apple's service")
        EndsTests.lawsHold(harness)
    }

    @Test("a device without an address keeps nothing past the end of streams, though other devices wait")
    func streamsEndFirst() throws {
        let harness = PartitionHarness()
        let (pushed, _) = try EndsTests.device(harness, EndsTests.web)
        let (listener, credential) = try EndsTests.device(harness, nil)
        harness.publish("a", to: "news", times: EndsTests.times(stream: 60, web: 3600))
        #expect(EndsTests.waiting(harness, listener) == 1)
        harness.pass(seconds: 125)
        harness.settle()
        #expect(EndsTests.waiting(harness, listener) == 0)
        #expect(EndsTests.waiting(harness, pushed) == 1)
        harness.listen(listener, credential, stream: 1)
        #expect(harness.takeEvents() == ["attached"])
        // The same from the journal and from a snapshot.
        for succeed in [harness.succeedFromSnapshot, { try harness.succeed($0) }] {
            try succeed(1)
            #expect(EndsTests.waiting(harness, listener) == 0)
            #expect(EndsTests.waiting(harness, pushed) == 1)
        }
        harness.pass(seconds: 3700)
        harness.settle()
        #expect(EndsTests.waiting(harness, pushed) == 0)
        #expect(harness.partitions[1].state.log.nextExpiry == nil)
        EndsTests.lawsHold(harness)
    }

    @Test("nothing is pushed after its end at the service, which was away, and a stream still shows it")
    func servicesEndFirst() throws {
        let harness = PartitionHarness()
        let (device, credential) = try EndsTests.device(harness, EndsTests.web)
        harness.publish("short", to: "news", times: EndsTests.times(stream: 3600, web: 30))
        let (partition, job) = try #require(harness.jobs.last)
        harness.answer(job, of: partition, .later(after: .seconds(40), isFailure: true))
        _ = harness.takeJobs()
        harness.pass(seconds: 41)
        #expect(harness.takeJobs() == [])
        harness.publish("long", to: "news", times: EndsTests.times(stream: 3600, web: 600))
        let next = try #require(harness.jobs.last?.job)
        #expect(harness.takeJobs() == ["long"])
        harness.answer(next, of: partition, .done)
        harness.settle()
        // The service has one message. The other ended there, and still waits for the stream.
        #expect(EndsTests.waiting(harness, device) == 1)
        harness.pass(seconds: 120)
        harness.listen(device, credential, stream: 1)
        #expect(harness.takeEvents() == ["attached", "short"])
        EndsTests.lawsHold(harness)
    }

    @Test("a stream shows a device with an address what its service would still get")
    func streamOfAPushedDevice() throws {
        let harness = PartitionHarness()
        let (device, credential) = try EndsTests.device(harness, EndsTests.web)
        harness.publish("a", to: "news", times: EndsTests.times(stream: 0, web: 600))
        harness.pass(seconds: 70)
        harness.listen(device, credential, stream: 1)
        #expect(harness.takeEvents() == ["attached", "a"])
        harness.pass(seconds: 600)
        harness.listen(device, credential, stream: 2)
        #expect(harness.takeEvents() == ["replaced", "attached"])
    }

    @Test("a device that gives up its address keeps nothing that is over for streams")
    func addressEnds() throws {
        let harness = PartitionHarness()
        let (device, _) = try EndsTests.device(harness, EndsTests.web)
        harness.publish("over", to: "news", times: EndsTests.times(stream: 0, web: 3600))
        harness.publish("waits", to: "news", times: EndsTests.times(stream: 3600, web: 60))
        harness.pass(seconds: 130)
        #expect(EndsTests.waiting(harness, device) == 2)
        _ = harness.request(.endTransport(device, by: .backend, .web), of: device.partition)
        harness.pass(seconds: 1)
        harness.settle()
        #expect(EndsTests.waiting(harness, device) == 1)
        EndsTests.lawsHold(harness)
        harness.pass(seconds: 3600)
        harness.settle()
        #expect(EndsTests.waiting(harness, device) == 0)
    }

    @Test("a device that tells its address later gets what waits, until the earlier of the two ends")
    func addressComes() throws {
        let harness = PartitionHarness()
        let (device, _) = try EndsTests.device(harness, nil)
        harness.publish("short", to: "news", times: EndsTests.times(stream: 3600, web: 60))
        harness.publish("long", to: "news", times: EndsTests.times(stream: 600, web: 3600))
        harness.pass(seconds: 61)
        _ = harness.request(.setTransport(device, by: .backend, EndsTests.web), of: device.partition)
        #expect(harness.jobs.map(\.job.expires.milliseconds) == [harness.now.wall.milliseconds + 539_000])
        #expect(harness.takeJobs() == ["long"])
        #expect(EndsTests.waiting(harness, device) == 2)
    }

    @Test("a message past its project's bytes is a loss for those for whom it would have been kept")
    func overTheBound() throws {
        let harness = PartitionHarness { $0.waitingBytesMax = 3 }
        let (device, credential) = try EndsTests.device(harness, EndsTests.web)
        let (listener, other) = try EndsTests.device(harness, nil)
        harness.listen(listener, other, stream: 1)
        _ = harness.takeEvents()
        harness.publish("fits", to: "news", times: EndsTests.times(stream: 0, web: 600))
        #expect(harness.takeEvents() == ["fits"])
        #expect(EndsTests.waiting(harness, device) == 0)
        harness.listen(device, credential, stream: 2)
        #expect(harness.takeEvents() == ["attached", "deleted"])
    }

    @Test("a message that is late for streams is stored for push services, and shown on no other stream")
    func lateForStreams() throws {
        let harness = PartitionHarness()
        let (pushed, _) = try EndsTests.device(harness, EndsTests.web)
        let (listener, credential) = try EndsTests.device(harness, nil)
        harness.listen(listener, credential, stream: 1)
        _ = harness.takeEvents()
        harness.away = [PartitionID(1)]
        harness.publish("a", to: "news", times: EndsTests.times(stream: 5, web: 600))
        harness.pass(seconds: 20)
        harness.away = []
        harness.pass(seconds: 1)
        harness.settle()
        if harness.home("news") != PartitionID(1) {
            #expect(harness.takeEvents() == [])
            #expect(harness.takeJobs() == ["a"])
        }
        #expect(EndsTests.waiting(harness, pushed) == 1)
    }

    @Test("an open condition is asked for until the last end of its message")
    func conditions() throws {
        let harness = PartitionHarness()
        let (_, _) = try EndsTests.device(harness, EndsTests.web)
        var message = harness.envelope("a")
        message.times = EndsTests.times(stream: 0, web: 600)
        #expect(message.times.longest == 3600)
        let condition = Condition(
            topics: [TopicName(checked: Array("news".utf8))], root: .topic(0))
        let request = Request.sendToCondition(
            nil, project: PartitionHarness.project, condition, message, fanoutsMax: 10)
        _ = harness.request(request, of: harness.home("news"))
        #expect(harness.takeJobs() == ["a"])
    }

    // MARK: Formats

    private func empty() -> PartitionState {
        PartitionState(id: PartitionID(0), history: History(9), partitionCount: 2, names: TopicNames())
    }

    /// A state with every place for a message, and each message with several ends.
    private func state(_ message: Envelope) -> PartitionState {
        var state = empty()
        var cursor = PartitionState.Cursor(record: Sequence(1))
        let (project, other) = (FactSamples.project, PartitionID(1))
        for index in UInt32(0)..<3 {
            state.apply(
                .register(index: index, project: project, nonce: index, secret: 1, day: Day(3)), &cursor)
        }
        state.apply(.setTransport(index: 0, EndsTests.web, at: WallTime(milliseconds: 1)), &cursor)
        let entry = OutboxEntry(
            number: Sequence(4), predecessor: .zero,
            items: [
                .join(project: project, topic: FactSamples.topic, indices: [0, 1]),
                .message(project: project, message, DeviceSet(sorted: [0, 1])),
            ], fingerprint: 3)
        var decision = DeliveryDecision(disposition: .passing, position: Position(1 << 50))
        if !message.times.areSame { decision.reach = .all } else { decision.disposition = .stored }
        state.apply(
            .receive(from: other, history: History(8), entry: entry, decisions: [decision]), &cursor)
        state.apply(.accept(key: nil, project: project, topic: FactSamples.topic, message: message), &cursor)
        let condition = Condition(topics: [FactSamples.topic], root: .topic(0))
        var second = message
        second.id = MessageID(time: 2, random: 2)
        state.apply(
            .acceptCondition(key: nil, project: project, condition: condition, message: second), &cursor)
        state.applied = Sequence(1)
        return state
    }

    @Test("are read back from a snapshot")
    func snapshots() throws {
        let several = state(FactSamples.severalEnds)
        var read = empty()
        try read.restore(SnapshotWriter.whole(of: several))
        #expect(read.lines() == several.lines())
        #expect(read.brokenInvariant == several.brokenInvariant)
        var entries: [EntryEnds] = []
        read.log.forEach { entries.append($0.ends) }
        let sent = FactSamples.severalEnds.sent.milliseconds
        let web = WallTime(milliseconds: sent + 2_419_200_000)
        let never = EntryEnds.never
        #expect(
            entries == [
                EntryEnds(stream: never, web: web, apns: never, fcm: never, at: Position(1 << 50))
            ])
    }

    @Test("a snapshot with several ends that is cut or damaged is refused, or is another state")
    func damagedSnapshots() throws {
        let bytes = SnapshotWriter.whole(of: state(FactSamples.severalEnds))
        for length in 0..<bytes.count {
            var half = empty()
            #expect(throws: DecodeError.self) { try half.restore(Array(bytes.prefix(length))) }
        }
        for index in bytes.indices {
            for bit in 0..<8 {
                var damaged = bytes
                damaged[index] ^= 1 << UInt8(bit)
                var read = empty()
                guard (try? read.restore(damaged)) != nil else { continue }
                #expect(!SnapshotWriter.image(of: read).isEmpty)
                _ = read.log.nextExpiry
            }
        }
    }

    @Test("flags of a decision that no owner writes are refused")
    func decisions() {
        for flags in [16, 128, 129, 130, 16 + 3, 255] as [UInt8] {
            var reader = ByteReader([flags, 5, 0, 0])
            #expect(throws: DecodeError.self) { _ = try reader.decision() }
        }
        let several: UInt8 = 16 | 128 | 2
        var reader = ByteReader([several, 5])
        #expect(throws: Never.self) { _ = try reader.decision() }
    }

    @Test("requests and frames carry all times to live between nodes")
    func wire() throws {
        let (project, message) = (FactSamples.project, FactSamples.severalEnds)
        let condition = Condition(topics: [FactSamples.topic], root: .topic(0))
        let device = Registration(
            project: project, partition: PartitionID(3), index: DeviceIndex(1), nonce: 1, key: 1)
        let requests: [Request] = [
            .sendToTopic(nil, project: project, FactSamples.topic, message, fanoutsMax: 3),
            .sendToCondition(nil, project: project, condition, message, fanoutsMax: 3),
            .sendToDevice(nil, device, message),
        ]
        for request in requests {
            var writer = ByteWriter()
            request.encode(into: &writer)
            var reader = ByteReader(writer.bytes)
            switch try Request.decode(from: &reader) {
            case .sendToTopic(_, _, _, let read, _), .sendToCondition(_, _, _, let read, _),
                .sendToDevice(_, _, let read):
                #expect(read == message)
            default: Issue.record("another request")
            }
            try reader.expectEnd()
        }
    }

    @Test("an entry of the log has no more bytes than before")
    func size() { #expect(MemoryLayout<LogEntry>.stride == 56) }
}
