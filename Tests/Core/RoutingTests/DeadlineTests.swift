import Model
import Testing

@testable import Routing

@Suite("A deadline") struct DeadlineTests {
    private func time(_ nanoseconds: UInt64) -> MonotonicTime { MonotonicTime(nanoseconds: nanoseconds) }
    private func time(_ sinceZero: TimeSpan) -> MonotonicTime { MonotonicTime(sinceZero) }

    @Test("is past from its moment on, and leaves a second for the handover")
    func itIsPastFromItsMomentOn() {
        let deadline = Deadline(time(5_000_000_000))
        #expect(!deadline.isPast(now: time(4_999_999_999)) && deadline.isPast(now: time(5_000_000_000)))
        #expect(deadline.left(now: time(1_000_000_001)) == 2_999, "a second is for the handing over")
        #expect(deadline.left(now: time(6_000_000_000)) == 0)
        #expect(Deadline(time(TimeSpan.max)).left(now: time(0)) == .max)
    }

    /// The reader's clock has another zero, and the reader knows only a moment before the handing over.
    @Test("is never later for its reader than for its writer")
    func neverLater() {
        var random = SeededGenerator(seed: 11)
        for _ in 0..<10_000 {
            let offset = random.next(upperBound: TimeSpan.seconds(1_000_000))
            let written = TimeSpan.seconds(100) + random.next(upperBound: .seconds(50))
            let ends = TimeSpan.seconds(100) + random.next(upperBound: .seconds(80))
            let handedOver = written + random.next(upperBound: Deadline.handoverMax)
            let known = handedOver - random.next(upperBound: .seconds(20))
            let left = Deadline(time(ends)).left(now: time(written))
            let read = Deadline(left: left, after: time(known + offset))
            #expect(read.time <= time(max(ends, known) + offset))
            // The reader cuts the deadline short by no more than the time that it cannot know.
            let unknown = handedOver - known + Deadline.handoverMax + .milliseconds(1)
            #expect(read.time.advanced(by: unknown) > time(ends + offset))
        }
    }

    /// A request that has lain past its deadline is past it for every reader, however long the reader slept.
    @Test("is past for the reader of a request that has lain")
    func whatHasLainIsPast() {
        let asked = time(10_000_000_000)
        let left = Deadline(asked.advanced(by: .seconds(25))).left(now: asked)
        let known = asked
        for lain in [25, 26, 400] as [UInt64] {
            #expect(Deadline(left: left, after: known).isPast(now: asked.advanced(by: .seconds(lain))))
        }
        #expect(!Deadline(left: left, after: known).isPast(now: asked.advanced(by: .seconds(23))))
    }

    @Test("guards a request together with an epoch: for one owner and for its time")
    func mandate() {
        let requestGuard = RequestGuard(epoch: Epoch(5), deadline: Deadline(time(100)))
        #expect(requestGuard.standing(in: Epoch(5), now: time(99)) == .valid)
        for other in [4, 6] as [UInt64] {
            #expect(requestGuard.standing(in: Epoch(other), now: time(99)) == .moved)
            #expect(requestGuard.standing(in: Epoch(other), now: time(100)) == .late)
        }
        #expect(requestGuard.standing(in: Epoch(5), now: time(100)) == .late)
    }
}
