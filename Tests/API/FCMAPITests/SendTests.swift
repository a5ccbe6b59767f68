import HTTPMessages
import Model
import Quotas
import Routing
import Testing

@testable import FCMAPI

@Suite("Sending")
struct SendTests {
    let harness = APIHarness()

    @Test("#1 to a topic, a condition, a token and a fid; devices read canonical JSON")
    func targets() throws {
        let topic = try #require(harness.send(#"{"topic":"news","data":{"k":"v"}}"#).sent)
        guard case .topic(let name) = topic.target else { return #expect(Bool(false)) }
        #expect(name.description == "news")
        let event = object(topic.message.event)
        #expect(event["from"] as? String == "/topics/news")
        #expect(event["data"] as? [String: String] == ["k": "v"])
        #expect(event["messageId"] as? String == "00000000000000010000000000000002")
        #expect(harness.send(#"{"condition":"'a' in topics && 'b' in topics"}"#).sent != nil)
        #expect(harness.send("{\"token\":\"\(harness.token())\"}").sent != nil)
        #expect(harness.send("{\"fid\":\"\(harness.token().prefix(22))\"}").sent != nil)
    }

    @Test("#2 the project may be named by number; another project's bearer is refused")
    func projects() {
        #expect(
            harness.route(.post, "/v1/projects/5/messages:send", #"{"message":{"topic":"a"}}"#).sent != nil)
        let denied = harness.route(.post, "/v1/projects/other/messages:send", #"{"message":{"topic":"a"}}"#)
        #expect(error(denied.response).status == "PERMISSION_DENIED")
    }

    @Test("#3 #4 #5 camelCase and snake_case mixed, priority in either case, validate_only")
    func spelling() throws {
        let notification = #"{"clickAction":"c","event_time":"2026-11-20T10:00:00Z"}"#
        let block = "{\"collapse_key\":\"k\",\"priority\":\"high\",\"notification\":\(notification)}"
        let body = "{\"topic\":\"a\",\"android\":\(block),\"fcmOptions\":{\"analytics_label\":\"l\"}}"
        let send = try #require(harness.send(body, extra: ",\"validate_only\":true").sent)
        #expect(send.validateOnly)
        #expect(send.message.collapseKey == Array("k".utf8))
        let android = object(send.message.event)["android"] as? [String: Any]
        #expect(android?["priority"] as? String == "HIGH")
        #expect(android?["collapseKey"] as? String == "k")
        #expect(harness.send(#"{"topic":"a","android":{"priority":"HIGH"}}"#).sent != nil)
    }

    @Test("#6 a duplicate key's last value wins")
    func duplicates() throws {
        let send = try #require(harness.send(#"{"topic":"a","topic":"b","data":{"k":"1","k":"2"}}"#).sent)
        #expect(object(send.message.event)["from"] as? String == "/topics/b")
        #expect(object(send.message.event)["data"] as? [String: String] == ["k": "2"])
    }

    /// Message, status word, FcmError code, field.
    static let refused: [(String, String, String?, String?)] = [
        (#"{"topic":"a","color":"red"}"#, "INVALID_ARGUMENT", nil, "message"),
        (#"{}"#, "INVALID_ARGUMENT", "INVALID_ARGUMENT", "message"),
        (#"{"topic":"a","token":"b"}"#, "INVALID_ARGUMENT", "INVALID_ARGUMENT", "message"),
        (#"{"topic":"a","data":{"a":"x","k":12}}"#, "INVALID_ARGUMENT", nil, "message.data[1].value"),
        (#"{"topic":"a","data":{"from":"x"}}"#, "INVALID_ARGUMENT", "INVALID_ARGUMENT", "message.data"),
        (#"{"topic":"a","data":{"google.x":"x"}}"#, "INVALID_ARGUMENT", "INVALID_ARGUMENT", "message.data"),
        (
            #"{"topic":"a","data":{"gcm.notification.x":"x"}}"#, "INVALID_ARGUMENT", "INVALID_ARGUMENT",
            "message.data"
        ),
        (
            #"{"topic":"a","android":{"ttl":"-1s"}}"#, "INVALID_ARGUMENT", "INVALID_ARGUMENT",
            "message.android.ttl"
        ),
        (
            #"{"topic":"a","android":{"ttl":"2419201s"}}"#, "INVALID_ARGUMENT", "INVALID_ARGUMENT",
            "message.android.ttl"
        ),
        (
            #"{"topic":"a","android":{"ttl":"3500"}}"#, "INVALID_ARGUMENT", "INVALID_ARGUMENT",
            "message.android.ttl"
        ),
        (#"{"topic":"a b"}"#, "INVALID_ARGUMENT", "INVALID_ARGUMENT", "message.topic"),
        (#"{"condition":"'a' in topics &&"}"#, "INVALID_ARGUMENT", "INVALID_ARGUMENT", "message.condition"),
        (#"{"condition":"a in topics"}"#, "INVALID_ARGUMENT", "INVALID_ARGUMENT", "message.condition"),
        (#"{"token":"nonsense"}"#, "INVALID_ARGUMENT", "INVALID_ARGUMENT", "message.token"),
        (
            #"{"topic":"a","android":{"notification":{"color":"red"}}}"#, "INVALID_ARGUMENT",
            "INVALID_ARGUMENT", "message.android.notification.color"
        ),
        (
            #"{"topic":"a","android":{},"androidV2":{}}"#, "INVALID_ARGUMENT", "INVALID_ARGUMENT",
            "message.android_v2"
        ),
        (
            #"{"topic":"a","webpush":{"fcm_options":{"link":"http://x"}}}"#, "INVALID_ARGUMENT",
            "INVALID_ARGUMENT", "message.webpush.fcm_options.link"
        ),
        (
            #"{"topic":"a","android":{"notification":{"body_loc_args":["x"]}}}"#, "INVALID_ARGUMENT",
            "INVALID_ARGUMENT", "message.android.notification.body_loc_args"
        ),
        (#"{"topic":7}"#, "INVALID_ARGUMENT", nil, "message.topic"),
        (#""x""#, "INVALID_ARGUMENT", nil, "message"),
    ]

    @Test("#6 to #14 what is wrong gets 400 with the field", arguments: 0..<20)
    func refusals(row: Int) {
        let (body, status, fcm, field) = SendTests.refused[row]
        let got = error(harness.send(body).response)
        #expect(got.http == 400 && got.status == status, "\(body)")
        #expect(got.fcm == fcm, "\(body)")
        #expect(got.field == field, "\(body)")
    }

    @Test("#9 collapse_key is a name like others in data")
    func collapseKeyInData() {
        #expect(harness.send(#"{"topic":"a","data":{"collapse_key":"x"}}"#).sent != nil)
    }

    @Test("#10 4,096 bytes of payload pass, 4,097 do not")
    func payload() {
        func body(_ count: Int) -> String {
            "{\"topic\":\"a\",\"data\":{\"k\":\"\(String(repeating: "x", count: count - 1))\"}}"
        }
        #expect(harness.send(body(4096)).sent != nil)
        let got = error(harness.send(body(4097)).response)
        #expect(got.http == 400 && got.fcm == "INVALID_ARGUMENT")
    }

    @Test(
        "#11 a time to live is cut to whole seconds",
        arguments: [("0s", 0), ("3.500000000s", 3), ("2419200s", 2_419_200)])
    func ttl(text: String, seconds: Int) {
        #expect(
            harness.send("{\"topic\":\"a\",\"android\":{\"ttl\":\"\(text)\"}}").sent?.message.times.stream
                == UInt32(seconds))
    }

    @Test("#14 a foreign token is a mismatch")
    func foreign() {
        let got = error(harness.send("{\"token\":\"\(harness.token(project: 6))\"}").response)
        #expect(got.http == 403 && got.fcm == "SENDER_ID_MISMATCH")
    }

    @Test("#16 without a bearer, or with a wrong one, 401")
    func bearer() {
        for bearer in [nil, "nonsense", "tck_app", "owner", "tca.AAAA"] {
            let action = harness.route(
                .post, "/v1/projects/shop/messages:send", #"{"message":{"topic":"a"}}"#, bearer: bearer)
            #expect(error(action.response).status == "UNAUTHENTICATED", "\(bearer ?? "none")")
        }
    }

    @Test(
        "#49 what is no JSON gets 400 in the envelope",
        arguments: [
            "", "{", "{\"message\":", "[1,2", "\u{FEFF}{}", "{\"a\":\"\u{0}\"}", "{\"a\":1e999}",
            "{\"a\":\"\\ud800\"}", "{}x", "nul",
            "{\"a\":01}", "{'a':1}", String(repeating: "[", count: 100_000), "{\"a\":\"\\x\"}",
        ])
    func notJSON(body: String) {
        let got = error(harness.route(.post, "/v1/projects/shop/messages:send", body).response)
        #expect(got.http == 400 && got.status == "INVALID_ARGUMENT", "\(body.prefix(40))")
    }

    @Test("#50 an unknown path or method is 404 in the envelope")
    func unknownPath() {
        for (method, path) in [
            (HTTPMethod.get, "/"), (.get, "/v1/projects/shop/messages:send"), (.post, "/batch"),
            (.put, "/v1/projects/shop/topics"),
            (.post, "/v1/projects"), (.get, "/admins/projects"), (.other("BREW"), "/iid/v1:batchAdd"),
        ] {
            let response = harness.route(method, path, "{}").response
            #expect(response?.status == 404, "\(path)")
        }
    }

    @Test("#17 #19 each refusal of the core has FCM's status and code")
    func refusalsOfTheCore() throws {
        let form = try #require(harness.send(#"{"topic":"a"}"#).form)
        let quota = QuotaRefusal(kind: .sends, limit: 10_000, retryDelay: .milliseconds(1500))
        let table: [(Refusal, Int, String, String?)] = [
            (.unregistered, 404, "NOT_FOUND", "UNREGISTERED"),
            (.invalidToken, 400, "INVALID_ARGUMENT", "INVALID_ARGUMENT"),
            (.senderMismatch, 403, "PERMISSION_DENIED", "SENDER_ID_MISMATCH"),
            (.wrongCredential, 403, "PERMISSION_DENIED", nil),
            (.pushKeyRefused, 401, "UNAUTHENTICATED", "THIRD_PARTY_AUTH_ERROR"),
            (.quota(quota), 429, "RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED"),
            (.unavailable("x"), 503, "UNAVAILABLE", "UNAVAILABLE"),
            (.deadlineExceeded, 504, "DEADLINE_EXCEEDED", nil),
        ]
        for (refusal, http, status, fcm) in table {
            let response = harness.api.render(.refused(refusal), form)
            let got = error(response)
            #expect(got.http == http && got.status == status && got.fcm == fcm, "\(refusal)")
            #expect(!response.fields.contains { $0.name == "retry-after" })
        }
    }
}

@Suite("A send of a project whose quota is certainly used up")
struct EarlyRefusalTests {
    @Test("is answered 429 whatever stands in it, and only to who may speak for the project")
    func early() throws {
        let harness = APIHarness()
        var asked = 0
        harness.api.refusalOfSend = { project in
            asked += 1
            return project == harness.project.number
                ? QuotaRefusal(kind: .sends, limit: 60, retryDelay: .seconds(1)) : nil
        }
        let path = "/v1/projects/shop/messages:send"
        for body in ["{\"message\":{\"topic\":\"a\"}}", "{", String(repeating: "[", count: 10_000)] {
            guard case .respond(let response) = harness.route(.post, path, body) else {
                Issue.record("not refused at once")
                return
            }
            #expect(response.status == 429)
            #expect(String(decoding: response.body, as: UTF8.self).contains("SendsPerMinutePerProject"))
        }
        #expect(asked == 3)
        _ = harness.route(.post, path, "{", bearer: "none")
        _ = harness.route(.post, "/v1/projects/other/messages:send", "{")
        #expect(asked == 3)
    }
}
