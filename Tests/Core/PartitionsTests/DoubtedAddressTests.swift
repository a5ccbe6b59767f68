import Model
import Testing

@testable import Partitions

/// A doubted address while another address of the device serves (rule: one-word-ends-nothing).
@Suite("A doubted address of a device that another address serves")
struct DoubtedAddressTests {
    private static let witness = PushWitness(era: 1, since: .zero)
    private static let doubted = PushReport.Result.doubted(after: .seconds(10), witness)
    private static let token = Transport(kind: .fcm, address: FCMAddress(token: "token").packed)

    private let harness: PartitionHarness
    private let device: Registration

    private static func services(_ setting: UInt64) -> [ProjectNumber: PushServices] {
        var services = PushServices()
        (services.web, services.fcm) = (true, true)
        services.settings = [.web: setting, .fcm: setting]
        return [PartitionHarness.project: services]
    }

    /// A device whose address at Web Push is doubted, so that `a` went to FCM.
    init() throws {
        harness = PartitionHarness()
        harness.pushServices = DoubtedAddressTests.services(1)
        device = try PushTests.device(harness).device
        _ = harness.request(
            .setTransport(device, by: .backend, DoubtedAddressTests.token), of: device.partition)
        harness.publish("a", to: "news")
        try answer("a by web", DoubtedAddressTests.doubted)
        try answer("a by fcm", .done, .accepted)
    }

    /// Answers what the sender has, which is this message at this service alone.
    private func answer(
        _ expected: String, _ result: PushReport.Result, _ outcome: PushOutcome? = nil
    ) throws {
        let jobs = harness.takeAllJobs()
        #expect(words(jobs) == [expected])
        let (partition, job) = try #require(jobs.last)
        harness.answer(job, of: partition, result, outcome: outcome)
        if let broken = harness.partitions[1].brokenInvariant(isWhole: true) { Issue.record("\(broken)") }
    }

    private func words(_ jobs: [(partition: PartitionID, job: PushJob)]) -> [String] {
        jobs.map { "\(String(decoding: $0.job.event, as: UTF8.self)) by \($0.job.transport.kind.word)" }
    }

    private func publish(_ text: String, after seconds: Int64) {
        harness.pass(seconds: seconds)
        harness.publish(text, to: "news")
    }

    @Test("is back at once when its service's setting is right again")
    func rightSetting() throws {
        harness.send(.pushesChanged(DoubtedAddressTests.services(2)), to: PartitionID(1))
        publish("b", after: 1)
        try answer("b by web", .done, .accepted)
    }

    @Test("is used by a new owner that begins under another setting, from its first message on")
    func rightAtNewOwner() throws {
        harness.publish("b", to: "news")
        harness.dropFirstJob()
        harness.pushServices = DoubtedAddressTests.services(2)
        try harness.succeed(1)
        try answer("b by web", .done, .accepted)
    }
}
