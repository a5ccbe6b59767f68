import HTTPMessages
import Model
import Testing

@testable import PushMessages

@Suite("The answer of a Web Push service")
struct WebPushAnswerTests {
    /// 1994-11-06T08:49:00Z.
    private let now = WallTime(milliseconds: 784_111_740_000)

    private func outcome(
        _ status: Int, _ body: String = "", host: String = "push.example.org", retryAfter: String? = nil
    ) -> PushOutcome {
        WebPushAnswer.outcome(
            status: status, host: host, retryAfter: retryAfter, body: Array(body.utf8), now: now)
    }

    @Test("of the class 2xx means accepted", arguments: [200, 201, 202, 204])
    func accepted(status: Int) { #expect(outcome(status) == .accepted) }

    @Test("404 or 410 means that the subscription is gone", arguments: [404, 410])
    func gone(status: Int) {
        #expect(outcome(status, "push subscription has unsubscribed or expired.") == .gone)
        #expect(outcome(status, #"{"code":410,"errno":106,"error":"Gone"}"#) == .gone)
        #expect(outcome(status, #"{"reason":"BadPath"}"#) == .gone)
    }

    @Test("401 or 403 means that the signature does not count, and says what the service said")
    func credentials() {
        #expect(
            outcome(403, #"{"reason":"BadJwtToken"}"#, host: "web.push.apple.com")
                == .credentials("web.push.apple.com: 403 BadJwtToken"))
        #expect(
            outcome(
                401, #"{"code":401,"errno":109,"error":"Unauthorized","message":"Invalid bearer token"}"#,
                host: "m")
                == .credentials("m: 401 errno 109 Invalid bearer token"))
        #expect(
            outcome(403, "the VAPID credentials do not correspond\nto", host: "g")
                == .credentials("g: 403 the VAPID credentials do not correspond"))
        #expect(outcome(401, host: "a") == .credentials("a: 401"))
    }

    @Test(
        "400 means a wrong message if the service says so, a wrong key if the body blames the key",
        arguments: [
            (#"{"reason":"VapidPkHashMismatch"}"#, true), (#"{"reason":"BadVapidPublicKey"}"#, true),
            (#"{"reason":"BadAuthorizationHeader"}"#, true), (#"{"reason":"BadJwtToken"}"#, true),
            (#"{"reason":"BadTtl"}"#, false), (#"{"reason":"BadWebPushTopic"}"#, false),
            (#"{"errno":109}"#, true), (#"{"errno":110,"message":"about vapid"}"#, false),
            (#"{"errno":113}"#, false), ("<TITLE>UnauthorizedRegistration</TITLE>", true),
            ("Invalid Vapid header", true), ("invalid JWT provided", true), ("", false),
            ("Ttl value conflicts with X-WNS-Cache-Policy", false), ("{", false), ("[]", false),
            (#"{"reason":7}"#, false), ("\u{0}\u{1}", false),
        ])
    func badRequest(body: String, isKey: Bool) throws {
        switch outcome(400, body) {
        case .credentials: #expect(isKey)
        case .refusedContent: #expect(!isKey && (body.contains("reason") || body.contains("errno")))
        case .unexplained: #expect(!isKey && !body.contains("BadTtl") && !body.contains("errno"))
        case let other: Issue.record("\(other)")
        }
    }

    @Test(
        "that redirects, or refuses the content, gives the message up only in the service's words",
        arguments: [301, 302, 307, 308, 402, 405, 407, 409, 413, 415, 422, 451])
    func refused(status: Int) {
        #expect(outcome(status, "no", host: "a") == .unexplained("a: \(status) no"))
        #expect(
            outcome(status, #"{"errno":104,"message":"no"}"#, host: "a")
                == .refusedContent("a: \(status) errno 104 no"))
    }

    /// Microsoft has answered 406 with `Retry-After: 900`.
    @Test("429 or Microsoft's 406 means too much, and for how long", arguments: [406, 429])
    func throttled(status: Int) {
        #expect(outcome(status, retryAfter: "900") == .throttled(retryAfterSeconds: 900))
        #expect(outcome(status) == .throttled(retryAfterSeconds: nil))
        #expect(
            outcome(status, retryAfter: "Sun, 06 Nov 1994 08:49:37 GMT") == .throttled(retryAfterSeconds: 37))
    }

    /// A server of ntfy answers 507 where nobody listens.
    @Test("408, 421, 425 and 5xx mean another try", arguments: [408, 421, 425, 500, 502, 503, 504, 507, 599])
    func transient(status: Int) {
        #expect(outcome(status, retryAfter: "120") == .transient(retryAfterSeconds: 120))
        #expect(outcome(status, #"{"errno":201}"#) == .transient(retryAfterSeconds: nil))
    }

    @Test("of another class means another try", arguments: [-1, 0, 100, 103, 199, 1000])
    func unknown(status: Int) { #expect(outcome(status) == .transient(retryAfterSeconds: nil)) }

    @Test("brings no control characters and no long text into the log")
    func hostileText() {
        let long = outcome(413, String(repeating: "x", count: 10_000_000), host: "a")
        #expect(long == .unexplained("a: 413 " + String(repeating: "x", count: 120)))
        #expect(outcome(413, "a\u{1B}[31m\u{7F}ö", host: "a") == .unexplained("a: 413 a?[31m???"))
        let deep = String(repeating: "[", count: 4000)
        #expect(outcome(403, deep, host: "a") == .credentials("a: 403 " + deep.prefix(120)))
        let reason = String(repeating: "r", count: 1000)
        #expect(
            outcome(403, "{\"reason\":\"\(reason)\"}", host: "a")
                == .credentials("a: 403 " + reason.prefix(200)))
        #expect(
            outcome(403, #"{"reason":"a\u000ab\u0000"}"#, host: "a") == .credentials("a: 403 a?b?"))
    }
}

@Suite("Retry-After")
struct RetryAfterTests {
    private let now = WallTime(milliseconds: 784_111_740_000)

    @Test(
        "is read as seconds or as a date, and bounded",
        arguments: [
            ("0", 0), ("3", 3), (" 900\t", 900), ("007", 7), ("2419200", 2_419_200), ("2419201", 2_419_200),
            ("99999999999999999999999", 2_419_200), ("Sun, 06 Nov 1994 08:49:37 GMT", 37),
            ("Sunday, 06-Nov-94 08:49:37 GMT", 37), ("Sun Nov  6 08:49:37 1994", 37),
            ("Sun Nov 16 08:49:00 1994", 864_000), ("Sun, 06 Nov 1994 08:48:00 GMT", 0),
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0), ("Fri, 31 Dec 9999 23:59:60 GMT", 2_419_200),
            ("Sunday, 06-Nov-69 08:49:37 GMT", 2_419_200),
        ])
    func read(text: String, seconds: Int) { #expect(RetryAfter.seconds(text, now: now) == seconds) }

    @Test(
        "is left out where it is neither",
        arguments: [
            "", " ", "-1", "+1", "1.5", "1e3", "soon", "Sun,", "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 CET", "Sun, 31 Feb 1994 08:49:37 GMT", "Sun, 29 Feb 1900 08:49:37 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT", "Sun, 06 Foo 1994 08:49:37 GMT", "Sun, 06 Nov 0000 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:49:37 GMT", "Sun, 06 Nov 1994 08:60:37 GMT", "Sun, 06 Nov 1994 08:49 GMT",
            "Sun, 6 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 94 08:49:37 GMT", "Sun, +6 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 GMT", "Sunday, 06-Nov 08:49:37 GMT", "Sun Nov 1994", "ö", "\u{0}",
            "                                                                 7",
        ])
    func malformed(text: String) { #expect(RetryAfter.seconds(text, now: now) == nil) }

    @Test("is missing where the field is")
    func missing() { #expect(RetryAfter.seconds(nil, now: now) == nil) }

    @Test("rounds up, so that no try is too early")
    func rounded() {
        let later = WallTime(milliseconds: now.milliseconds + 1)
        #expect(RetryAfter.seconds("Sun, 06 Nov 1994 08:49:37 GMT", now: later) == 37)
    }

    @Test(
        "takes the days of leap years",
        arguments: [
            ("Tue, 29 Feb 2000 00:00:00 GMT", 951_782_400), ("Thu, 29 Feb 2024 12:00:00 GMT", 1_709_208_000),
            ("Fri, 01 Mar 2024 00:00:00 GMT", 1_709_251_200),
            ("Mon, 31 Dec 2029 23:59:59 GMT", 1_893_455_999),
        ] as [(String, Int64)])
    func leapYears(text: String, seconds: Int64) { #expect(HTTPDate.seconds(text) == seconds) }
}
