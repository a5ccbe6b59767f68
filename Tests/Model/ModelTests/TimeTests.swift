import Testing

@testable import Model

@Suite("Lengths of time") struct TimeTests {
    @Test("are counted in nanoseconds, and shown in whole larger units, rounded down")
    func units() {
        #expect(TimeSpan.seconds(2) == .milliseconds(2000) && TimeSpan.milliseconds(1) == .microseconds(1000))
        #expect(TimeSpan.microseconds(1) == .nanoseconds(1000))
        let length = TimeSpan.nanoseconds(2_999_999_999)
        #expect((length.seconds, length.milliseconds, length.microseconds) == (2, 2999, 2_999_999))
    }

    @Test("are added, taken away, multiplied and divided like integers")
    func arithmetic() {
        let second = TimeSpan.seconds(1)
        #expect(second + .milliseconds(500) - .milliseconds(200) == .milliseconds(1300))
        #expect(3 * second == second * 3 && second * 3 / 4 == .milliseconds(750))
        #expect(second / .milliseconds(300) == 3 && second % .milliseconds(300) == .milliseconds(100))
        #expect(TimeSpan.milliseconds(999) < second && TimeSpan.zero < .nanoseconds(1))
    }

    @Test("end at nothing where a longer one is taken away, and at the longest where they are doubled")
    func ends() {
        #expect(TimeSpan.seconds(1).reduced(by: .seconds(2)) == .zero)
        #expect(TimeSpan.seconds(3).reduced(by: .seconds(2)) == .seconds(1))
        #expect(TimeSpan.milliseconds(50).doubled(times: 3) == .milliseconds(400))
        #expect(
            TimeSpan.seconds(60).doubled(times: 32) == .max
                && TimeSpan.nanoseconds(1).doubled(times: 70) == .max)
        #expect(TimeSpan.nanoseconds(1).doubled(times: 63) == .nanoseconds(1 << 63))
        #expect(TimeSpan.zero.doubled(times: 1000) == .zero)
    }

    @Test("lie between two moments of a clock")
    func moments() {
        let (early, late) = (MonotonicTime(.seconds(1)), MonotonicTime(.seconds(3)))
        #expect(late.since(early) == .seconds(2) && early.since(late) == .zero)
        #expect(early + .seconds(2) == late && early.advanced(by: .seconds(2)) == late)
        #expect(late.rewound(by: .seconds(2)) == early && early.rewound(by: .seconds(2)) == .zero)
    }

    @Test("are drawn as integers are")
    func draws() {
        var (one, other) = (SeededGenerator(seed: 7), SeededGenerator(seed: 7))
        for _ in 0..<1000 {
            let drawn = TimeSpan.random(in: .zero ... .seconds(5), using: &one)
            #expect(drawn.nanoseconds == UInt64.random(in: 0...5_000_000_000, using: &other))
            let below = one.next(upperBound: TimeSpan.milliseconds(7))
            #expect(below.nanoseconds == other.next(upperBound: UInt64(7_000_000)))
        }
    }
}
