import Model
import Testing

@testable import Partitions

/// Sends to a device alone, while a push service refuses the project's key (rule: refused-keys-are-told).
@Suite("A send to a device that only a service reaches which refuses the project's key")
struct RefusedKeyTests {
    private static func apns(_ bundle: String = "a") -> Transport {
        let address = APNsAddress(isSandbox: false, bundleID: bundle, token: [1, 2])
        return Transport(kind: .apns, address: address.packed)
    }

    private func refuse(
        _ harness: PartitionHarness, _ transport: Transport = apns(), project: ProjectNumber? = nil,
        until: MonotonicTime? = MonotonicTime(.seconds(100_000))
    ) {
        let origin = PushOrigin(project ?? PartitionHarness.project, transport)
        harness.send(.keyRefused(origin, until: until), to: PartitionID(1))
    }

    /// Whether the partition takes a send to the device; `nil` where the answer is another one.
    private func isTaken(
        _ harness: PartitionHarness, _ device: Registration, as key: RequestKey? = nil
    ) -> Bool? {
        let send = Request.sendToDevice(key, device, harness.envelope("m"))
        switch harness.request(send, of: device.partition) {
        case .accepted?: return true
        case .refused(.pushKeyRefused)?: return false
        default: return nil
        }
    }

    @Test("is refused, while sends to topics are taken and wait")
    func refused() throws {
        let harness = PartitionHarness()
        let (device, _) = try PushTests.device(harness, RefusedKeyTests.apns())
        #expect(isTaken(harness, device) == true)
        refuse(harness)
        #expect(isTaken(harness, device) == false)
        #expect(harness.waitingCount(1, device.index.rawValue) == 1)
        guard case .accepted? = harness.publish("b", to: "news") else {
            Issue.record("a send to a topic is refused")
            return
        }
        #expect(harness.waitingCount(1, device.index.rawValue) == 2)
    }

    @Test("is taken again when the loop asks the service, when the service is well, and with other settings")
    func again() throws {
        let harness = PartitionHarness()
        let (device, _) = try PushTests.device(harness, RefusedKeyTests.apns())
        refuse(harness, until: harness.now.monotonic.advanced(by: .seconds(60)))
        #expect(isTaken(harness, device) == false)
        harness.pass(seconds: 60)
        #expect(isTaken(harness, device) == true, "the message that shows how the service is")
        refuse(harness)
        #expect(isTaken(harness, device) == false)
        refuse(harness, until: nil)
        #expect(isTaken(harness, device) == true)
        refuse(harness)
        harness.send(.pushesChanged([ProjectNumber(99): PushServices()]), to: PartitionID(1))
        #expect(isTaken(harness, device) == false)
        harness.send(.pushesChanged([PartitionHarness.project: PushServices()]), to: PartitionID(1))
        #expect(isTaken(harness, device) == true)
        #expect(harness.partitions[1].refusedKeys.isEmpty)
    }

    @Test("is taken where another app or another project is refused, and by a device without an address")
    func others() throws {
        let harness = PartitionHarness()
        let (device, _) = try PushTests.device(harness, RefusedKeyTests.apns())
        let (bare, _) = try #require(harness.register(in: 1))
        refuse(harness, RefusedKeyTests.apns("b"))
        refuse(harness, project: ProjectNumber(99))
        #expect(isTaken(harness, device) == true)
        refuse(harness)
        #expect(isTaken(harness, bare) == true)
    }

    @Test("is taken where the device listens, or may be on its way to a new owner")
    func listening() throws {
        let harness = PartitionHarness { $0.streamsOutliveOwners = true }
        let (device, credential) = try PushTests.device(harness, RefusedKeyTests.apns())
        refuse(harness)
        #expect(isTaken(harness, device) == true, "the owner has just begun")
        harness.pass(seconds: 11)
        #expect(isTaken(harness, device) == false)
        harness.listen(device, credential, stream: 1)
        #expect(isTaken(harness, device) == true)
    }

    @Test("is taken where another address may be reached, and refused where that address has no service")
    func otherAddress() throws {
        let harness = PartitionHarness()
        let (device, _) = try PushTests.device(harness, RefusedKeyTests.apns())
        let other = Transport(kind: .fcm, address: FCMAddress(token: "t").packed)
        _ = harness.request(.setTransport(device, by: .backend, other), of: device.partition)
        refuse(harness)
        #expect(isTaken(harness, device) == true)
        var services = PushServices()
        services.apps = [APNsAddress.app(isSandbox: false, bundleID: "a")]
        harness.pushServices = [PartitionHarness.project: services]
        #expect(isTaken(harness, device) == false)
        harness.pushServices = [:]
        #expect(isTaken(harness, device) == true, "messages wait for a service that is not set")
    }

    @Test("is answered as taken where an earlier copy was, and UNREGISTERED where the address is gone")
    func repeated() throws {
        let harness = PartitionHarness()
        let (device, _) = try PushTests.device(harness, RefusedKeyTests.apns())
        let key = RequestKey(session: 7, number: 1)
        #expect(isTaken(harness, device, as: key) == true)
        refuse(harness)
        #expect(isTaken(harness, device, as: key) == true)
        #expect(isTaken(harness, device, as: RequestKey(session: 7, number: 2)) == false)
        try PushTests.answer(harness, .gone)
        harness.settle()
        let send = Request.sendToDevice(nil, device, harness.envelope("m"))
        guard case .refused(.unregistered)? = harness.request(send, of: device.partition) else {
            Issue.record("a gone address is not told")
            return
        }
    }

    @Test("is refused for a bounded number of services, and those whose time is over make room")
    func bounded() throws {
        let harness = PartitionHarness()
        let (device, _) = try PushTests.device(harness, RefusedKeyTests.apns("late"))
        let soon = harness.now.monotonic.advanced(by: .seconds(10))
        for number in 0..<Partition.refusedKeysMax {
            refuse(harness, RefusedKeyTests.apns("\(number)"), until: soon)
        }
        refuse(harness, RefusedKeyTests.apns("late"))
        #expect(isTaken(harness, device) == true)
        harness.pass(seconds: 11)
        refuse(harness, RefusedKeyTests.apns("late"))
        #expect(isTaken(harness, device) == false && harness.partitions[1].refusedKeys.count == 1)
    }
}
