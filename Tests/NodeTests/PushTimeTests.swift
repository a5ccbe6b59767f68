import Model
import Partitions
import Testing

@testable import Node

@Suite("The time that is left of a message for a push service") struct PushTimeTests {
    private let wall = WallTime(milliseconds: 1_800_000_000_000)

    private func job(endsAfter milliseconds: Int64, isMomentary: Bool = false) -> PushJob {
        var job = PushJob(
            number: 1, project: ProjectNumber(5), device: DeviceIndex(1),
            transport: Transport(kind: .web, address: []), registered: WallTime(milliseconds: 1),
            generation: 1, event: [], expires: WallTime(milliseconds: wall.milliseconds + milliseconds),
            tries: 0)
        job.isMomentary = isMomentary
        return job
    }

    private func left(_ job: PushJob, since age: TimeSpan = .zero) throws -> PushTimeLeft {
        try PushTimeLeft(job, now: Instant(monotonic: Clock.monotonic().rewound(by: age), wall: wall))
    }

    @Test("is none after the message's end, and the message has expired then")
    func over() throws {
        for end in [Int64(0), -1, -86_400_000] {
            let refused = #expect(throws: PushRefusal.self) { try left(job(endsAfter: end)) }
            #expect(refused?.outcome == .expired)
        }
        #expect(throws: Never.self) { try left(job(endsAfter: 60_000)).check() }
        #expect(throws: Never.self) { try left(job(endsAfter: 0, isMomentary: true)).check() }
    }

    @Test("runs while the message waits for its connection, and is told apart from other errors")
    func overMeanwhile() throws {
        let late = try left(job(endsAfter: 60_000), since: .seconds(61))
        let error = try #require(throws: (any Error).self) { try late.check() }
        #expect(PushDispatch.withheld(error) == .expired)
        #expect(PushDispatch.withheld(LostOwnership()) == .notMade("\(LostOwnership())"))
    }

    @Test("that is over is a count of its own")
    func counted() {
        let counters = PushCounters()
        counters.note(.expired, of: .web)
        #expect(counters.count(.web, "expired") == 1 && counters.count(.web, "unsent") == 0)
        #expect(PushCounters.outcomes.contains(PushOutcome.expired.word))
    }
}
