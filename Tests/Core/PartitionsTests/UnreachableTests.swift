import Model
import Testing

@testable import Partitions

/// Devices whose addresses are gone end some time later, with their topics (rule: unreachable-devices-end).
@Suite("A device that no push service knows any more")
struct UnreachableTests {
    private static let hour: Int64 = 3600
    private static let time: UInt64 = 24

    /// A device in partition 1 whose only address is gone. Its topic `news` may be anywhere.
    private func goneDevice(
        _ harness: PartitionHarness, _ transport: Transport = PushTests.web
    ) throws -> (device: Registration, credential: DeviceMAC) {
        let device = try PushTests.device(harness, transport)
        _ = harness.request(
            .sendToDevice(nil, device.device, harness.envelope("a")), of: device.device.partition)
        try PushTests.answer(harness, .gone)
        harness.settle()
        return device
    }

    private func harness(_ change: (inout PartitionOptions) -> Void = { _ in }) -> PartitionHarness {
        PartitionHarness {
            $0.unreachableMax = .seconds(UnreachableTests.time * 3600)
            change(&$0)
        }
    }

    private func members(_ harness: PartitionHarness) -> UInt64? {
        let name = TopicName(checked: Array("news".utf8))
        let reply = harness.request(
            .members(project: PartitionHarness.project, name), of: harness.home("news"))
        guard case .members(let members) = reply else { return nil }
        return members
    }

    private func pass(_ hours: Int, _ harness: PartitionHarness) {
        for _ in 0..<hours { harness.pass(seconds: UnreachableTests.hour) }
        harness.settle()
    }

    private func tell(_ harness: PartitionHarness, _ device: Registration, _ address: String) {
        let transport = Transport(kind: .web, address: Array(address.utf8))
        _ = harness.request(.setTransport(device, by: .backend, transport), of: device.partition)
    }

    @Test("ends when its time is over, with its topics and what waits for it, and not before")
    func ends() throws {
        let harness = harness()
        let (device, credential) = try goneDevice(harness)
        pass(23, harness)
        #expect(harness.partitions[1].deviceCount == 1 && members(harness) == 1)
        pass(2, harness)
        #expect(harness.partitions[1].deviceCount == 0 && members(harness) == 0)
        #expect(harness.partitions[1].state.transports.isEmpty)
        #expect(harness.partitions[1].state.log.count == 0)
        let reply = harness.request(
            .setTransport(device, by: .device(credential), PushTests.web), of: device.partition)
        guard case .refused(.unregistered) = reply else {
            Issue.record("\(String(describing: reply))")
            return
        }
        harness.listen(device, credential, stream: 1)
        #expect(harness.takeEvents() == ["refused"])
        #expect(harness.partitions[1].brokenInvariant(isWhole: true) == nil)
    }

    @Test("stays where it tells another address in time, and its time then begins with that address's end")
    func told() throws {
        let harness = harness()
        let (device, _) = try goneDevice(harness)
        pass(23, harness)
        tell(harness, device, "another")
        pass(48, harness)
        #expect(harness.partitions[1].deviceCount == 1 && members(harness) == 1)
        _ = harness.request(.sendToDevice(nil, device, harness.envelope("b")), of: device.partition)
        try PushTests.answer(harness, .gone)
        pass(23, harness)
        #expect(harness.partitions[1].deviceCount == 1)
        pass(2, harness)
        #expect(harness.partitions[1].deviceCount == 0 && members(harness) == 0)
    }

    @Test("stays where it listens in time, and where it listens all the time")
    func listens() throws {
        let harness = harness()
        let (device, credential) = try goneDevice(harness)
        pass(23, harness)
        harness.listen(device, credential, stream: 1)
        harness.send(
            .stream(.detach(StreamID(gateway: PartitionHarness.gateway, number: 1), device.index)),
            to: device.partition)
        pass(72, harness)
        #expect(harness.partitions[1].deviceCount == 1 && members(harness) == 1)
        let (other, proof) = try PushTests.device(harness)
        harness.listen(other, proof, stream: 2)
        harness.publish("b", to: "news")
        harness.pass(seconds: 10)
        try PushTests.answer(harness, .gone)
        pass(72, harness)
        #expect(harness.partitions[1].deviceCount == 2)
    }

    @Test(
        "stays where it makes a request with its own credential in time, and not by a backend's",
        arguments: [true, false])
    func asks(itself: Bool) throws {
        let harness = harness()
        let (device, credential) = try goneDevice(harness)
        let caller = itself ? Authority.device(credential) : .backend
        pass(23, harness)
        _ = harness.request(.subscriptions(of: device, by: caller), of: device.partition)
        pass(72, harness)
        #expect(harness.partitions[1].deviceCount == (itself ? 1 : 0))
        #expect(members(harness) == (itself ? 1 : 0))
    }

    @Test("is seen on the day of each request with its own credential, with one record a day")
    func asksDaily() throws {
        let harness = harness()
        let (device, credential) = try PushTests.device(harness)
        let name = TopicName(checked: Array("news".utf8))
        func seen() -> UInt16? {
            harness.partitions[1].state.devices.find(device.index.rawValue).map { $0.page.seen[$0.slot] }
        }
        let first = try #require(seen())
        pass(48, harness)
        #expect(seen() == first)
        for _ in 0..<2 {
            _ = harness.request(
                .change(
                    .subscribe, project: PartitionHarness.project, topic: name, devices: [device],
                    by: .device(credential)), of: device.partition)
            harness.settle()
            #expect(seen() == first + 2)
        }
        let wrong = DeviceMAC(high: credential.high ^ 1, low: credential.low)
        pass(24, harness)
        _ = harness.request(.subscriptions(of: device, by: .device(wrong)), of: device.partition)
        #expect(seen() == first + 2)
    }

    @Test("stays where only one of its addresses is gone, and where it ends the other one itself")
    func severalAddresses() throws {
        let harness = harness()
        let (device, credential) = try goneDevice(harness)
        let token = Transport(kind: .fcm, address: Array("token".utf8))
        _ = harness.request(
            .setTransport(device, by: .device(credential), token), of: device.partition)
        pass(48, harness)
        #expect(harness.partitions[1].deviceCount == 1)
        _ = harness.request(.endTransport(device, by: .device(credential), .fcm), of: device.partition)
        pass(48, harness)
        #expect(harness.partitions[1].deviceCount == 1 && members(harness) == 1)
        let stored = harness.partitions[1].state.transports[device.index.rawValue]
        #expect(stored?.map(\.mark?.state) == [.unused])
    }

    @Test("ends at the same time under a new owner, from the journal or from a snapshot")
    func newOwner() throws {
        for isFromSnapshot in [false, true] {
            let harness = harness()
            let (device, _) = try goneDevice(harness)
            pass(23, harness)
            if isFromSnapshot { try harness.succeedFromSnapshot(1) } else { try harness.succeed(1) }
            harness.settle()
            #expect(harness.partitions[1].deviceCount == 1)
            pass(2, harness)
            #expect(harness.partitions[1].deviceCount == 0 && members(harness) == 0)
            try harness.succeed(1)
            harness.settle()
            #expect(harness.partitions[1].deviceCount == 0 && members(harness) == 0)
            let (again, _) = try PushTests.device(harness)
            #expect(again.index != device.index && members(harness) == 1)
        }
    }

    @Test("does not end under a new owner before its stream could return")
    func returning() throws {
        let harness = harness { $0.streamsOutliveOwners = true }
        let (device, credential) = try goneDevice(harness)
        pass(23, harness)
        harness.now.monotonic = harness.now.monotonic.advanced(by: .seconds(7200))
        harness.now.wall = WallTime(milliseconds: harness.now.wall.milliseconds + 7_200_000)
        try harness.succeed(1)
        harness.pass(seconds: 5)
        #expect(harness.partitions[1].deviceCount == 1)
        harness.listen(device, credential, stream: 1)
        pass(2, harness)
        #expect(harness.partitions[1].deviceCount == 1)
    }

    @Test("wakes its partition by itself, ends with few others in a day, and never where nothing ends it")
    func pace() throws {
        let harness = harness { ($0.sweptShare, $0.goneFew) = (2, 5) }
        for _ in 0..<5 { _ = try goneDevice(harness) }
        let never = PartitionHarness { $0.unreachableMax = nil }
        _ = try goneDevice(never)
        pass(200, never)
        #expect(never.partitions[1].deviceCount == 1)
        // Timers alone lead on: the clocks go on, and nothing else happens.
        func goOn(hours: Int) {
            for _ in 0..<hours * 12 {
                harness.now.monotonic = harness.now.monotonic.advanced(by: .seconds(300))
                harness.now.wall = WallTime(milliseconds: harness.now.wall.milliseconds + 300_000)
                harness.fireTimers()
            }
        }
        goOn(hours: 26)
        let left = harness.partitions[1].deviceCount
        #expect(left == 3 || left == 2)
        goOn(hours: 96)
        #expect(harness.partitions[1].deviceCount == 0 && members(harness) == 0)
    }

    @Test("a planted bug ends a device that has told another address")
    func planted() throws {
        let harness = harness { $0.planted = [.endReachable] }
        let (device, _) = try goneDevice(harness)
        tell(harness, device, "another")
        pass(26, harness)
        #expect(harness.partitions[1].deviceCount == 0)
    }
}
