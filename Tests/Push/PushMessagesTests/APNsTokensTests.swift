import Model
import Testing

@testable import PushMessages

@Suite("Tokens for Apple's push service")
struct APNsTokensTests {
    /// A multiple of 2400 s, and 5 s for clocks that are early.
    private let start: Int64 = 1_800_000_000 / 2400 * 2400 + 5

    private func time(_ seconds: Int64) -> WallTime { WallTime(milliseconds: (start + seconds) * 1000) }

    private func tokens() throws -> APNsTokens {
        APNsTokens(APNsSigner(key: try P256Key.generate(), keyID: "ABC123DEFG", teamID: "DEF123GHIJ"))
    }

    private func issued(_ text: String) throws -> Int64 {
        let claims = String(decoding: try base64(String(text.split(separator: ".")[1])), as: UTF8.self)
        return try #require(Int64(claims.split(separator: ":").last?.dropLast() ?? ""))
    }

    @Test("stay the same for 40 minutes, and change then")
    func period() throws {
        var tokens = try tokens()
        let first = try tokens.authorization(now: time(0))
        #expect(try tokens.authorization(now: time(2399)) == first)
        let second = try tokens.authorization(now: time(2400))
        #expect(second != first)
        #expect(try issued(second) - issued(first) == 2400)
    }

    @Test("that Apple finds too old are signed again once they are 20 minutes old, and stay for 20 at least")
    func expired() throws {
        var tokens = try tokens()
        let first = try tokens.authorization(now: time(0))
        let isYoungRetried = tokens.expired(first, now: time(1100))
        #expect(!isYoungRetried, "a young token that is too old means a wrong clock")
        #expect(try tokens.authorization(now: time(1100)) == first)
        let isRetried = tokens.expired(first, now: time(1500))
        #expect(isRetried)
        let second = try tokens.authorization(now: time(1500))
        #expect(try issued(second) == start + 1495)
        // A message that went with the former token has the new one at once.
        let isOldRetried = tokens.expired(first, now: time(1501))
        #expect(isOldRetried)
        #expect(try tokens.authorization(now: time(2400)) == second, "a change after 15 minutes is too early")
        #expect(try tokens.authorization(now: time(2690)) == second)
        let third = try tokens.authorization(now: time(2696))
        #expect(try issued(third) == start - 5 + 2400)
        let isAgain = tokens.expired(second, now: time(2700))
        #expect(isAgain)
        #expect(try tokens.authorization(now: time(2700)) == third)
    }

    /// A common token that follows one of another time is older than its use (seed 16000484 of the swarm).
    @Test("are not changed again within 20 minutes of a change, however old the present one is")
    func expiredAfterChange() throws {
        var tokens = try tokens()
        let first = try tokens.authorization(now: time(0))
        _ = tokens.expired(first, now: time(1500))
        _ = try tokens.authorization(now: time(1500))
        let third = try tokens.authorization(now: time(2696))
        let isRetried = tokens.expired(third, now: time(3700))
        #expect(!isRetried, "the token is 1305 s old, and in use for 1004 s")
        #expect(try tokens.authorization(now: time(3700)) == third)
        let isRetriedLater = tokens.expired(third, now: time(3900))
        #expect(isRetriedLater)
        #expect(try issued(try tokens.authorization(now: time(3900))) == start + 3895)
    }

    @Test("that change too often give way to the former one until it is 55 minutes old")
    func tooOften() throws {
        var tokens = try tokens()
        let first = try tokens.authorization(now: time(0))
        let second = try tokens.authorization(now: time(2400))
        tokens.changedTooOften(first, now: time(2401))
        #expect(try tokens.authorization(now: time(2402)) == second, "that word was about a former token")
        tokens.changedTooOften(second, now: time(2403))
        #expect(try tokens.authorization(now: time(2404)) == first)
        #expect(try tokens.authorization(now: time(3294)) == first)
        #expect(try tokens.authorization(now: time(3296)) == second)
        tokens.changedTooOften(second, now: time(3297))
        #expect(try tokens.authorization(now: time(3298)) == second, "the former one is too old")
    }

    @Test("that are young but former are left as soon as Apple finds them too old")
    func formerExpired() throws {
        var tokens = try tokens()
        let first = try tokens.authorization(now: time(0))
        let second = try tokens.authorization(now: time(2400))
        tokens.changedTooOften(second, now: time(2401))
        #expect(try tokens.authorization(now: time(2402)) == first)
        let isRetried = tokens.expired(first, now: time(2403))
        #expect(isRetried)
        #expect(try tokens.authorization(now: time(2403)) == second)
    }
}
