import Model
import Testing

@testable import Quotas

private func second(_ seconds: UInt64) -> MonotonicTime { MonotonicTime(.seconds(seconds)) }

@Suite("What is done from one address")
struct AddressLimiterTests {
    @Test("is bounded in a minute and in a day, and says which bound it was and when to come again")
    func bounds() throws {
        var limiter = AddressLimiter(.init(perMinute: 3, perDay: 5), salt: 1)
        for _ in 0..<3 { expect(limiter.take(7, now: second(1)) == nil) }
        let third = limiter.take(7, now: second(1))
        let minute = try #require(third)
        #expect(minute.kind == .addressMinute)
        #expect(minute.limit == 3)
        #expect(minute.retryDelay == .seconds(20))
        expect(limiter.take(8, now: second(1)) == nil)
        for _ in 0..<2 { expect(limiter.take(7, now: second(61)) == nil) }
        let sixth = limiter.take(7, now: second(121))
        let day = try #require(sixth)
        #expect(day.kind == .addressDay)
        #expect(day.limit == 5)
    }

    @Test("is bounded in a minute alone where a day has no bound")
    func minuteAlone() throws {
        var limiter = AddressLimiter(.init(perMinute: 3, perDay: nil), salt: 1)
        for minute in UInt64(0)..<100 {
            for _ in 0..<3 { expect(limiter.take(7, now: second(60 * minute)) == nil) }
            let fourth = limiter.take(7, now: second(60 * minute))
            let refusal = try #require(fourth)
            #expect(refusal.kind == .addressMinute && refusal.retryDelay == .seconds(20))
        }
    }

    @Test("is only looked at where nothing is to be counted")
    func look() {
        var limiter = AddressLimiter(.init(perMinute: 1, perDay: 10), salt: 1)
        for _ in 0..<5 { #expect(limiter.look(0, now: second(1)) == nil) }
        expect(limiter.take(0, now: second(1)) == nil)
        #expect(limiter.look(0, now: second(1))?.kind == .addressMinute)
        #expect(limiter.look(0, now: second(61)) == nil)
        #expect(limiter.count == 1)
    }

    /// A client that fills the table with other addresses is remembered longer than they are: their buckets
    /// are full again sooner.
    @Test("is remembered however many other addresses come", arguments: [1, 2, 3])
    func flooded(salt: UInt64) {
        var limiter = AddressLimiter(.init(perMinute: 100, perDay: 1000), countMax: 256, salt: salt)
        for _ in 0..<100 { expect(limiter.take(.max, now: second(1)) == nil) }
        for other in 0..<UInt64(20_000) { expect(limiter.take(other, now: second(1)) == nil) }
        #expect(limiter.count <= 256)
        #expect(limiter.look(.max, now: second(1))?.kind == .addressMinute)
    }

    @Test("fits into 64 bits at the largest limits")
    func largest() {
        var limiter = AddressLimiter(.init(perMinute: .max, perDay: .max), salt: 0)
        let most = Int(AddressLimiter.Limits.countMax)
        for _ in 0..<most { expect(limiter.take(5, now: second(1)) == nil) }
        expect(limiter.take(5, now: second(1)) != nil)
    }
}
