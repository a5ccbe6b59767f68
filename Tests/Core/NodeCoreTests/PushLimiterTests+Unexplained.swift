import Model
import Partitions
import Testing

@testable import NodeCore

extension PushLimiterTests {
    @Test("an answer that is not about the message refuses it if the service takes others meanwhile")
    func unexplained() {
        let world = World()
        /// The result of a message that was tried so often before, with so many such answers.
        func result(tries: Int, unexplained: Int? = nil) -> PushReport.Result? {
            let job = world.submit(tries: tries, unexplained: unexplained ?? tries)
            world.answer(.unexplained("302"))
            return world.reports[job]
        }
        world.submit()
        world.answer(.accepted)
        for tries in 0..<3 { #expect(result(tries: tries) != .done) }
        // The service did not answer before, or was overloaded.
        for tries in [3, 300] { #expect(result(tries: tries, unexplained: 2) != .done) }
        #expect(result(tries: 3) == .done)
        // Nothing was taken since the message was last tried, eight seconds ago or more.
        world.pass(seconds: 9)
        #expect(result(tries: 3) != .done && result(tries: 4) == .done)
        world.pass(seconds: 3600)
        #expect(result(tries: 12) != .done)
        // A device's other messages do not wait for this one for longer than a day.
        world.pass(seconds: 3600)
        #expect(result(tries: 300) == .done)
    }

    @Test("answers that are not about their messages close the service, and refuse no key")
    func unexplainedOrigin() {
        let world = World { $0.failuresMax = 2 }
        for _ in 0..<2 { world.submit(to: "f", kind: .fcm) }
        for _ in 0..<2 { world.answer(.unexplained("407")) }
        let held = world.submit(to: "f", kind: .fcm)
        #expect((TimeSpan.seconds(1)...(.seconds(2))).contains(world.delay(held) ?? .zero))
        #expect(world.refusals.isEmpty)
    }

    @Test(
        "asks for a day at most for one device, for an hour if the service is not well, for the quota minutes",
        arguments: [
            (.throttled(retryAfterSeconds: .max), 86_400), (.transient(retryAfterSeconds: .max), 3600),
            (.formerEnd(retryAfterSeconds: .max), 3600), (.overQuota(retryAfterSeconds: .max), 300),
        ] as [(PushOutcome, UInt64)])
    func asked(outcome: PushOutcome, most: UInt64) {
        let world = World()
        let job = world.submit(tries: .max)
        world.answer(outcome)
        #expect(world.delay(job) ?? .max >= .seconds(most))
        #expect(world.delay(job) ?? .max <= .seconds(most * 5 / 4))
    }
}
