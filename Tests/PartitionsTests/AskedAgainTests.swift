import Model
import Testing

@testable import Partitions

/// A doubted address while another address of the device serves (rule: one-word-ends-nothing).
@Suite("A doubted address of a device that another address serves")
struct AskedAgainTests {
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
        harness.pushServices = AskedAgainTests.services(1)
        device = try PushTests.device(harness).device
        _ = harness.request(
            .setTransport(device, by: .backend, AskedAgainTests.token), of: device.partition)
        harness.publish("a", to: "news")
        try answer("a by web", AskedAgainTests.doubted)
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

    private var mark: AddressMark? {
        harness.partitions[1].state.transports[device.index.rawValue]?.first?.mark
    }

    @Test("gets the next message after its pause, and comes back when the service takes that")
    func back() throws {
        publish("b", after: 5)
        try answer("b by fcm", .done, .accepted)
        publish("c", after: 6)
        #expect(harness.jobs.last?.job.witness == AskedAgainTests.witness)
        try answer("c by web", .done, .accepted)
        #expect(mark == nil)
        harness.publish("d", to: "news")
        try answer("d by web", .done, .accepted)
    }

    @Test("costs a message one request: the other address gets the message, and pauses double up to an hour")
    func pauses() throws {
        for pause in [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600] as [Int64] {
            publish("b", after: pause - 2)
            try answer("b by fcm", .done, .accepted)
            publish("c", after: 3)
            try answer("c by web", AskedAgainTests.doubted)
            try answer("c by fcm", .done, .accepted)
        }
        #expect(mark?.state == .doubted)
    }

    @Test("is gone by a second word that the sender believes, and the other address gets the message")
    func gone() throws {
        publish("b", after: 11)
        try answer("b by web", .gone, .gone)
        #expect(mark?.state == .gone)
        try answer("b by fcm", .done, .accepted)
    }

    @Test("is back at once when its service's setting is right again")
    func rightSetting() throws {
        harness.send(.pushesChanged(AskedAgainTests.services(2)), to: PartitionID(1))
        publish("b", after: 1)
        try answer("b by web", .done, .accepted)
    }

    @Test("is used by a new owner that begins under another setting, from its first message on")
    func rightAtNewOwner() throws {
        harness.publish("b", to: "news")
        harness.dropFirstJob()
        harness.pushServices = AskedAgainTests.services(2)
        try harness.succeed(1)
        try answer("b by web", .done, .accepted)
    }

    @Test(
        "gives the message back at once where the service has surely not taken it",
        arguments: [
            PushReport.Result.closed(for: .seconds(1)), .later(after: .seconds(60), isFailure: true),
        ])
    func untaken(result: PushReport.Result) throws {
        publish("b", after: 11)
        let isUntried = if case .closed = result { true } else { false }
        try answer("b by web", result, isUntried ? nil : .throttled(retryAfterSeconds: nil))
        try answer("b by fcm", .done, .accepted)
        publish("c", after: 1)
        try answer("c by fcm", .done, .accepted)
    }

    @Test("keeps a message whose answer is lost until the next answer, so that no other service gets it too")
    func uncertain() throws {
        publish("b", after: 11)
        let lost = PushReport.Result.later(after: .seconds(2), isFailure: true)
        try answer("b by web", lost, .transient(retryAfterSeconds: nil))
        harness.pass(seconds: 3)
        try answer("b by web", .closed(for: .seconds(1)))
        harness.pass(seconds: 3)
        try answer("b by web", .done, .accepted)
        #expect(mark == nil && harness.jobs.isEmpty)
    }

    @Test("gets no message that the other address's service may have")
    func tried() throws {
        publish("b", after: 5)
        let lost = PushReport.Result.later(after: .seconds(10), isFailure: true)
        try answer("b by fcm", lost, .transient(retryAfterSeconds: nil))
        harness.pass(seconds: 12)
        try answer("b by fcm", .done, .accepted)
        publish("c", after: 1)
        try answer("c by web", .done, .accepted)
    }

    @Test("gets from a new owner what came to that owner, and nothing that came before")
    func newOwner() throws {
        harness.publish("b", to: "news")
        harness.dropFirstJob()
        try harness.succeed(1)
        try answer("b by fcm", .done, .accepted)
        harness.publish("c", to: "news")
        try answer("c by web", .done, .accepted)
    }

    @Test("is not asked with a message of now or never, which is one attempt")
    func nowOrNever() throws {
        harness.pass(seconds: 11)
        harness.publish("b", to: "news", ttl: 0)
        try answer("b by fcm", .done, .accepted)
    }

    @Test("gets nothing that overtakes a message which has no time left there")
    func overtaken() throws {
        harness.publish("b", to: "news", times: TimesToLive(stream: 3600, web: 3, apns: 3600, fcm: 3600))
        try answer("b by fcm", .later(after: .seconds(4), isFailure: false))
        publish("c", after: 11)
        try answer("b by fcm", .done, .accepted)
        try answer("c by web", .done, .accepted)
    }
}
