import Model
import Testing

@testable import Partitions

@Suite("What has expired")
struct ExpiredTests {
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
