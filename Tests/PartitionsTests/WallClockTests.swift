import Model
import Testing

@testable import Partitions

/// A wall clock may show anything. A partition lets it decide about devices and messages only while it goes
/// with the monotonic clock, which cannot be set (rule: wall-time-is-a-witness).
@Suite("A wall clock that is wrong")
struct WallClockTests {
    private static let day: Int64 = 86_400

    private func leap(_ house: House, days: Int64) {
        house.now.wall = WallTime(
            milliseconds: house.now.wall.milliseconds + days * WallClockTests.day * 1000)
    }

    @Test("for a minute ends no device and no message", arguments: [271, -20_833, 3650] as [Int64])
    func leap(days: Int64) throws {
        let house = House(count: 1)
        let (device, credential) = try #require(house.register(in: 0))
        let (away, _) = try #require(house.register(in: 0))
        house.settle()
        _ = house.request(.sendToDevice(nil, away, house.envelope("m1", ttl: 86_400)), of: PartitionID(0))
        let two = house.envelope("m2", ttl: 86_400)
        leap(house, days: days)
        for _ in 0..<6 { house.pass(seconds: 10) }
        // The partition dates streams and messages of this minute as if nothing had happened.
        house.listen(device, credential, stream: 1)
        _ = house.request(.sendToDevice(nil, away, two), of: PartitionID(0))
        #expect(house.takeEvents() == ["attached"])
        #expect(house.waitingCount(0, away.index.rawValue) == 2)
        leap(house, days: -days)
        house.pass(seconds: 10)
        guard house.notices.count == 2, case .clockLeapt(let ahead) = house.notices[0] else {
            Issue.record("\(house.notices)")
            return
        }
        #expect(abs(ahead - days * 86_400_000) < 60_000 && house.notices[1] == .clockAgrees)
        house.send(
            .stream(.detach(StreamID(gateway: House.gateway, number: 1), device.index)), to: PartitionID(0))
        for _ in 0..<8 { house.pass(seconds: WallClockTests.day / 8 * 2) }
        #expect(house.partitions[0].deviceCount == 2)
        // More than the messages' time to live, one day, is over now.
        #expect(house.waitingCount(0, away.index.rawValue) == 0)
    }

    @Test("for a minute does not keep those who come from what waits for them")
    func waiting() throws {
        let house = House(count: 1)
        let (device, credential) = try #require(house.register(in: 0))
        house.settle()
        _ = house.request(.sendToDevice(nil, device, house.envelope("m1")), of: PartitionID(0))
        leap(house, days: 271)
        house.pass(seconds: 10)
        house.listen(device, credential, stream: 1)
        #expect(house.takeEvents() == ["attached", "m1"])
    }

    @Test("days that really pass end a device that nobody saw")
    func unseen() throws {
        let house = House(count: 1)
        _ = try #require(house.register(in: 0))
        for _ in 0..<(269 * 4) { house.pass(seconds: WallClockTests.day / 4) }
        #expect(house.partitions[0].deviceCount == 1)
        for _ in 0..<(4 * 4) { house.pass(seconds: WallClockTests.day / 4) }
        #expect(house.partitions[0].deviceCount == 0)
    }

    @Test("a device that listens for a year is not unseen, also not for a new owner or when it hangs up")
    func listening() throws {
        let house = House(count: 1)
        let (first, one) = try #require(house.register(in: 0))
        let (second, other) = try #require(house.register(in: 0))
        house.listen(first, one, stream: 1)
        house.listen(second, other, stream: 2)
        for _ in 0..<(365 * 4) { house.pass(seconds: WallClockTests.day / 4) }
        house.send(
            .stream(.detach(StreamID(gateway: House.gateway, number: 1), first.index)), to: PartitionID(0))
        house.settle()
        for _ in 0..<8 { house.pass(seconds: WallClockTests.day / 4) }
        #expect(house.partitions[0].deviceCount == 2)
        try house.succeed(0)
        for _ in 0..<8 { house.pass(seconds: WallClockTests.day / 4) }
        #expect(house.partitions[0].deviceCount == 2)
    }

    @Test("not more than a bound of devices ends in a day, and in slices that fit into records")
    func pace() throws {
        let house = House(count: 1)
        for number in 0..<2500 { #expect(house.register(in: 0) != nil, "\(number)") }
        // A machine that begins cannot know that its clock is wrong.
        leap(house, days: 300)
        try house.succeed(0)
        for _ in 0..<4 { house.pass(seconds: 60) }
        #expect(house.partitions[0].deviceCount == 1500)
        for _ in 0..<16 { house.pass(seconds: WallClockTests.day / 4) }
        #expect(house.partitions[0].deviceCount == 0)
    }
}
