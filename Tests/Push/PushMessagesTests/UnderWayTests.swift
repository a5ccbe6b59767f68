import Model
import Testing

@testable import PushMessages

/// What comes after the client's word on a request (rule: push-services-are-spared).
@Suite("A message under way to a push service")
struct UnderWayTests {
    private static let wall: Int64 = 1_800_000_000_000
    private let unauthenticated = PushResult.answered(
        status: 401, retryAfter: nil, body: Array(#"{"error":{"status":"UNAUTHENTICATED"}}"#.utf8))

    private func apple(_ status: Int, _ reason: String, timestamp: Int64? = nil) -> PushResult {
        let time = timestamp.map { ",\"timestamp\":\($0)" } ?? ""
        return .answered(
            status: status, retryAfter: nil, body: Array("{\"reason\":\"\(reason)\"\(time)}".utf8))
    }

    private func instant(_ seconds: UInt64) -> Instant {
        Instant(
            monotonic: MonotonicTime(.seconds(seconds)),
            wall: WallTime(milliseconds: UnderWayTests.wall + Int64(seconds) * 1000))
    }

    /// A message for FCM, handed over at 100 s, with its project's tokens.
    private final class Relayed {
        var message = PushInFlight(now: MonotonicTime(.seconds(100)))
        var tokens = AccessTokens()
        var effects: [AccessTokens.Effect] = []

        init() {
            tokens.want(7, now: MonotonicTime(.seconds(100)), into: &effects)
            fetched(1, "first", at: MonotonicTime(.seconds(100)))
        }
        func fetched(_ number: UInt64, _ token: String, at now: MonotonicTime) {
            effects = []
            tokens.fetched(number, .token(token, seconds: 3600), now: now, into: &effects)
        }
        func judge(_ result: PushResult, isFormer: Bool = false, at now: Instant) -> PushInFlight.End? {
            effects = []
            return message.judge(
                relay: result, number: 7, tokens: &tokens, isFormer: isFormer, now: now, into: &effects)
        }
    }

    @Test("waits for another access token where FCM refuses the first one, and has its end with the second")
    func anotherAccessToken() {
        let world = Relayed()
        #expect(world.message.leaves(relayed: "first", now: instant(100).monotonic) == nil)
        #expect(world.judge(unauthenticated, at: instant(115)) == nil)
        #expect(world.effects == [.fetch(2)])
        world.fetched(2, "second", at: instant(116).monotonic)
        #expect(world.effects == [.use(ticket: 7, token: "second")])
        #expect(world.message.leaves(relayed: "second", now: instant(116).monotonic) == nil)
        let end = world.judge(unauthenticated, at: instant(117))
        #expect(end?.outcome.word == "credentials" && world.effects.isEmpty)
    }

    @Test("does not leave when its loop will soon count it as failed")
    func tooLate() {
        let world = Relayed()
        #expect(world.message.leaves(relayed: "first", now: instant(124).monotonic) == nil)
        let end = world.message.leaves(relayed: "first", now: instant(125).monotonic)
        #expect(end?.outcome == .transient(retryAfterSeconds: nil))
    }

    @Test("says of the service what the service has said, and nothing where the message did not leave")
    func withoutAnswer() {
        let message = PushInFlight(now: instant(100).monotonic)
        let expected: [(PushResult, PushOutcome)] = [
            (.unanswered, .transient(retryAfterSeconds: nil)), (.notTried("full"), .unsent("full")),
            (.notMade("no"), .unsent("no")), (.expired, .expired),
        ]
        for (result, outcome) in expected {
            let end = message.judge(web: result, host: "h", now: instant(101).wall)
            #expect(end == PushInFlight.End(outcome))
            #expect(Relayed().judge(result, at: instant(101)) == end)
        }
        let accepted = PushResult.answered(status: 201, retryAfter: nil, body: [])
        let end = message.judge(web: accepted, host: "h", now: instant(101).wall)
        #expect(end.outcome == .accepted)
    }

    @Test("does not wait for another access token under settings that have changed")
    func former() {
        let world = Relayed()
        let end = world.judge(unauthenticated, isFormer: true, at: instant(101))
        #expect(end?.outcome.word == "unsent" && world.effects.isEmpty)
    }

    @Test("is not a request for a token: one that the node could not make counts as failed")
    func accessTokenAnswers() {
        let now = instant(1).wall
        #expect(AccessTokenAnswer(.notTried("full"), now: now) == .notTried("full"))
        for result in [PushResult.unanswered, .notMade("no"), .expired] {
            #expect(AccessTokenAnswer(result, now: now) == .failed(retryAfterSeconds: nil))
        }
    }

    // MARK: Apple

    /// A message for Apple's service, handed over at 2,000 s, with the tokens of its key.
    private final class AppleWorld {
        var message: PushInFlight
        var tokens: APNsTokens
        var oldNews = APNsOldNews()

        init(_ now: Instant) throws {
            message = PushInFlight(now: now.monotonic)
            let key = try P256Key.generate()
            tokens = APNsTokens(APNsSigner(key: key, keyID: "ABC123DEFG", teamID: "DEF123GHIJ"))
            _ = message.leaves(with: try tokens.authorization(now: now.wall))
        }
        func judge(_ result: PushResult, isFormer: Bool = false, at now: Instant) -> PushInFlight.AppleStep {
            let push = APNsPush(id: "id", registered: WallTime(milliseconds: UnderWayTests.wall))
            return message.judge(
                apple: result, of: push, tokens: &tokens, oldNews: &oldNews, isFormer: isFormer, now: now)
        }
    }

    @Test("goes once more at once where Apple finds the token too old, with another token")
    func newToken() throws {
        let world = try AppleWorld(instant(2000))
        let first = world.message.token
        #expect(world.judge(apple(403, "ExpiredProviderToken"), at: instant(2001)).end == nil)
        let second = try world.tokens.authorization(now: instant(2001).wall)
        #expect(second != first && world.message.isSecond)
        let leavesWithFirst = world.message.leaves(with: first)
        #expect(!leavesWithFirst, "Apple has refused this token with the message")
        let leavesWithSecond = world.message.leaves(with: second)
        #expect(leavesWithSecond)
        let end = world.judge(apple(403, "ExpiredProviderToken"), at: instant(2002)).end
        #expect(end?.alarm == .clock && end?.outcome.word == "credentials")
    }

    @Test("does not go once more late, or under settings that have changed")
    func notAgain() throws {
        let late = try AppleWorld(instant(2000)).judge(apple(403, "ExpiredProviderToken"), at: instant(2025))
        #expect(late.end?.outcome == .transient(retryAfterSeconds: nil))
        let former = try AppleWorld(instant(2000))
            .judge(apple(403, "ExpiredProviderToken"), isFormer: true, at: instant(2001))
        #expect(former.end?.outcome.word == "unsent")
    }

    @Test("leaves the connection that Apple does not want, and the token that Apple finds changed too often")
    func remedies() throws {
        let world = try AppleWorld(instant(2000))
        #expect(world.judge(apple(503, "Shutdown"), at: instant(2001)).renewsConnection)
        #expect(!world.judge(.unanswered, at: instant(2001)).renewsConnection)
        let first = world.message.token
        let next = try world.tokens.authorization(now: instant(2500).wall)
        #expect(next != first)
        let leaves = world.message.leaves(with: next)
        #expect(leaves)
        let end = world.judge(apple(429, "TooManyProviderTokenUpdates"), at: instant(2501)).end
        #expect(end?.alarm == .ownMistake)
        #expect(try world.tokens.authorization(now: instant(2502).wall) == first)
    }

    @Test("is given up with the second answer of old news")
    func oldNews() throws {
        let world = try AppleWorld(instant(2000))
        let words = (1...2).map { _ in
            world.judge(apple(410, "Unregistered", timestamp: 1), at: instant(2001)).end?.outcome.word
        }
        #expect(words == ["failed", "refused"])
    }
}
