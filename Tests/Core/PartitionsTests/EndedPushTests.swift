import Model
import Testing

@testable import Partitions

/// Messages that end in their partition before a push service took them (rule: ends-of-their-own).
@Suite("A message that no push service took in time")
struct EndedPushTests {
    private static let id = MessageID(time: 7, random: 9)
    private static let event = "{\"messageId\":\"\(id.text)\"}"
    private static let fcm = Transport(kind: .fcm, address: FCMAddress(token: "token").packed)

    private func counts(_ harness: PartitionHarness) -> [[Transport.Kind: Int]] {
        harness.notices.compactMap { if case .pushesEnded(let counts) = $0 { counts } else { nil } }
    }

    private func tallies(_ harness: PartitionHarness) -> [String] {
        let project = PartitionHarness.project
        let reply = harness.request(.pushes(project: project, of: EndedPushTests.id), of: PartitionID(1))
        guard case .pushes(let tallies) = reply else { return [] }
        return tallies.map { "\($0.kind.word) \($0.outcome.word) \($0.count)" }
    }

    /// Lets the only message at each service wait there past the end of the message.
    private func refuseAll(_ harness: PartitionHarness) {
        for (partition, job) in harness.takeAllJobs() {
            harness.answer(job, of: partition, .closed(for: .seconds(7200)))
        }
    }

    @Test("counts once for each device, by its service, when its minute is over")
    func once() throws {
        let harness = PartitionHarness()
        for _ in 0..<3 { _ = try PushTests.device(harness) }
        _ = try PushTests.device(harness, EndedPushTests.fcm)
        let (listener, _) = try #require(harness.register(in: 1))
        _ = harness.change(.subscribe, "news", [listener])
        harness.publish(EndedPushTests.event, to: "news", ttl: 60)
        refuseAll(harness)
        harness.pass(seconds: 30)
        #expect(counts(harness).isEmpty)
        harness.pass(seconds: 100)
        #expect(counts(harness) == [[.web: 3, .fcm: 1]])
        #expect(tallies(harness) == ["web expired 3", "fcm expired 1"])
        harness.pass(seconds: 400)
        #expect(counts(harness).count == 1)
    }

    @Test("counts at the end of each service, though its stream goes on", arguments: [false, true])
    func ownEnds(isLookedAtAgain: Bool) throws {
        let harness = PartitionHarness()
        let (device, _) = try PushTests.device(harness)
        _ = try PushTests.device(harness, EndedPushTests.fcm)
        harness.publish(
            EndedPushTests.event, to: "news", times: TimesToLive(stream: 3600, web: 60, apns: 60, fcm: 600))
        refuseAll(harness)
        harness.pass(seconds: 130)
        #expect(counts(harness) == [[.web: 1]])
        if isLookedAtAgain {
            _ = harness.request(.endTransport(device, by: .backend, .web), of: device.partition)
            harness.settle()
        }
        harness.pass(seconds: 600)
        #expect(counts(harness) == [[.web: 1], [.fcm: 1]])
        try harness.succeedFromSnapshot(1)
        harness.pass(seconds: 7200)
        #expect(counts(harness) == [[.web: 1], [.fcm: 1]])
    }

    @Test("is not one that the service took, that the device acknowledged, or whose address is gone")
    func taken() throws {
        for isKept in [false, true] {
            let harness = PartitionHarness()
            let kept = Transport(kind: .web, address: PushTests.web.address, keepsMessages: isKept)
            _ = try PushTests.device(harness, kept)
            harness.publish(EndedPushTests.event, to: "news", ttl: 60)
            try PushTests.answer(harness, .done)
            harness.pass(seconds: 200)
            #expect(counts(harness).isEmpty)
        }
        let harness = PartitionHarness()
        _ = try PushTests.device(harness)
        harness.publish(EndedPushTests.event, to: "news", ttl: 60)
        try PushTests.answer(harness, .gone)
        harness.pass(seconds: 200)
        #expect(counts(harness).isEmpty)
    }

    @Test("counts for a device that acknowledges itself, where no service got it")
    func kept() throws {
        let harness = PartitionHarness()
        let kept = Transport(kind: .web, address: PushTests.web.address, keepsMessages: true)
        _ = try PushTests.device(harness, kept)
        harness.publish(EndedPushTests.event, to: "news", ttl: 60)
        refuseAll(harness)
        harness.pass(seconds: 200)
        #expect(counts(harness) == [[.web: 1]])
    }

    @Test("counts for the service that the device's project has")
    func served() throws {
        let harness = PartitionHarness()
        let (device, _) = try PushTests.device(harness)
        _ = harness.request(.setTransport(device, by: .backend, EndedPushTests.fcm), of: device.partition)
        var services = PushServices()
        services.fcm = true
        harness.send(.pushesChanged([PartitionHarness.project: services]), to: PartitionID(1))
        harness.pushServices = [PartitionHarness.project: services]
        harness.publish(EndedPushTests.event, to: "news", ttl: 60)
        refuseAll(harness)
        harness.pass(seconds: 200)
        #expect(counts(harness) == [[.fcm: 1]])
    }

    @Test("is not counted again where the sender has found it over")
    func atSender() throws {
        let harness = PartitionHarness()
        _ = try PushTests.device(harness)
        harness.publish(EndedPushTests.event, to: "news", ttl: 60)
        let (partition, job) = try #require(harness.jobs.last)
        harness.now.monotonic = harness.now.monotonic.advanced(by: .seconds(61))
        harness.now.wall = WallTime(milliseconds: harness.now.wall.milliseconds + 61_000)
        let report = PushReport(
            number: job.number, .later(after: .seconds(1), isFailure: true), outcome: .expired)
        harness.send(.pushed(report), to: partition)
        harness.pass(seconds: 200)
        #expect(counts(harness).isEmpty && tallies(harness) == ["web expired 1"])
    }
}
