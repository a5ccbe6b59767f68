import Model
import Testing

@testable import Partitions

@Suite("The timers of a partition")
struct TimerTests {
    @Test("do not pile up while it is busy and idle in turns")
    func busyAndIdle() throws {
        let house = House()
        let (device, _) = try #require(house.register(in: 0))
        _ = house.change(.subscribe, "news", [device])
        for number in 1...200 {
            house.publish("m\(number)", to: "news", ttl: 60)
            for _ in 0..<3 {
                house.now.monotonic = house.now.monotonic.advanced(by: .seconds(1))
                house.fireTimers()
            }
        }
        for id in (0..<UInt16(4)).map({ PartitionID($0) }) {
            let set = house.timers.filter { $0.partition == id }.map(\.at)
            #expect(set.count <= 4, "partition \(id.rawValue)")
            #expect(set == house.partitions[Int(id.rawValue)].wakes, "what it takes for set is set")
        }
    }
}
