import Model
import Testing

@testable import Partitions

/// What a partition hands to the sender for push services, and what it does with the answers.
@Suite("Messages for push services")
struct PushTests {
    static let web = Transport(kind: .web, address: Array("endpoint and keys".utf8))

    /// A device with an address, subscribed to `news`.
    static func device(
        _ harness: PartitionHarness, _ transport: Transport = PushTests.web
    ) throws -> (device: Registration, credential: DeviceMAC) {
        let (device, credential) = try #require(harness.register(in: 1))
        _ = harness.change(.subscribe, "news", [device])
        _ = harness.request(.setTransport(device, by: .backend, transport), of: device.partition)
        return (device, credential)
    }

    /// Answers the only message at the sender.
    static func answer(_ harness: PartitionHarness, _ result: PushReport.Result) throws {
        let (partition, job) = try #require(harness.jobs.last)
        harness.answer(job, of: partition, result)
    }

    @Test("messages go to the sender one after the other, the oldest first, each once")
    func inOrder() throws {
        let harness = PartitionHarness()
        let (device, _) = try PushTests.device(harness)
        for text in ["a", "b"] { harness.publish(text, to: "news") }
        #expect(harness.takeJobs() == ["a"])
        harness.publish("c", to: "news")
        #expect(harness.takeJobs() == [])
        harness.publish("d", to: "news")
        let state = harness.partitions[1].pushes
        let number = try #require(state.sendings.keys.first)
        harness.send(.pushed(PushReport(number: number, .done)), to: device.partition)
        #expect(harness.takeJobs() == ["b"])
        // The same answer again changes nothing.
        harness.send(.pushed(PushReport(number: number, .done)), to: device.partition)
        #expect(harness.takeJobs() == [])
        #expect(harness.waitingCount(1, device.index.rawValue) == 3)
    }

    @Test("a message that the service has is never pushed again, also by a new owner")
    func acceptedForGood() throws {
        let harness = PartitionHarness()
        let (device, _) = try PushTests.device(harness)
        for text in ["a", "b"] { harness.publish(text, to: "news") }
        try PushTests.answer(harness, .done)
        harness.settle()
        #expect(harness.takeJobs() == ["a", "b"])
        try harness.succeed(1)
        #expect(harness.takeJobs() == ["b"])
        #expect(harness.waitingCount(1, device.index.rawValue) == 1)
    }

    @Test("a new owner pushes what its predecessor had at the sender, and ignores the predecessor's answers")
    func takenOver() throws {
        let harness = PartitionHarness()
        let (device, _) = try PushTests.device(harness)
        harness.publish("a", to: "news")
        let former = try #require(harness.jobs.last)
        #expect(!harness.notices.contains(.pushedAgain(.web)))
        try harness.succeedFromSnapshot(1)
        harness.settle()
        #expect(harness.takeJobs() == ["a", "a"])
        #expect(harness.notices.count { $0 == .pushedAgain(.web) } == 1)
        harness.answer(former.job, of: former.partition, .gone)
        #expect(harness.partitions[1].state.transports[device.index.rawValue]?.first?.isGone == false)
    }

    @Test("a message waits as long as the sender asks, and counts its tries")
    func later() throws {
        let harness = PartitionHarness()
        _ = try PushTests.device(harness)
        harness.publish("a", to: "news")
        try PushTests.answer(harness, .later(after: .seconds(10), isFailure: true))
        harness.pass(seconds: 9)
        #expect(harness.takeJobs() == ["a"])
        harness.pass(seconds: 2)
        #expect(harness.jobs.map(\.job.tries) == [1])
        try PushTests.answer(harness, .later(after: .seconds(10), isFailure: false))
        harness.pass(seconds: 11)
        #expect(harness.jobs.map(\.job.tries) == [1, 1])
        try PushTests.answer(harness, .done)
        harness.publish("b", to: "news")
        #expect(harness.jobs.last?.job.tries == 0)
    }

    @Test("a service that is closed costs one look at a time, and takes ever more when it is open again")
    func closedService() throws {
        let harness = PartitionHarness { $0.pushesAtOnce = 8 }
        for _ in 0..<40 { _ = try PushTests.device(harness) }
        harness.publish("a", to: "news")
        #expect(harness.jobs.count == 4)
        for (partition, job) in harness.takeAllJobs() {
            harness.answer(job, of: partition, .closed(for: .seconds(10)))
        }
        harness.settle()
        // Whatever was looked at meanwhile was told the same.
        for (partition, job) in harness.takeAllJobs() {
            harness.answer(job, of: partition, .closed(for: .seconds(10)))
        }
        #expect(harness.takeAllJobs().isEmpty)
        harness.pass(seconds: 11)
        #expect(harness.jobs.count == 1)
        var served = 0
        var most = 0
        while served < 40 {
            let jobs = harness.takeAllJobs()
            most = max(most, jobs.count)
            served += jobs.count
            for (partition, job) in jobs { harness.answer(job, of: partition, .done) }
            if jobs.isEmpty { harness.pass(seconds: 1) }
            _ = harness.partitions[1].brokenInvariant(isWhole: true).map { Issue.record("\($0)") }
        }
        #expect(most == 4 && harness.partitions[1].pushes.closed.isEmpty)
    }

    @Test("a device that tells another address does not wait for what the former address has to wait for")
    func newAddressAtOnce() throws {
        let harness = PartitionHarness()
        let (device, _) = try PushTests.device(harness)
        harness.publish("a", to: "news")
        try PushTests.answer(harness, .later(after: .seconds(3600), isFailure: true))
        _ = harness.takeJobs()
        let other = Transport(kind: .web, address: Array("another endpoint".utf8))
        _ = harness.request(.setTransport(device, by: .backend, other), of: device.partition)
        #expect(harness.jobs.map(\.job.tries) == [0])
        #expect(harness.jobs.map(\.job.transport) == [other])
    }

    @Test("a device that listens when its address is found gone stays a target when its stream ends")
    func goneWhileListening() throws {
        let harness = PartitionHarness()
        let (device, credential) = try PushTests.device(harness)
        harness.listen(device, credential, stream: 1)
        harness.publish("a", to: "news")
        harness.pass(seconds: 6)
        try PushTests.answer(harness, .gone)
        let gateway = PartitionHarness.gateway
        harness.send(
            .stream(.detach(StreamID(gateway: gateway, number: 1), device.index)), to: device.partition)
        guard
            case .accepted = harness.request(
                .sendToDevice(nil, device, harness.envelope("b")), of: device.partition)
        else { Issue.record("the send was refused"); return }
    }

    @Test("a timer is set for each device that waits, and fires")
    func woken() throws {
        let harness = PartitionHarness()
        _ = try PushTests.device(harness)
        harness.publish("a", to: "news")
        try PushTests.answer(harness, .later(after: .seconds(3), isFailure: true))
        _ = harness.takeJobs()
        harness.now.monotonic = harness.now.monotonic.advanced(by: .seconds(4))
        harness.fireTimers()
        #expect(harness.takeJobs() == ["a"])
    }

    @Test("a message past its time to live is not pushed")
    func expired() throws {
        let harness = PartitionHarness()
        let (device, _) = try PushTests.device(harness)
        harness.publish("a", to: "news", ttl: 60)
        try PushTests.answer(harness, .later(after: .seconds(100), isFailure: true))
        _ = harness.takeJobs()
        harness.pass(seconds: 200)
        #expect(harness.takeJobs() == [])
        #expect(harness.partitions[1].pushes.count == 0)
        #expect(harness.waitingCount(1, device.index.rawValue) == 0)
    }

    @Test("a device that listens is pushed only what it does not acknowledge within the grace")
    func grace() throws {
        let harness = PartitionHarness()
        let (device, credential) = try PushTests.device(harness)
        harness.listen(device, credential, stream: 1)
        harness.publish("a", to: "news")
        #expect(harness.takeJobs() == [])
        harness.pass(seconds: 3)
        #expect(harness.takeJobs() == [])
        harness.pass(seconds: 3)
        #expect(harness.takeJobs() == ["a"])
    }

    @Test("a stream that acknowledges nothing holds up all waiting messages once, and not one by one")
    func graceOnce() throws {
        let harness = PartitionHarness()
        let (device, credential) = try PushTests.device(harness)
        harness.listen(device, credential, stream: 1)
        for text in ["a", "b", "c"] { harness.publish(text, to: "news") }
        harness.pass(seconds: 6)
        for _ in 0..<3 {
            let number = try #require(harness.partitions[1].pushes.sendings.keys.first)
            harness.send(.pushed(PushReport(number: number, .done)), to: device.partition)
        }
        #expect(harness.takeJobs() == ["a", "b", "c"])
    }

    @Test("what a listening device acknowledges is not pushed")
    func acknowledged() throws {
        let harness = PartitionHarness()
        let (device, credential) = try PushTests.device(harness)
        harness.listen(device, credential, stream: 1)
        harness.publish("a", to: "news")
        let last = harness.partitions[1].state.log.last
        let event = EventID(position: last, history: UInt16(harness.partitions[1].history.rawValue))
        _ = harness.request(.acknowledge(device, by: .device(credential), event), of: device.partition)
        harness.pass(seconds: 10)
        #expect(harness.takeJobs() == [])
        #expect(harness.partitions[1].pushes.count == 0)
    }

    @Test("what waited before the device told its address is pushed when the address is durable")
    func addressLater() throws {
        let harness = PartitionHarness()
        let (device, _) = try #require(harness.register(in: 1))
        _ = harness.change(.subscribe, "news", [device])
        harness.publish("a", to: "news")
        harness.holdsAppends = true
        _ = harness.request(.setTransport(device, by: .backend, PushTests.web), of: device.partition)
        #expect(harness.takeJobs() == [])
        harness.releaseAppends()
        #expect(harness.takeJobs() == ["a"])
    }

    @Test("a message is pushed only when its record is durable")
    func onDurableOnly() throws {
        let harness = PartitionHarness()
        let (device, _) = try PushTests.device(harness)
        harness.holdsAppends = true
        _ = harness.request(
            .sendToDevice(nil, device, harness.envelope("a")), of: device.partition)
        #expect(harness.takeJobs() == [])
        harness.releaseAppends()
        #expect(harness.takeJobs() == ["a"])
    }

    @Test("an address that is gone ends, the next send to the device is refused, and a new address is used")
    func gone() throws {
        let harness = PartitionHarness()
        let (device, _) = try PushTests.device(harness)
        harness.publish("a", to: "news")
        try PushTests.answer(harness, .gone)
        harness.settle()
        let send = Request.sendToDevice(nil, device, harness.envelope("b"))
        guard case .refused(.unregistered) = harness.request(send, of: device.partition) else {
            Issue.record("the send was not refused")
            return
        }
        guard
            case .device(_, let shown, _) = harness.request(
                .device(device, by: .backend), of: device.partition)
        else { Issue.record("the device is not shown"); return }
        #expect(shown.isEmpty)
        try harness.succeed(1)
        guard case .refused(.unregistered) = harness.request(send, of: device.partition) else {
            Issue.record("the new owner does not refuse the send")
            return
        }
        _ = harness.takeJobs()
        let other = Transport(kind: .web, address: Array("another endpoint".utf8))
        _ = harness.request(.setTransport(device, by: .backend, other), of: device.partition)
        #expect(harness.jobs.map(\.job.transport) == [other])
        #expect(harness.takeJobs() == ["a"])
    }

    @Test("a send that was accepted before the address was gone is accepted when it is repeated")
    func repeatedSend() throws {
        let harness = PartitionHarness()
        let (device, _) = try PushTests.device(harness)
        let key = RequestKey(session: 7, number: 1)
        let send = Request.sendToDevice(key, device, harness.envelope("a"))
        guard case .accepted = harness.request(send, of: device.partition) else {
            Issue.record("the send was refused")
            return
        }
        try PushTests.answer(harness, .gone)
        guard case .accepted = harness.request(send, of: device.partition) else {
            Issue.record("the repeated send was refused")
            return
        }
    }

    @Test("a device whose address is gone, and which listens, is there again")
    func goneAndBack() throws {
        let harness = PartitionHarness()
        let (device, credential) = try PushTests.device(harness)
        harness.publish("a", to: "news")
        try PushTests.answer(harness, .gone)
        harness.listen(device, credential, stream: 1)
        let gateway = PartitionHarness.gateway
        harness.send(
            .stream(.detach(StreamID(gateway: gateway, number: 1), device.index)), to: device.partition)
        guard
            case .accepted = harness.request(
                .sendToDevice(nil, device, harness.envelope("b")), of: device.partition)
        else { Issue.record("the send was refused"); return }
        let stored = harness.partitions[1].state.transports[device.index.rawValue]
        #expect(stored?.map(\.mark?.state) == [.unused])
    }

    @Test("the word that an address is gone does not end an address that the device told later")
    func formerAddressGone() throws {
        let harness = PartitionHarness()
        let (device, _) = try PushTests.device(harness)
        harness.publish("a", to: "news")
        let other = Transport(kind: .web, address: Array("another endpoint".utf8))
        _ = harness.request(.setTransport(device, by: .backend, other), of: device.partition)
        try PushTests.answer(harness, .gone)
        #expect(harness.jobs.map(\.job.transport) == [PushTests.web, other])
        #expect(harness.partitions[1].state.transports[device.index.rawValue]?.map(\.isGone) == [false])
    }

    @Test("a body that is not in memory is read once for all devices, and pushed")
    func bodiesRead() throws {
        let harness = PartitionHarness { $0.bodyCacheBytesMax = 0 }
        var devices: [Registration] = []
        for _ in 0..<5 { devices.append(try PushTests.device(harness).device) }
        harness.publish("a", to: "news")
        try harness.succeedFromSnapshot(1)
        harness.settle()
        // Five before the new owner, and five by it.
        #expect(harness.takeJobs().filter { $0 == "a" }.count >= 5)
        #expect(harness.partitions[1].pushes.sendings.count == 5)
    }

    @Test("a body that the journal has lost is given up, and the next message is pushed")
    func bodyLost() throws {
        let harness = PartitionHarness { $0.bodyCacheBytesMax = 0 }
        _ = try PushTests.device(harness)
        for text in ["a", "b"] { harness.publish(text, to: "news") }
        let first = try #require(harness.partitions[1].recordsWithBodies.first)
        harness.journal[1].removeAll { $0.0 == first }
        _ = harness.takeJobs()
        try harness.succeedFromSnapshot(1)
        harness.settle()
        #expect(harness.takeJobs() == ["b"])
    }

    @Test("no more messages are at the sender than may be, and each answer lets the next one go")
    func window() throws {
        let harness = PartitionHarness { $0.pushesAtOnce = 3 }
        for _ in 0..<8 { _ = try PushTests.device(harness) }
        harness.publish("a", to: "news")
        var answered = 0
        while let next = harness.jobs.first {
            #expect(harness.partitions[1].pushes.underWay <= 3)
            _ = harness.partitions[1].brokenInvariant(isWhole: true).map { Issue.record("\($0)") }
            harness.answer(next.job, of: next.partition, .done)
            answered += 1
            harness.dropFirstJob()
        }
        #expect(answered == 8)
    }

    @Test("a partition that is being given up hands nothing more to the sender")
    func leaving() throws {
        let harness = PartitionHarness()
        _ = try PushTests.device(harness)
        harness.partitions[1].mayPush = false
        harness.publish("a", to: "news")
        #expect(harness.takeJobs() == [])
        try harness.succeed(1)
        #expect(harness.takeJobs() == ["a"])
    }

    @Test("what a service has does not hide a loss of which the device's stream is still to tell")
    func lossIsTold() throws {
        let harness = PartitionHarness {
            $0.delivery.waitingMax = 2
            $0.listenersReturn = .zero
        }
        let (device, credential) = try PushTests.device(harness)
        for text in ["a", "b", "c", "d"] { harness.publish(text, to: "news") }
        let job = try #require(harness.jobs.first)
        harness.answer(job.job, of: job.partition, .done)
        while let next = harness.partitions[1].pushes.sendings.keys.first {
            harness.send(.pushed(PushReport(number: next, .done)), to: device.partition)
        }
        harness.listen(device, credential, stream: 1)
        #expect(harness.takeEvents() == ["attached", "deleted"])
    }

    @Test("a device that ends while its message is at the sender leaves nothing behind")
    func ended() throws {
        let harness = PartitionHarness()
        let (device, _) = try PushTests.device(harness)
        for text in ["a", "b"] { harness.publish(text, to: "news") }
        _ = harness.request(.unregister(device, by: .backend), of: device.partition)
        try PushTests.answer(harness, .done)
        #expect(harness.takeJobs() == ["a"])
        #expect(harness.partitions[1].pushes.count == 0)
        #expect(harness.partitions[1].brokenInvariant(isWhole: true) == nil)
    }
}
