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
        let (house, device) = try full()
        house.publishTogether((1...burst).map { "b\($0)" }, to: "news")
        #expect(house.waitingCount(0, device.index.rawValue) == left)
    }

    @Test(
        "finds room for a hundred more where its stream has fallen behind",
        arguments: [(1, 165, 100), (100, 264, 100), (101, 1, 1), (202, 102, 102)])
    func behind(burst: Int, left: Int, afterwards: Int) throws {
        for isTogether in [false, true] {
            let (house, device) = try full()
            let waiting = house.partitions[0].state.log.waiting(
                for: device.index.rawValue, after: .zero, limit: 1000)
            let written = waiting.last?.position ?? .zero
            house.send(
                .stream(.fellBehind(stream, device.index, written: written)), to: device.partition)
            let texts = (1...burst).map { "b\($0)" }
            if isTogether {
                house.publishTogether(texts, to: "news")
            } else {
                for text in texts { house.publish(text, to: "news") }
            }
            #expect(house.waitingCount(0, device.index.rawValue) == left)
            // The messages that the gateway wrote pass as delivered.
            house.send(.stream(.detach(stream, device.index)), to: device.partition)
            #expect(house.waitingCount(0, device.index.rawValue) == afterwards)
        }
    }

    @Test(
        "stays where a stream that had fallen behind is replaced, or its gateway is gone",
        arguments: [true, false])
    func kept(isReplaced: Bool) throws {
        let (house, device) = try full()
        let waiting = house.partitions[0].state.log.waiting(
            for: device.index.rawValue, after: .zero, limit: 1000)
        let written = try #require(waiting.last?.position)
        house.send(.stream(.fellBehind(stream, device.index, written: written)), to: device.partition)
        if isReplaced {
            let next = StreamID(gateway: House.gateway, number: 2)
            house.send(.stream(.attach(next, device, by: .backend, resume: nil)), to: device.partition)
        } else {
            house.partitions[0].forgetGateways { _ in true }
        }
        #expect(house.waitingCount(0, device.index.rawValue) == 164)
    }

    private let stream = StreamID(gateway: House.gateway, number: 1)

    /// A listening device that has acknowledged none of 164 messages. Its gateway has written all of them.
    private func full() throws -> (House, Registration) {
        let house = House()
        let (device, credential) = try #require(house.register(in: 0))
        _ = house.change(.subscribe, "news", [device])
        house.listen(device, credential, stream: 1)
        for number in 1...164 {
            house.publish("m\(number)", to: "news")
            if case .push(let push) = house.frames.last {
                house.send(.stream(.processed(House.gateway, frame: push.number)), to: device.partition)
            }
        }
        #expect(house.waitingCount(0, device.index.rawValue) == 164)
        return (house, device)
    }

    @Test("does not hide what waits behind it when its own time is over")
    func expired() throws {
        let house = House()
        let (device, credential) = try #require(house.register(in: 0))
        _ = house.change(.subscribe, "news", [device])
        house.listen(device, credential, stream: 1)
        for number in 1...1000 { house.publish("m\(number)", to: "news", ttl: 1) }
        house.publish("kept", to: "news", key: "k")
        _ = house.takeEvents()
        house.now.wall = WallTime(milliseconds: house.now.wall.milliseconds + 2000)
        house.listen(device, credential, stream: 2)
        #expect(house.takeEvents() == ["replaced", "attached", "kept"])
    }
}

@Suite("The numbers of confirmations")
struct ConfirmationNumberTests {
    @Test("may pass 2^32 in one machine", arguments: [UInt64(1), 0xFFFF_FFFE])
    func wide(before: UInt64) throws {
        let house = House()
        let (device, _) = try #require(house.register(in: 0))
        _ = house.change(.subscribe, "news", [device])
        house.settle()
        house.partitions[0].lastToken = before
        let numbers: [UInt64] = [900, 901]
        let requests = try numbers.map { number -> PartitionEvent in
            let request = Request.change(
                .subscribe, project: House.project, topic: try #require(TopicName("news")),
                devices: [device], by: .backend)
            return .request(RequestID(gateway: House.gateway, number: number), request)
        }
        house.sendTogether(requests, to: PartitionID(0), inTurns: true)
        #expect(numbers.allSatisfy { house.replies[$0] != nil })
    }
}
