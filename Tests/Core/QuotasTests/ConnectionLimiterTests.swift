import Model
import Testing

@testable import Quotas

@Suite("How fast an address connects")
struct ConnectionLimiterTests {
    private func at(_ seconds: UInt64) -> MonotonicTime { MonotonicTime(.seconds(seconds)) }

    @Test(
        "has ten seconds' worth at once, then so many a second",
        arguments: [1, 500, ConnectionLimiter.perSecondMax])
    func rate(perSecond: Int) {
        var limiter = ConnectionLimiter(perSecond: perSecond, salt: 1)
        let most = min(perSecond, 500)
        // The largest limit is never reached here; it shows that no count overflows.
        for _ in 0..<most * 10 { expect(limiter.take(7, now: at(0))) }
        expect(limiter.take(7, now: at(0)) == (perSecond > most))
        for _ in 0..<most { expect(limiter.take(7, now: at(1))) }
        expect(limiter.take(7, now: at(1)) == (perSecond > most))
    }

    @Test("is remembered of so many addresses, and forgotten when it is slow again")
    func bounded() {
        var limiter = ConnectionLimiter(perSecond: 1, countMax: 64, salt: 1)
        for address in 0..<1000 { expect(limiter.take(UInt64(address), now: at(0))) }
        expect(limiter.count <= 64)
        for number in 0..<1000 { _ = limiter.take(5, now: at(100 + UInt64(number))) }
        expect(limiter.count <= 2)
    }
}
