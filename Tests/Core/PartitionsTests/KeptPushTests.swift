import Model
import Testing

@testable import Partitions

/// Devices that acknowledge their messages themselves, where a push is only a doorbell.
@Suite("Messages that are kept until their device acknowledges them")
struct KeptPushTests {
    private static let apns = Transport(kind: .apns, address: Array("token".utf8), keepsMessages: true)

    @Test("are pushed once each, in order, and wait for the stream")
    func onceEach() throws {
        let harness = PartitionHarness()
        let (device, credential) = try PushTests.device(harness, KeptPushTests.apns)
        for text in ["a", "b", "c"] { harness.publish(text, to: "news") }
        for _ in 0..<3 { try PushTests.answer(harness, .done) }
        harness.settle()
        #expect(harness.takeJobs() == ["a", "b", "c"])
        #expect(harness.waitingCount(1, device.index.rawValue) == 3)
        harness.listen(device, credential, stream: 1)
        #expect(harness.takeEvents() == ["attached", "a", "b", "c"])
        harness.pass(seconds: 60)
        #expect(harness.takeJobs() == [])
    }

    @Test("are not pushed again by a new owner", arguments: [false, true])
    func newOwner(fromSnapshot: Bool) throws {
        let harness = PartitionHarness()
        let (device, _) = try PushTests.device(harness, KeptPushTests.apns)
        for text in ["a", "b"] { harness.publish(text, to: "news") }
        try PushTests.answer(harness, .done)
        harness.settle()
        #expect(harness.takeJobs() == ["a", "b"])
        if fromSnapshot { try harness.succeedFromSnapshot(1) } else { try harness.succeed(1) }
        harness.settle()
        #expect(harness.takeJobs() == ["b"])
        #expect(harness.waitingCount(1, device.index.rawValue) == 2)
    }

    @Test("are pushed to the next address from where the former address was")
    func nextAddress() throws {
        let harness = PartitionHarness()
        let (device, _) = try PushTests.device(harness, KeptPushTests.apns)
        for text in ["a", "b"] { harness.publish(text, to: "news") }
        try PushTests.answer(harness, .done)
        let next = Transport(kind: .apns, address: Array("other".utf8), keepsMessages: true)
        _ = harness.request(.setTransport(device, by: .backend, next), of: device.partition)
        try PushTests.answer(harness, .later(after: .zero, isFailure: false))
        harness.pass(seconds: 1)
        #expect(harness.jobs.last?.job.transport == next)
        #expect(harness.takeJobs() == ["a", "b", "b"])
        #expect(harness.waitingCount(1, device.index.rawValue) == 2)
    }

    @Test(
        "wait for the stream where the address ends, or changes its mind, while the service has the message",
        arguments: [false, true])
    func endedMeanwhile(isToldAgain: Bool) throws {
        let harness = PartitionHarness()
        let (device, credential) = try PushTests.device(harness, KeptPushTests.apns)
        harness.publish("a", to: "news")
        let (partition, job) = try #require(harness.jobs.last)
        var next = KeptPushTests.apns
        next.keepsMessages = false
        let change: Request =
            isToldAgain
            ? .setTransport(device, by: .backend, next) : .endTransport(device, by: .backend, .apns)
        _ = harness.request(change, of: device.partition)
        harness.settle()
        harness.answer(job, of: partition, .done)
        #expect(harness.waitingCount(1, device.index.rawValue) == 1)
        harness.listen(device, credential, stream: 1)
        #expect(harness.takeEvents() == ["attached", "a"])
    }

    @Test("are pushed from the beginning where the former address is gone")
    func afterGone() throws {
        let harness = PartitionHarness()
        let (device, _) = try PushTests.device(harness, KeptPushTests.apns)
        for text in ["a", "b"] { harness.publish(text, to: "news") }
        try PushTests.answer(harness, .done)
        try PushTests.answer(harness, .gone)
        harness.settle()
        _ = harness.takeJobs()
        _ = harness.request(.setTransport(device, by: .backend, KeptPushTests.apns), of: device.partition)
        #expect(harness.takeJobs() == ["a"])
    }

    @Test("are not passed over where a message of now or never overtook them")
    func overtaken() throws {
        let harness = PartitionHarness()
        let (device, credential) = try PushTests.device(harness, KeptPushTests.apns)
        harness.publish("a", to: "news")
        harness.publish("b", to: "news")
        let momentary = TimesToLive(stream: 60, web: 0, apns: 0, fcm: 0)
        harness.publish("now", to: "news", times: momentary)
        let jobs = harness.takeAllJobs()
        #expect(jobs.map { String(decoding: $0.job.event, as: UTF8.self) } == ["a", "now"])
        for (partition, job) in jobs.reversed() { harness.answer(job, of: partition, .done) }
        harness.settle()
        #expect(harness.takeJobs() == ["b"])
        harness.listen(device, credential, stream: 1)
        #expect(harness.takeEvents() == ["attached", "a", "b", "now"])
    }

    private static let web = Transport(kind: .web, address: Array("endpoint".utf8), keepsMessages: true)

    /// A device with two addresses, of which the first one has got the only message.
    private func deviceWithTwo(_ harness: PartitionHarness) throws -> Registration {
        let (device, _) = try PushTests.device(harness, KeptPushTests.web)
        _ = harness.request(
            .setTransport(device, by: .backend, KeptPushTests.apns), of: device.partition)
        harness.publish("a", to: "news")
        try PushTests.answer(harness, .done)
        harness.settle()
        #expect(harness.takeAllJobs().map(\.job.transport) == [KeptPushTests.web])
        return device
    }

    @Test("go to the device's other address when the first one ends")
    func otherAddress() throws {
        let harness = PartitionHarness()
        let device = try deviceWithTwo(harness)
        _ = harness.request(.endTransport(device, by: .backend, .web), of: device.partition)
        harness.settle()
        #expect(harness.takeAllJobs().map(\.job.transport) == [KeptPushTests.apns])
    }

    @Test("go to the other address where a message of now or never finds the first one gone")
    func otherAddressAfterGone() throws {
        let harness = PartitionHarness()
        _ = try deviceWithTwo(harness)
        harness.publish("now", to: "news", times: TimesToLive(stream: 60, web: 0, apns: 0, fcm: 0))
        try PushTests.answer(harness, .gone)
        harness.settle()
        let transports = harness.takeAllJobs().map(\.job.transport)
        #expect(transports == [KeptPushTests.web, KeptPushTests.apns])
    }

    @Test("go with their acknowledgement, before or after the push")
    func acknowledged() throws {
        let harness = PartitionHarness()
        let (device, credential) = try PushTests.device(harness, KeptPushTests.apns)
        for text in ["a", "b"] { harness.publish(text, to: "news") }
        try PushTests.answer(harness, .done)
        let last = harness.partitions[1].state.log.last
        let event = EventID(position: last, history: UInt16(harness.partitions[1].history.rawValue))
        _ = harness.request(.acknowledge(device, by: .device(credential), event), of: device.partition)
        harness.settle()
        #expect(harness.waitingCount(1, device.index.rawValue) == 0)
        harness.publish("c", to: "news")
        #expect(harness.waitingCount(1, device.index.rawValue) == 1)
    }

    @Test("leave the log when the service has them, where the device says so no more")
    func asAtFCM() throws {
        let harness = PartitionHarness()
        let (device, _) = try PushTests.device(harness, KeptPushTests.apns)
        harness.publish("a", to: "news")
        try PushTests.answer(harness, .done)
        let plain = Transport(kind: .apns, address: Array("token".utf8))
        _ = harness.request(.setTransport(device, by: .backend, plain), of: device.partition)
        harness.settle()
        try PushTests.answer(harness, .done)
        harness.settle()
        #expect(harness.takeJobs() == ["a", "a"])
        #expect(harness.waitingCount(1, device.index.rawValue) == 0)
    }
}
