import Model
import Testing

@testable import Partitions

@Suite("What comes to a listening device at once")
struct BurstTests {
    /// 164 messages wait that the gateway has written, and a burst comes in one record.
    @Test(
        "passes 64 at a time, once for each step that is reached",
        arguments: [(1, 101), (2, 102), (3, 103), (64, 164), (65, 101), (66, 102)])
    func steps(burst: Int, left: Int) throws {
        let (harness, device) = try full()
        harness.publishTogether((1...burst).map { "b\($0)" }, to: "news")
        #expect(harness.waitingCount(0, device.index.rawValue) == left)
    }

    @Test(
        "finds room for a hundred more where its stream has fallen behind",
        arguments: [(1, 165, 100), (100, 264, 100), (101, 1, 1), (202, 102, 102)])
    func behind(burst: Int, left: Int, afterwards: Int) throws {
        for isTogether in [false, true] {
            let (harness, device) = try full()
            let waiting = harness.partitions[0].state.log.waiting(
                for: device.index.rawValue, after: .zero, limit: 1000)
            let written = waiting.last?.position ?? .zero
            harness.send(
                .stream(.fellBehind(stream, device.index, written: written)), to: device.partition)
            let texts = (1...burst).map { "b\($0)" }
            if isTogether {
                harness.publishTogether(texts, to: "news")
            } else {
                for text in texts { harness.publish(text, to: "news") }
            }
            #expect(harness.waitingCount(0, device.index.rawValue) == left)
            // The messages that the gateway wrote pass as delivered.
            harness.send(.stream(.detach(stream, device.index)), to: device.partition)
            #expect(harness.waitingCount(0, device.index.rawValue) == afterwards)
        }
    }

    @Test(
        "stays where a stream that had fallen behind is replaced, or its gateway is gone",
        arguments: [true, false])
    func kept(isReplaced: Bool) throws {
        let (harness, device) = try full()
        let waiting = harness.partitions[0].state.log.waiting(
            for: device.index.rawValue, after: .zero, limit: 1000)
        let written = try #require(waiting.last?.position)
        harness.send(.stream(.fellBehind(stream, device.index, written: written)), to: device.partition)
        if isReplaced {
            let next = StreamID(gateway: PartitionHarness.gateway, number: 2)
            harness.send(.stream(.attach(next, device, by: .backend, resume: nil)), to: device.partition)
        } else {
            harness.partitions[0].forgetGateways { _ in true }
        }
        #expect(harness.waitingCount(0, device.index.rawValue) == 164)
    }

    private let stream = StreamID(gateway: PartitionHarness.gateway, number: 1)

    /// A listening device that has acknowledged none of 164 messages. Its gateway has written all of them.
    private func full() throws -> (PartitionHarness, Registration) {
        let harness = PartitionHarness()
        let (device, credential) = try #require(harness.register(in: 0))
        _ = harness.change(.subscribe, "news", [device])
        harness.listen(device, credential, stream: 1)
        for number in 1...164 {
            harness.publish("m\(number)", to: "news")
            if case .push(let push) = harness.frames.last {
                harness.send(
                    .stream(.processed(PartitionHarness.gateway, frame: push.number)), to: device.partition)
            }
        }
        #expect(harness.waitingCount(0, device.index.rawValue) == 164)
        return (harness, device)
    }

    @Test("does not hide what waits behind it when its own time is over")
    func expired() throws {
        let harness = PartitionHarness()
        let (device, credential) = try #require(harness.register(in: 0))
        _ = harness.change(.subscribe, "news", [device])
        harness.listen(device, credential, stream: 1)
        for number in 1...1000 { harness.publish("m\(number)", to: "news", ttl: 1) }
        harness.publish("kept", to: "news", key: "k")
        _ = harness.takeEvents()
        harness.now.wall = WallTime(milliseconds: harness.now.wall.milliseconds + 2000)
        harness.listen(device, credential, stream: 2)
        #expect(harness.takeEvents() == ["replaced", "attached", "kept"])
    }
}

@Suite("The numbers of confirmations")
struct ConfirmationNumberTests {
    @Test("may pass 2^32 in one machine", arguments: [UInt64(1), 0xFFFF_FFFE])
    func wide(before: UInt64) throws {
        let harness = PartitionHarness()
        let (device, _) = try #require(harness.register(in: 0))
        _ = harness.change(.subscribe, "news", [device])
        harness.settle()
        harness.partitions[0].lastToken = before
        let numbers: [UInt64] = [900, 901]
        let requests = try numbers.map { number -> PartitionEvent in
            let request = Request.change(
                .subscribe, project: PartitionHarness.project, topic: try #require(TopicName("news")),
                devices: [device], by: .backend)
            return .request(RequestID(gateway: PartitionHarness.gateway, number: number), request)
        }
        harness.sendTogether(requests, to: PartitionID(0), inTurns: true)
        #expect(numbers.allSatisfy { harness.replies[$0] != nil })
    }
}
