import Model
import Testing

@testable import Partitions

/// Tokens that are of Apple's other environment than their app has said.
@Suite("A token that its environment at Apple's does not know")
struct OtherEnvironmentTests {
    private static func transport(sandbox: Bool, token: UInt8 = 1, keeps: Bool = false) -> Transport {
        let address = APNsAddress(isSandbox: sandbox, bundleID: "a", token: [token])
        return Transport(kind: .apns, address: address.packed, keepsMessages: keeps)
    }

    /// A device in production, of a project that has keys for `environments`.
    private func device(
        _ harness: PartitionHarness, isAllowed: Bool = true, environments: [Bool] = [false, true],
        keeps: Bool = false, hasWeb: Bool = false
    ) throws -> Registration {
        var services = PushServices()
        services.web = hasWeb
        services.triesOtherEnvironment = isAllowed
        services.apps = Set(environments.map { APNsAddress.app(isSandbox: $0, bundleID: "a") })
        harness.pushServices = [PartitionHarness.project: services]
        return try PushTests.device(
            harness, OtherEnvironmentTests.transport(sandbox: false, keeps: keeps)
        ).device
    }

    private func answer(_ harness: PartitionHarness, _ outcome: PushOutcome) throws {
        let (partition, job) = try #require(harness.jobs.last)
        let result: PushReport.Result =
            switch outcome {
            case .accepted: .done
            case .gone, .goneHere: .gone
            default: .later(after: .seconds(10), isFailure: true)
            }
        harness.send(.pushed(PushReport(number: job.number, result, outcome: outcome)), to: partition)
    }

    /// The messages since the last look, and whether each went to the sandbox.
    private func taken(_ harness: PartitionHarness) -> [String] {
        harness.takeAllJobs().map { _, job in
            let address = APNsAddress(packed: job.transport.address)
            let place = address.map { $0.isSandbox ? "sandbox" : "production" } ?? "nowhere"
            return "\(String(decoding: job.event, as: UTF8.self)) in \(place)"
        }
    }

    private func stored(_ harness: PartitionHarness, _ device: Registration) -> StoredTransport? {
        harness.partitions[1].state.transports[device.index.rawValue]?.first
    }

    @Test("is tried in the other one, and kept there where a message is taken", arguments: [true, false])
    func kept(keeps: Bool) throws {
        let harness = PartitionHarness()
        let device = try device(harness, keeps: keeps)
        let told = stored(harness, device)?.registered
        for text in ["a", "b"] { harness.publish(text, to: "news") }
        try answer(harness, .goneHere)
        try answer(harness, .transient(retryAfterSeconds: nil))
        harness.pass(seconds: 11)
        try answer(harness, .accepted)
        harness.settle()
        #expect(taken(harness) == ["a in production", "a in sandbox", "a in sandbox", "b in sandbox"])
        let kept = OtherEnvironmentTests.transport(sandbox: true, keeps: keeps)
        #expect(stored(harness, device)?.transport == kept && stored(harness, device)?.registered == told)
        #expect(harness.waitingCount(1, device.index.rawValue) == (keeps ? 2 : 1))
        try harness.succeed(1)
        harness.settle()
        #expect(taken(harness) == ["b in sandbox"])
    }

    @Test("goes on in the other one when a service of another kind has ended the device's address there")
    func otherKindEnds() throws {
        let harness = PartitionHarness()
        let device = try device(harness, hasWeb: true)
        harness.publish("a", to: "news")
        try answer(harness, .goneHere)
        try answer(harness, .transient(retryAfterSeconds: nil))
        let web = Transport(kind: .web, address: Array("endpoint and keys".utf8))
        _ = harness.request(.setTransport(device, by: .backend, web), of: device.partition)
        harness.pass(seconds: 11)
        try answer(harness, .gone)
        harness.settle()
        harness.pass(seconds: 11)
        #expect(taken(harness) == ["a in production", "a in sandbox", "a in nowhere", "a in sandbox"])
    }

    @Test("is tried in its own environment at once where a second message shows that the other one is wrong")
    func wrongWhileClosed() throws {
        for isClosedLast in [false, true] {
            let harness = PartitionHarness()
            _ = try device(harness)
            harness.publish("a", to: "news")
            try answer(harness, .goneHere)
            let (partition, first) = try #require(harness.jobs.last)
            let times = TimesToLive(stream: 0, web: 0, apns: 0, fcm: 0)
            harness.publish("now", to: "news", times: times)
            let (_, second) = try #require(harness.jobs.last)
            func close() { harness.answer(first, of: partition, .closed(for: .seconds(300))) }
            if !isClosedLast { close() }
            let witness = PushWitness(era: 1, since: .zero)
            harness.answer(
                second, of: partition, .doubted(after: .seconds(10), witness), outcome: .goneHere)
            if isClosedLast { close() }
            harness.settle()
            #expect(
                taken(harness) == ["a in production", "a in sandbox", "now in sandbox", "a in production"])
            #expect(harness.partitions[1].brokenInvariant(isWhole: true) == nil)
        }
    }

    @Test("ends where the other one does not know it either, and is tried no third time")
    func unknownInBoth() throws {
        let harness = PartitionHarness()
        let device = try device(harness)
        harness.publish("a", to: "news")
        try answer(harness, .goneHere)
        try answer(harness, .goneHere)
        harness.settle()
        #expect(taken(harness) == ["a in production", "a in sandbox"])
        #expect(stored(harness, device)?.isGone == true)
        #expect(harness.partitions[1].pushes.elsewhere.isEmpty)
        let next = OtherEnvironmentTests.transport(sandbox: false, token: 2)
        _ = harness.request(.setTransport(device, by: .backend, next), of: device.partition)
        #expect(taken(harness) == ["a in production"])
    }

    @Test("ends at once where no try is allowed, where there is no key, and with any other answer")
    func ends() throws {
        for (isAllowed, environments, outcome) in [
            (false, [false, true], PushOutcome.goneHere), (true, [false], .goneHere),
            (true, [false, true], .gone),
        ] {
            let harness = PartitionHarness()
            let device = try device(harness, isAllowed: isAllowed, environments: environments)
            harness.publish("a", to: "news")
            try answer(harness, outcome)
            harness.settle()
            #expect(taken(harness) == ["a in production"] && stored(harness, device)?.isGone == true)
        }
    }

    @Test("ends where this environment has taken a message for it")
    func acceptedBefore() throws {
        let harness = PartitionHarness()
        let device = try device(harness)
        for text in ["a", "b"] { harness.publish(text, to: "news") }
        try answer(harness, .accepted)
        try answer(harness, .goneHere)
        harness.settle()
        #expect(taken(harness) == ["a in production", "b in production"])
        #expect(stored(harness, device)?.isGone == true)
    }

    @Test("stays in the environment that took a message where the app tells the former one again")
    func toldAgain() throws {
        let harness = PartitionHarness()
        let device = try device(harness)
        harness.publish("a", to: "news")
        try answer(harness, .goneHere)
        try answer(harness, .accepted)
        harness.settle()
        for token in [UInt8(1), 2] {
            let told = OtherEnvironmentTests.transport(sandbox: false, token: token)
            _ = harness.request(.setTransport(device, by: .backend, told), of: device.partition)
            let expected = OtherEnvironmentTests.transport(sandbox: token == 1, token: token)
            #expect(stored(harness, device)?.transport == expected)
        }
    }

    @Test("is not kept where the app has told another token meanwhile")
    func anotherToken() throws {
        let harness = PartitionHarness()
        let device = try device(harness)
        harness.publish("a", to: "news")
        try answer(harness, .goneHere)
        let next = OtherEnvironmentTests.transport(sandbox: false, token: 2)
        _ = harness.request(.setTransport(device, by: .backend, next), of: device.partition)
        try answer(harness, .accepted)
        harness.settle()
        #expect(stored(harness, device)?.transport == next)
        harness.publish("b", to: "news")
        #expect(taken(harness) == ["a in production", "a in sandbox", "b in production"])
    }

    @Test(
        "is tried where its environment has taken a message for the app's former token alone, early or late",
        arguments: [false, true])
    func acceptedForFormerToken(isLate: Bool) throws {
        let harness = PartitionHarness()
        let device = try device(harness)
        harness.publish("a", to: "news")
        if isLate { harness.pass(seconds: 1) } else { try answer(harness, .accepted) }
        let next = OtherEnvironmentTests.transport(sandbox: false, token: 2)
        _ = harness.request(.setTransport(device, by: .backend, next), of: device.partition)
        if isLate { try answer(harness, .accepted) }
        harness.publish("b", to: "news")
        try answer(harness, .goneHere)
        harness.settle()
        #expect(taken(harness) == ["a in production", "b in production", "b in sandbox"])
    }

    @Test("is tried by the next message after one of now or never")
    func momentary() throws {
        let harness = PartitionHarness()
        let device = try device(harness)
        let times = TimesToLive(stream: 0, web: 0, apns: 0, fcm: 0)
        for outcome in [PushOutcome.goneHere, .accepted] {
            harness.publish("now", to: "news", times: times)
            try answer(harness, outcome)
        }
        harness.settle()
        #expect(taken(harness) == ["now in production", "now in sandbox"])
        #expect(stored(harness, device)?.transport == OtherEnvironmentTests.transport(sandbox: true))
    }

    @Test("keeps its address where two messages of now or never hear so from its own environment")
    func twice() throws {
        let harness = PartitionHarness()
        let device = try device(harness)
        let times = TimesToLive(stream: 0, web: 0, apns: 0, fcm: 0)
        for _ in 0..<2 { harness.publish("now", to: "news", times: times) }
        for (partition, job) in harness.jobs.suffix(2) {
            harness.send(.pushed(PushReport(number: job.number, .gone, outcome: .goneHere)), to: partition)
        }
        harness.settle()
        #expect(stored(harness, device)?.isGone == false)
        harness.publish("now", to: "news", times: times)
        try answer(harness, .goneHere)
        #expect(taken(harness).last == "now in sandbox")
        harness.settle()
        #expect(stored(harness, device)?.isGone == true)
    }

    @Test("leaves the bounded table when it has been there longest, and no other token leaves then")
    func bounded() throws {
        let harness = PartitionHarness()
        let times = TimesToLive(stream: 0, web: 0, apns: 0, fcm: 0)
        let devices = [try device(harness), try device(harness), try device(harness)]
        func miss(_ device: Registration) throws {
            let send = Request.sendToDevice(nil, device, harness.envelope("m", times: times))
            _ = harness.request(send, of: device.partition)
            try answer(harness, .goneHere)
            harness.settle()
        }
        try miss(devices[0])
        try miss(devices[1])
        let table = harness.partitions[1].pushes
        for index in UInt32(1000)..<(1000 + UInt32(Partition.elsewhereMax) - 2) { note(index, harness) }
        #expect(table.elsewhere.count == 2)
        try miss(devices[2])
        #expect(devices.map { isElsewhere($0, harness) } == [false, true, true])
    }

    private func note(_ index: UInt32, _ harness: PartitionHarness) {
        harness.partitions[1].pushes.elsewhere.update(index, default: 1, keysMax: Partition.elsewhereMax) {
            _ in
        }
    }
    private func isElsewhere(_ device: Registration, _ harness: PartitionHarness) -> Bool {
        harness.partitions[1].pushes.elsewhere[device.index.rawValue] != nil
    }

    @Test("is tried in the other one although the device has told an address that comes first meanwhile")
    func meanwhile() throws {
        let harness = PartitionHarness()
        let device = try device(harness, hasWeb: true)
        harness.publish("a", to: "news")
        let (partition, job) = try #require(harness.jobs.last)
        _ = harness.request(.setTransport(device, by: .backend, PushTests.web), of: device.partition)
        let doubted = PushReport.Result.doubted(after: .seconds(10), PushWitness(era: 1, since: .zero))
        harness.answer(job, of: partition, doubted, outcome: .goneHere)
        harness.settle()
        let (_, other) = try #require(harness.jobs.last)
        #expect(other.transport == PushTests.web)
        _ = harness.request(.endTransport(device, by: .backend, .web), of: device.partition)
        harness.answer(other, of: partition, .closed(for: .seconds(1)))
        harness.settle()
        #expect(taken(harness).suffix(1) == ["a in sandbox"])
        let marks = harness.partitions[1].state.transports[device.index.rawValue]?.compactMap(\.mark)
        #expect(marks == [])
    }

    @Test("goes where its app has told when the settings have changed")
    func otherSettings() throws {
        let harness = PartitionHarness()
        let device = try device(harness)
        harness.publish("a", to: "news")
        try answer(harness, .goneHere)
        let (_, job) = try #require(harness.jobs.last)
        #expect(APNsAddress(packed: job.transport.address)?.isSandbox == true)
        let services = try #require(harness.partitions[1].pushServices)
        harness.publish("b", to: "news")
        harness.send(.pushesChanged(services), to: device.partition)
        try answer(harness, .transient(retryAfterSeconds: nil))
        harness.pass(seconds: 11)
        #expect(taken(harness).suffix(1) == ["a in production"])
    }

    @Test("is kept where a message was taken that left under former settings")
    func takenUnderFormer() throws {
        let harness = PartitionHarness()
        let device = try device(harness)
        harness.publish("a", to: "news")
        try answer(harness, .goneHere)
        let services = try #require(harness.partitions[1].pushServices)
        harness.send(.pushesChanged(services), to: device.partition)
        try answer(harness, .accepted)
        #expect(stored(harness, device)?.transport == OtherEnvironmentTests.transport(sandbox: true))
    }
}
