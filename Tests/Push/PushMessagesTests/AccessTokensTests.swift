import Model
import Testing

@testable import PushMessages

@Suite("Access tokens of a service account")
struct AccessTokensTests {
    private final class World {
        var tokens: AccessTokens
        var now = MonotonicTime(.seconds(100))
        /// What has become of each message.
        var used: [UInt64: String] = [:]
        var givenUp: [UInt64: PushOutcome] = [:]
        var fetches: [UInt64] = []

        init(_ change: (inout AccessTokens.Bounds) -> Void = { _ in }) {
            var bounds = AccessTokens.Bounds()
            change(&bounds)
            tokens = AccessTokens(bounds)
        }

        func want(_ tickets: ClosedRange<UInt64>) {
            for ticket in tickets { step { $0.want(ticket, now: now, into: &$1) } }
        }
        func reject(_ tickets: ClosedRange<UInt64>, _ token: String) {
            for ticket in tickets {
                used[ticket] = nil
                step { $0.rejected(ticket, token: token, now: now, into: &$1) }
            }
        }
        func answer(_ answer: AccessTokenAnswer, to number: UInt64? = nil) {
            let number = number ?? fetches.last ?? 0
            step { $0.fetched(number, answer, now: now, into: &$1) }
        }
        func pass(_ seconds: UInt64) { now = now.advanced(by: .seconds(seconds)) }

        private func step(_ body: (inout AccessTokens, inout [AccessTokens.Effect]) -> Void) {
            var effects: [AccessTokens.Effect] = []
            body(&tokens, &effects)
            for effect in effects {
                switch effect {
                case .use(let ticket, let token): used[ticket] = token
                case .giveUp(let ticket, let outcome): givenUp[ticket] = outcome
                case .fetch(let number): fetches.append(number)
                }
            }
            if let broken = tokens.brokenInvariant { Issue.record("\(broken)") }
        }
    }

    @Test("any number of messages share one request for the first token")
    func first() {
        let world = World()
        world.want(1...100)
        #expect(world.fetches.count == 1 && world.used.isEmpty && world.tokens.waiting.count == 100)
        world.answer(.token("a", seconds: 3600))
        #expect(world.used.count == 100 && Set(world.used.values) == ["a"])
        world.want(101...110)
        #expect(world.fetches.count == 1 && world.used[105] == "a")
    }

    @Test("a hundred messages whose token is refused bring one request, and go with its token")
    func rejected() {
        let world = World()
        world.want(1...100)
        world.answer(.token("a", seconds: 3600))
        world.pass(60)
        world.reject(1...100, "a")
        #expect(world.fetches.count == 2 && world.used.isEmpty)
        world.want(101...101)
        #expect(world.fetches.count == 2)
        world.answer(.token("b", seconds: 3600))
        #expect(world.used.count == 101 && Set(world.used.values) == ["b"] && world.givenUp.isEmpty)
        // An answer that comes late speaks of the former token.
        world.reject(1...1, "a")
        #expect(world.used[1] == "b" && world.fetches.count == 2)
    }

    @Test("a token that is refused as soon as it comes is not fetched again and again")
    func fresh() {
        let world = World()
        world.want(1...2)
        world.answer(.token("a", seconds: 3600))
        world.reject(1...1, "a")
        guard case .credentials = world.givenUp[1] else {
            Issue.record("the message is not held: \(world.givenUp)")
            return
        }
        #expect(world.fetches.count == 1)
    }

    @Test("the next token is fetched at four fifths of its life, and the present one counts until its end")
    func renewed() {
        let world = World()
        world.want(1...1)
        world.answer(.token("a", seconds: 1000))
        world.pass(799)
        world.want(2...2)
        #expect(world.fetches.count == 1)
        world.pass(1)
        world.want(3...5)
        #expect(world.fetches.count == 2 && world.used[5] == "a")
        world.pass(190)
        world.want(6...6)
        #expect(world.used[6] == nil && world.fetches.count == 3, "the former request has no answer")
        world.answer(.token("b", seconds: 1000))
        #expect(world.used[6] == "b")
    }

    @Test("a failure pauses for a time that doubles; messages hear of it at once")
    func failures() {
        let world = World()
        var last: UInt64 = 0
        for round in 0..<12 {
            world.want(1...3)
            #expect(world.fetches.count == round + 1)
            world.answer(.failed(retryAfterSeconds: nil))
            #expect(world.givenUp.count == 3 && world.tokens.waiting.isEmpty)
            world.givenUp = [:]
            let pause: UInt64 = min(1 << UInt64(round), 300)
            #expect(pause >= last)
            last = pause
            world.pass(pause - 1)
            world.want(4...4)
            #expect(
                world.givenUp[4] == .transient(retryAfterSeconds: nil) && world.fetches.count == round + 1)
            world.givenUp = [:]
            world.pass(1)
        }
        world.want(1...1)
        world.answer(.token("a", seconds: 60))
        #expect(world.used[1] == "a")
    }

    @Test("a refused account is asked again after a minute; messages are held")
    func refused() {
        let world = World()
        world.want(1...1)
        world.answer(.refused("invalid_grant"))
        #expect(world.givenUp[1] == .credentials("invalid_grant"))
        world.pass(59)
        world.want(2...2)
        #expect(world.givenUp[2] == .credentials("invalid_grant") && world.fetches.count == 1)
        world.pass(1)
        world.want(3...3)
        #expect(world.fetches.count == 2)
    }

    @Test("a request that had no turn is no failure: its messages come again, and the next one asks at once")
    func notTried() {
        let world = World()
        for round in 1...3 {
            world.want(1...3)
            #expect(world.fetches.count == round)
            world.answer(.notTried("no turn"))
            #expect(world.givenUp.count == 3 && world.givenUp[1] == .unsent("no turn"))
            world.givenUp = [:]
        }
        world.want(1...1)
        world.answer(.failed(retryAfterSeconds: nil))
        world.pass(1)
        world.want(2...2)
        #expect(world.fetches.count == 5, "the first failure pauses for the shortest time")
    }

    @Test("a failure while the token still counts stops nobody")
    func failedRenewal() {
        let world = World()
        world.want(1...1)
        world.answer(.token("a", seconds: 1000))
        world.pass(800)
        world.want(2...2)
        world.answer(.failed(retryAfterSeconds: 1000))
        world.want(3...3)
        #expect(world.used[3] == "a" && world.fetches.count == 2)
        world.pass(299)
        world.want(4...4)
        #expect(world.givenUp[4] == .transient(retryAfterSeconds: 1000), "five minutes at most")
        world.pass(1)
        world.want(5...5)
        #expect(world.fetches.count == 3)
    }

    @Test("the invariants are seen to be broken")
    func invariants() {
        var tokens = AccessTokens()
        tokens.waiting = [1]
        #expect(tokens.brokenInvariant == "nothing brings waiting messages further")
        tokens.fetch = (1, MonotonicTime(nanoseconds: 0))
        #expect(tokens.brokenInvariant == nil)
        tokens.waiting = [1, 2, 1]
        #expect(tokens.brokenInvariant == "a message waits twice")
        tokens.waiting = Array(0...UInt64(AccessTokens.Bounds().waitingMax))
        #expect(tokens.brokenInvariant == "more messages wait than may")
    }

    @Test("messages beyond the bound come again later, and a late answer counts for nothing")
    func bounds() {
        let world = World { $0.waitingMax = 3 }
        world.want(1...5)
        #expect(world.tokens.waiting == [1, 2, 3])
        #expect(world.givenUp[4] == .unsent("too many messages wait for an access token"))
        world.pass(90)
        world.want(6...6)
        #expect(world.fetches.count == 1)
        world.answer(.token("late", seconds: 9), to: 99)
        #expect(world.used.isEmpty)
        world.answer(.token("short", seconds: 1))
        #expect(world.used.count == 3)
        world.pass(1)
        world.want(7...7)
        #expect(world.fetches.count == 2)
    }
}

@Suite("What a service account's token comes from")
struct RelayAccountTests {
    private func answer(_ status: Int, _ body: String, retryAfter: String? = nil) -> AccessTokenAnswer {
        AccessTokenAnswer(
            status: status, body: Array(body.utf8), retryAfter: retryAfter, now: WallTime(milliseconds: 0))
    }

    @Test("each answer of the token's host has its meaning")
    func answers() {
        #expect(
            answer(200, #"{"access_token":"ya29.a","expires_in":3599,"token_type":"Bearer"}"#)
                == .token("ya29.a", seconds: 3599))
        for body in [
            "", "{}", #"{"access_token":"a"}"#, #"{"access_token":"a b","expires_in":1}"#,
            #"{"access_token":"","expires_in":1}"#, #"{"access_token":"a","expires_in":0}"#,
            #"{"access_token":"\#(String(repeating: "x", count: 2049))","expires_in":9}"#,
        ] { #expect(answer(200, body) == .failed(retryAfterSeconds: nil), "\(body.prefix(40))") }
        let long = String(repeating: "x", count: 2048)
        #expect(answer(200, #"{"access_token":"\#(long)","expires_in":9}"#) == .token(long, seconds: 9))
        #expect(
            answer(400, #"{"error":"invalid_grant","error_description":"Invalid JWT Signature."}"#)
                == .refused("the token's host: 400 invalid_grant: Invalid JWT Signature."))
        #expect(answer(503, "", retryAfter: "7") == .failed(retryAfterSeconds: 7))
        #expect(answer(429, "") == .failed(retryAfterSeconds: nil))
        #expect(answer(302, "") == .failed(retryAfterSeconds: nil))
    }

    @Test("the request has an assertion of the account, which its public key verifies")
    func assertion() throws {
        let account = RelayAccount(
            key: try RSAKey(pem: TestRSA.pem), keyID: "k\"1", email: "a@b.example",
            tokenURI: "https://t.example/token")
        let body = String(
            decoding: try account.request(now: WallTime(milliseconds: 1_800_000_000_000)), as: UTF8.self)
        let parts = body.split(separator: "&")
        #expect(parts.first == "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer")
        let jwt = try #require(parts.last?.dropFirst("assertion=".count)).split(separator: ".")
        let texts = try jwt.prefix(2).map {
            String(decoding: try #require(Base64URL.decode(Array($0.utf8))), as: UTF8.self)
        }
        #expect(texts[0] == #"{"alg":"RS256","typ":"JWT","kid":"k\"1"}"#)
        #expect(
            texts[1]
                == #"{"iss":"a@b.example","scope":"https://www.googleapis.com/auth/firebase.messaging","#
                + #""aud":"https://t.example/token","iat":1799999995,"exp":1800003595}"#)
        let signature = try #require(Base64URL.decode(Array(jwt[2].utf8)))
        #expect(TestRSA.verifies(Array("\(jwt[0]).\(jwt[1])".utf8), signature))
        #expect(!TestRSA.verifies(Array("\(jwt[0]).x".utf8), signature))
    }

    @Test("a key that is none, short or on a curve is refused")
    func keys() throws {
        for pem in ["", "nothing", TestRSA.pem(bits: 1024), TestRSA.curvePEM] {
            #expect(throws: PushCryptoError.self) { try RSAKey(pem: pem) }
        }
    }
}
