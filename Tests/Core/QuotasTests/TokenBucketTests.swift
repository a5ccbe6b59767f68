import Model
import Testing

@testable import Quotas

func at(_ nanoseconds: UInt64) -> MonotonicTime { MonotonicTime(nanoseconds: nanoseconds) }
func at(_ sinceZero: TimeSpan) -> MonotonicTime { MonotonicTime(sinceZero) }

/// The promise itself as a limiter. It remembers all admissions, and admits an operation where every window
/// that begins with an admission keeps to burst + rate × window.
struct DumbBucket {
    let rate: QuotaRate
    var taken: [(at: UInt64, count: Int128)] = []

    /// Token-nanoseconds of the period that may be taken at `now`.
    func free(_ now: UInt64) -> Int128 {
        let scale = Int128(rate.seconds) * 1_000_000_000
        var least = Int128(rate.burst) * scale
        var sum: Int128 = 0
        for (start, count) in taken.reversed() {
            sum += count * scale
            least = min(least, Int128(rate.burst) * scale + Int128(rate.count) * Int128(now - start) - sum)
        }
        return least
    }
    mutating func take(_ count: UInt64, _ now: UInt64) -> Bool {
        guard Int128(count) * Int128(rate.seconds) * 1_000_000_000 <= free(now) else { return false }
        taken.append((now, Int128(count)))
        return true
    }
}

extension TokenBucket {
    /// Takes `count` tokens, or none.
    fileprivate mutating func take(_ count: UInt64, _ now: MonotonicTime) -> Bool {
        guard level(now) >= count else { return false }
        remove(UInt128(count) * rate.scale)
        return true
    }

    /// The time until the bucket will hold `count` tokens if no one takes any; `nil` if it never will.
    fileprivate mutating func delay(until count: UInt64, _ now: MonotonicTime) -> TimeSpan? {
        refill(now)
        return delay(until: UInt128(count) * rate.scale, beside: 0, now)
    }
}

@Suite("A token bucket") struct TokenBucketTests {
    @Test("the bucket admits exactly what the promise allows, over 20,000 random histories")
    func twin() {
        var random = SeededGenerator(seed: 11)
        for history in 0..<20_000 {
            let rate = QuotaRate(
                count: UInt64.random(in: 0...(history % 3 == 0 ? 5 : 1_000_000_000), using: &random),
                perSeconds: [1, 60, 3600].randomElement(using: &random) ?? 1,
                burst: UInt64.random(in: 0...30, using: &random))
            var now = UInt64.random(in: 0...1_000_000, using: &random)
            var bucket = TokenBucket(rate, full: at(now))
            var dumb = DumbBucket(rate: rate)
            let stepMax = rate.count == 0 ? 10 : 2_000_000_000 * UInt64(rate.seconds) / rate.count + 2
            for step in 0..<12 {
                now += UInt64.random(in: 0...stepMax, using: &random)
                let count = UInt64.random(in: 0...8, using: &random)
                if Bool.random(using: &random) {
                    expect(
                        bucket.take(count, at(now)) == dumb.take(count, now), "seed 11 \(history)/\(step)")
                } else {
                    let free = UInt64(max(dumb.free(now), 0) / (Int128(rate.seconds) * 1_000_000_000))
                    expect(bucket.level(at(now)) == free, "seed 11 \(history)/\(step)")
                }
                if let delay = bucket.delay(until: count, at(now)) {
                    var (early, then) = (bucket, bucket)
                    expect(then.take(count, at(now) + delay))
                    if delay > .zero { expect(!early.take(count, at(now - 1) + delay)) }
                } else {
                    expect(rate.count == 0 || count > rate.burst)
                }
            }
        }
    }

    @Test("the defaults: 600,000 at once pass, the next does not, then 10,000 a second come back")
    func defaults() {
        let start = at(5)
        var bucket = TokenBucket(QuotaLimits.standard.sends, full: start)
        expect(bucket.take(600_000, start))
        expect(!bucket.take(1, start))
        expect(bucket.delay(until: 1, start) == .microseconds(100))
        expect(bucket.level(start.advanced(by: .seconds(1))) == 10_000)
        expect(bucket.level(start.advanced(by: .seconds(120))) == 600_000)
    }

    @Test("nothing is lost by asking often: a year of odd steps gives what one step gives")
    func noDrift() {
        let rate = QuotaRate(count: 7, perSeconds: 60, burst: 1_000_000_000)
        var often = TokenBucket(rate, emptyAt: at(0))
        var once = often
        var now: UInt64 = 0
        for step in 0..<100_000 as Range<UInt64> {
            now += 1_000_003 * (step % 97)
            _ = often.level(at(now))
        }
        expect(often.level(at(now)) == once.level(at(now)))
        expect(often == once)
    }

    @Test("a clock that stands or goes back gives nothing")
    func clockBack() {
        var bucket = TokenBucket(QuotaRate(count: 1_000, burst: 10), full: at(1_000_000_000))
        expect(bucket.take(10, at(1_000_000_000)))
        expect(bucket.level(at(0)) == 0)
        expect(bucket.level(at(1_001_000_000)) == 1)
    }

    @Test("the largest values do not overflow")
    func extremes() {
        let rate = QuotaRate(count: .max, perSeconds: .max, burst: .max)
        expect(rate.count == QuotaRate.countMax && rate.burst == QuotaRate.countMax)
        var bucket = TokenBucket(rate, emptyAt: at(0))
        expect(bucket.level(at(TimeSpan.max)) == QuotaRate.countMax)
        expect(!bucket.take(.max, at(TimeSpan.max)))
        bucket.change(to: QuotaRate(count: 1, perSeconds: 1, burst: .max), at(TimeSpan.max))
        expect(bucket.level(at(TimeSpan.max)) == QuotaRate.countMax)
        expect(bucket.delay(until: .max, at(TimeSpan.max)) == nil)
    }

    @Test("another rate holds from the moment of the change; what is there stays up to the new burst")
    func change() {
        var bucket = TokenBucket(QuotaRate(count: 10, burst: 100), full: at(0))
        expect(bucket.take(60, at(0)))
        bucket.change(to: QuotaRate(count: 600, perSeconds: 60, burst: 45), at(.milliseconds(150)))
        expect(bucket.level(at(.milliseconds(150))) == 41)
        expect(bucket.level(at(.milliseconds(200))) == 42)
        bucket.change(to: QuotaRate(count: 10, burst: 20), at(.milliseconds(200)))
        expect(bucket.level(at(.milliseconds(200))) == 20)
        bucket.change(to: QuotaRate(count: 0, burst: 0), at(.milliseconds(200)))
        expect(!bucket.take(1, at(.seconds(100))))
    }
}

@Suite("The limits of quotas") struct QuotaLimitsTests {
    @Test("the defaults are those of docs/api.md")
    func defaults() {
        let limits = QuotaLimits.standard
        expect(limits.sends == QuotaRate(count: 10_000, burst: 600_000))
        expect(limits.sendsPerMinute == 600_000)
        expect(limits.subscriptionChanges == QuotaRate(count: 3_000, burst: 3_000))
        expect(limits.registrations == QuotaRate(count: 1_000, burst: 1_000))
        expect((limits.fanouts, limits.devicePerMinute, limits.devicePerHour) == (1_000, 240, 5_000))
        expect((limits.devices, limits.topics) == (20_000_000, 5_000_000))
    }

    @Test("sends a minute need not be whole a second")
    func perMinute() {
        var limits = QuotaLimits.standard
        limits.setSends(perMinute: 600_000)
        expect(limits == .standard)
        limits.setSends(perMinute: 100)
        expect(limits.sendsPerMinute == 100)
        var bucket = TokenBucket(limits.sends, full: at(0))
        expect(bucket.take(100, at(0)))
        expect(bucket.level(at(.seconds(30))) == 50)
        limits.setSends(perMinute: .max)
        expect(limits.sends.count == QuotaRate.countMax / 1 && limits.sends.seconds >= 1)
    }
}
