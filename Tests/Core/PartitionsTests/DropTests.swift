import Model
import Testing

@testable import Partitions

@Suite("Messages that devices lose")
struct DropTests {
    private let harness = PartitionHarness(count: 1)

    private func drops(_ harness: PartitionHarness) -> [DropReason: Int] {
        var all = MessageDrops()
        for case .dropped(let drops) in harness.notices { all.add(drops) }
        return all.counts
    }

    private func send(_ text: String, to device: Registration, _ harness: PartitionHarness) {
        _ = harness.request(.sendToDevice(nil, device, harness.envelope(text)), of: device.partition)
    }

    private func waiting(_ device: Registration, _ harness: PartitionHarness) -> Int? {
        let one = harness.request(.device(device, by: .backend), of: device.partition)
        guard case .device(let state, _, _)? = one else { return nil }
        return state.waitingCount
    }

    @Test("are counted when one more comes than may wait, also under another owner")
    func waitingMax() throws {
        let (device, _) = try #require(harness.register(in: 0))
        for number in 1...150 {
            send("\(number)", to: device, harness)
        }
        #expect(drops(harness) == [.waitingMax: 100])
        #expect(waiting(device, harness) == 50)
        try harness.succeed(0)
        harness.settle()
        #expect(drops(harness) == [.waitingMax: 100], "an owner that reads the records counts none again")
    }

    @Test("are counted when another message takes their place, and when a fifth key comes")
    func keys() throws {
        let (device, _) = try #require(harness.register(in: 0))
        for key in ["a", "a", "b", "c", "d", "e"] {
            _ = harness.request(
                .sendToDevice(nil, device, harness.envelope("m", key: key)), of: device.partition)
        }
        #expect(drops(harness) == [.collapsed: 1, .keysMax: 1])
        #expect(waiting(device, harness) == 4)
    }

    @Test("are counted when their time to live is over, and do not wait before the log looks")
    func expired() throws {
        let (device, _) = try #require(harness.register(in: 0))
        _ = harness.request(.sendToDevice(nil, device, harness.envelope("m", ttl: 1)), of: device.partition)
        _ = harness.request(.sendToDevice(nil, device, harness.envelope("n", ttl: 600)), of: device.partition)
        #expect(waiting(device, harness) == 2)
        harness.now.monotonic = harness.now.monotonic.advanced(by: .seconds(2))
        harness.now.wall = WallTime(milliseconds: harness.now.wall.milliseconds + 2000)
        #expect(waiting(device, harness) == 1 && drops(harness).isEmpty)
        harness.pass(seconds: 60)
        harness.settle()
        #expect(waiting(device, harness) == 1)
        #expect(drops(harness) == [.expired: 1])
    }

    @Test("are counted when the device ends")
    func ended() throws {
        let (device, _) = try #require(harness.register(in: 0))
        for number in 1...3 {
            send("\(number)", to: device, harness)
        }
        _ = harness.request(.unregister(device, by: .backend), of: device.partition)
        #expect(drops(harness) == [.deviceEnded: 3])
    }

    @Test("are counted only when the record is durable")
    func durable() throws {
        let (device, _) = try #require(harness.register(in: 0))
        for number in 1...100 {
            send("\(number)", to: device, harness)
        }
        harness.holdsAppends = true
        send("101", to: device, harness)
        #expect(drops(harness).isEmpty)
        harness.releaseAppends()
        #expect(drops(harness) == [.waitingMax: 100])
    }
}
