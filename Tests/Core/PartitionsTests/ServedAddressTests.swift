import Model
import Testing

@testable import Partitions

/// Devices with addresses at two services, in projects that have one or both (rule: pushes-read-the-log).
@Suite("The address that a device's messages go to")
struct ServedAddressTests {
    private static let both: [Transport.Kind] = [.web, .fcm]

    private static func transport(_ kind: Transport.Kind, keeps: Bool = false) -> Transport {
        let address = kind == .web ? Array("endpoint".utf8) : FCMAddress(token: "token").packed
        return Transport(kind: kind, address: address, keepsMessages: keeps)
    }

    private static func services(_ kinds: [Transport.Kind]) -> [ProjectNumber: PushServices] {
        var services = PushServices()
        services.web = kinds.contains(.web)
        services.fcm = kinds.contains(.fcm)
        return [PartitionHarness.project: services]
    }

    /// A device with an address at both services, of a project with `kinds`.
    private func device(
        _ harness: PartitionHarness, _ kinds: [Transport.Kind], keeps: Bool = false
    ) throws -> Registration {
        harness.pushServices = ServedAddressTests.services(kinds)
        let (device, _) = try PushTests.device(harness, ServedAddressTests.transport(.web, keeps: keeps))
        let second = ServedAddressTests.transport(.fcm, keeps: keeps)
        _ = harness.request(.setTransport(device, by: .backend, second), of: device.partition)
        return device
    }

    private func change(_ harness: PartitionHarness, to kinds: [Transport.Kind]) {
        for number in 0..<harness.count {
            let changed = ServedAddressTests.services(kinds)
            harness.send(.pushesChanged(changed), to: PartitionID(UInt16(number)))
        }
    }

    /// The messages and services of what went to the sender since the last look.
    private func taken(_ harness: PartitionHarness) -> [String] {
        harness.takeAllJobs().map { _, job in
            "\(String(decoding: job.event, as: UTF8.self)) by \(job.transport.kind.word)"
        }
    }

    @Test("is the first one for which the project has a service, and the first of all where it has none")
    func first() throws {
        let both = ServedAddressTests.both
        for (kinds, word) in [(both, "web"), ([.fcm], "fcm"), ([.web], "web"), ([], "web")] {
            let harness = PartitionHarness()
            _ = try device(harness, kinds)
            harness.publish("a", to: "news")
            #expect(taken(harness) == ["a by \(word)"])
        }
        for services in [[:], nil] as [[ProjectNumber: PushServices]?] {
            let harness = PartitionHarness()
            _ = try device(harness, [.fcm])
            harness.pushServices = services
            harness.publish("a", to: "news")
            #expect(taken(harness) == ["a by web"])
        }
    }

    @Test("is the preferred one again with the next message after its service is set")
    func setLater() throws {
        let harness = PartitionHarness()
        _ = try device(harness, [.fcm])
        for text in ["a", "b"] { harness.publish(text, to: "news") }
        let (partition, job) = try #require(harness.jobs.last)
        change(harness, to: ServedAddressTests.both)
        #expect(taken(harness) == ["a by fcm"])
        harness.answer(job, of: partition, .done)
        harness.settle()
        #expect(taken(harness) == ["b by web"])
    }

    @Test("is used at once where the service of the former address goes, whatever the device had to wait for")
    func switchedOff() throws {
        for result in [
            PushReport.Result.later(after: .seconds(300), isFailure: true), .closed(for: .seconds(300)),
        ] {
            for isAnswered in [true, false] {
                let harness = PartitionHarness()
                _ = try device(harness, ServedAddressTests.both)
                harness.publish("a", to: "news")
                let (partition, job) = try #require(harness.jobs.last)
                if isAnswered { harness.answer(job, of: partition, result) }
                change(harness, to: [.fcm])
                if !isAnswered { harness.answer(job, of: partition, result) }
                #expect(taken(harness) == ["a by web", "a by fcm"])
                #expect(harness.partitions[1].brokenInvariant(isWhole: true) == nil)
            }
        }
    }

    @Test("gets what was over at the service of the former one")
    func overAtFormer() throws {
        let harness = PartitionHarness()
        _ = try device(harness, [.web])
        harness.publish("a", to: "news", times: TimesToLive(stream: 60, web: 60, apns: 60, fcm: 3600))
        try PushTests.answer(harness, .closed(for: .seconds(30)))
        harness.pass(seconds: 200)
        #expect(taken(harness) == ["a by web"] && harness.partitions[1].pushCount == 0)
        change(harness, to: [.fcm])
        #expect(taken(harness) == ["a by fcm"])
    }

    @Test("is left alone for as long as its service asks, though the device tells or ends another address")
    func otherAddress() throws {
        let harness = PartitionHarness()
        let device = try device(harness, ServedAddressTests.both)
        harness.publish("a", to: "news")
        try PushTests.answer(harness, .later(after: .seconds(300), isFailure: true))
        #expect(taken(harness) == ["a by web"])
        let other = Transport(kind: .fcm, address: FCMAddress(token: "other").packed)
        _ = harness.request(.setTransport(device, by: .backend, other), of: device.partition)
        harness.settle()
        #expect(taken(harness) == [])
        _ = harness.request(.endTransport(device, by: .backend, .fcm), of: device.partition)
        harness.pass(seconds: 200)
        #expect(taken(harness) == [])
        harness.pass(seconds: 200)
        #expect(taken(harness) == ["a by web"])
        #expect(harness.partitions[1].brokenInvariant(isWhole: true) == nil)
    }

    /// The device's service asks for five minutes, and then the device tells a better address.
    private func betterWhileSpared() throws -> (PartitionHarness, Registration) {
        let harness = PartitionHarness()
        harness.pushServices = ServedAddressTests.services(ServedAddressTests.both)
        let (device, _) = try PushTests.device(harness, ServedAddressTests.transport(.fcm))
        harness.publish("a", to: "news")
        try PushTests.answer(harness, .later(after: .seconds(300), isFailure: true))
        let web = ServedAddressTests.transport(.web)
        _ = harness.request(.setTransport(device, by: .backend, web), of: device.partition)
        return (harness, device)
    }

    @Test("is left alone for as long as its service asks, though a better one took all that waited meanwhile")
    func nothingWaits() throws {
        let (harness, device) = try betterWhileSpared()
        harness.settle()
        try PushTests.answer(harness, .done)
        #expect(taken(harness) == ["a by fcm", "a by web"] && harness.partitions[1].pushCount == 0)
        _ = harness.request(.endTransport(device, by: .backend, .web), of: device.partition)
        harness.publish("b", to: "news")
        harness.pass(seconds: 200)
        #expect(taken(harness) == [])
        harness.pass(seconds: 200)
        #expect(taken(harness) == ["b by fcm"])
    }

    @Test("is used at once where the former one ends, though one record has stored both")
    func oneRecord() throws {
        let harness = PartitionHarness()
        harness.pushServices = ServedAddressTests.services(ServedAddressTests.both)
        let (device, _) = try PushTests.device(harness)
        let id = harness.partitions[1].id
        let stores = ServedAddressTests.both.enumerated().map { number, kind in
            PartitionEvent.request(
                RequestID(gateway: PartitionHarness.gateway, number: UInt64(1000 + number)),
                .setTransport(device, by: .backend, ServedAddressTests.transport(kind)))
        }
        harness.sendTogether(stores, to: id)
        let stored = try #require(harness.partitions[1].state.transports[device.index.rawValue])
        try #require(Set(stored.map(\.generation)).count == 1)
        harness.publish("a", to: "news")
        try PushTests.answer(harness, .later(after: .seconds(300), isFailure: true))
        _ = harness.request(.endTransport(device, by: .backend, .web), of: device.partition)
        harness.settle()
        #expect(taken(harness) == ["a by web", "a by fcm"])
    }

    @Test("is used at once by the next message, though the device acknowledged what waited at the former one")
    func acknowledgedMeanwhile() throws {
        let harness = PartitionHarness()
        harness.pushServices = ServedAddressTests.services(ServedAddressTests.both)
        let (device, _) = try PushTests.device(harness, ServedAddressTests.transport(.fcm, keeps: true))
        harness.publish("a", to: "news")
        try PushTests.answer(harness, .closed(for: .seconds(300)))
        let last = harness.partitions[1].state.log.last
        let event = EventID(position: last, history: UInt16(harness.partitions[1].history.rawValue))
        _ = harness.request(.acknowledge(device, by: .backend, event), of: device.partition)
        let web = ServedAddressTests.transport(.web, keeps: true)
        _ = harness.request(.setTransport(device, by: .backend, web), of: device.partition)
        harness.publish("b", to: "news")
        harness.settle()
        #expect(taken(harness) == ["a by fcm", "b by web"])
    }

    @Test("is left alone for as long as its service asks, though a better one was told and is gone meanwhile")
    func betterMeanwhile() throws {
        let (harness, _) = try betterWhileSpared()
        try PushTests.answer(harness, .gone)
        harness.pass(seconds: 200)
        #expect(taken(harness) == ["a by fcm", "a by web"])
        harness.pass(seconds: 200)
        #expect(taken(harness) == ["a by fcm"])
        #expect(harness.partitions[1].brokenInvariant(isWhole: true) == nil)
    }

    @Test("goes on where the former one was, for a device that acknowledges its messages itself")
    func keptOnce() throws {
        let harness = PartitionHarness()
        let device = try device(harness, [.fcm], keeps: true)
        for text in ["a", "b"] { harness.publish(text, to: "news") }
        for _ in 0..<2 { try PushTests.answer(harness, .done) }
        harness.settle()
        #expect(taken(harness) == ["a by fcm", "b by fcm"])
        change(harness, to: ServedAddressTests.both)
        harness.settle()
        #expect(taken(harness) == [])
        harness.publish("c", to: "news")
        try PushTests.answer(harness, .done)
        harness.settle()
        #expect(taken(harness) == ["c by web"])
        #expect(harness.waitingCount(1, device.index.rawValue) == 3)
    }

    @Test("gets all that waits where the device does not acknowledge what that service gets")
    func keptByOne() throws {
        let harness = PartitionHarness()
        let device = try device(harness, [.fcm], keeps: true)
        let plain = ServedAddressTests.transport(.web)
        _ = harness.request(.setTransport(device, by: .backend, plain), of: device.partition)
        harness.publish("a", to: "news")
        try PushTests.answer(harness, .done)
        harness.settle()
        #expect(taken(harness) == ["a by fcm"] && harness.waitingCount(1, device.index.rawValue) == 1)
        change(harness, to: ServedAddressTests.both)
        try PushTests.answer(harness, .done)
        harness.settle()
        #expect(taken(harness) == ["a by web"] && harness.waitingCount(1, device.index.rawValue) == 0)
    }

    @Test("gets from the beginning what still waits where one of them ends", arguments: [true, false])
    func endOfOne(isGone: Bool) throws {
        let harness = PartitionHarness()
        let device = try device(harness, [.web], keeps: true)
        harness.publish("a", to: "news")
        try PushTests.answer(harness, .done)
        harness.settle()
        change(harness, to: [.fcm])
        harness.publish("b", to: "news")
        try PushTests.answer(harness, .done)
        harness.settle()
        change(harness, to: ServedAddressTests.both)
        #expect(taken(harness) == ["a by web", "b by fcm"])
        if isGone {
            harness.publish("c", to: "news")
            try PushTests.answer(harness, .gone)
            harness.settle()
            #expect(taken(harness) == ["c by web", "a by fcm"])
        } else {
            _ = harness.request(.endTransport(device, by: .backend, .web), of: device.partition)
            harness.settle()
            #expect(taken(harness) == ["a by fcm"])
        }
    }

    @Test("is the same for a new owner, which pushes again what its predecessor had at the sender")
    func newOwner() throws {
        let harness = PartitionHarness()
        _ = try device(harness, [.fcm])
        for text in ["a", "b"] { harness.publish(text, to: "news") }
        try PushTests.answer(harness, .done)
        harness.settle()
        #expect(taken(harness) == ["a by fcm", "b by fcm"])
        try harness.succeedFromSnapshot(1)
        harness.settle()
        #expect(taken(harness) == ["b by fcm"])
        // An owner whose catalog is older asks a service that is not set, and is told to wait.
        harness.pushServices = [:]
        try harness.succeed(1)
        try PushTests.answer(harness, .later(after: .seconds(60), isFailure: true))
        change(harness, to: [.fcm])
        #expect(taken(harness) == ["b by web", "b by fcm"])
    }

    @Test("counts for a message of now or never")
    func momentary() throws {
        for (times, expected) in [
            (TimesToLive(stream: 0, web: 3600, apns: 3600, fcm: 0), ["a by fcm"]),
            (TimesToLive(stream: 0, web: 0, apns: 0, fcm: 3600), ["a by fcm"]),
            (TimesToLive(stream: 0, web: 0, apns: 0, fcm: 0), ["a by fcm"]),
        ] {
            let harness = PartitionHarness()
            _ = try device(harness, [.fcm])
            harness.publish("a", to: "news", times: times)
            #expect(taken(harness) == expected)
        }
    }
}
