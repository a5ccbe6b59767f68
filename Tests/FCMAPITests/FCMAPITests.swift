import Foundation
import HTTPMessages
import Model
import Partitions
import Quotas
import Routing
import Testing

@testable import FCMAPI

/// An API with one project, as a loop of a node has it.
final class Bench {
    let api: API
    let keys = RegistrationKeys([RegistrationKey(number: 1, material: Array(1...32))])
    let project = Project(id: "shop", number: ProjectNumber(5))
    let now = WallTime(milliseconds: 1_800_000_000_000)

    init(isDev: Bool = false) {
        var settings = APISettings()
        settings.isDev = isDev
        settings.signingKey = Array(repeating: 7, count: 32)
        settings.tokenURIs = ["https://oauth2.googleapis.com/token"]
        api = API(settings: settings, keys: keys)
        var directory = Directory()
        directory.add(project)
        directory.add(Project(id: "other", number: ProjectNumber(6)))
        directory.keys[KeyHash.of("tcb_secret".utf8)] = (.bearer, project.number)
        directory.keys[KeyHash.of("tck_app".utf8)] = (.device, project.number)
        api.directory = directory
    }

    func token(project: UInt32 = 5) -> String {
        let device = Registration(
            project: ProjectNumber(project), partition: PartitionID(3), index: DeviceIndex(9), nonce: 77,
            key: 1)
        return String(decoding: keys.token(device, secret: 99), as: UTF8.self)
    }

    func route(
        _ method: HTTPMethod = .post, _ path: String, _ body: String = "", bearer: String? = "tcb_secret",
        headers: [(String, String)] = []
    ) -> APIAction {
        var fields = HTTPFields()
        if let bearer { fields.append(name: "authorization".utf8, value: "Bearer \(bearer)".utf8) }
        for (name, value) in headers { fields.append(name: name.utf8, value: value.utf8) }
        let request = HTTPRequest(
            method: method, target: Array(path.utf8), fields: fields, body: Array(body.utf8))
        return api.route(request, isAdmin: false, now: now, id: MessageID(time: 1, random: 2))
    }

    func send(_ message: String, extra: String = "") -> APIAction {
        route(.post, "/v1/projects/shop/messages:send", "{\"message\":\(message)\(extra)}")
    }
}

extension APIAction {
    var response: HTTPResponse? { if case .respond(let response) = self { response } else { nil } }
    var sent: Send? {
        if case .operation(.send(let send), _) = self { send } else { nil }
    }
    var change: SubscriptionChange? {
        if case .operation(.changeSubscriptions(let change), _) = self { change } else { nil }
    }
    var form: ResponseForm? { if case .operation(_, let form) = self { form } else { nil } }
}

func object(_ bytes: [UInt8]) -> [String: Any] {
    (try? JSONSerialization.jsonObject(with: Data(bytes))) as? [String: Any] ?? [:]
}

/// The parts of a v1 error: HTTP status, status word, FcmError code, first violated field.
func error(_ response: HTTPResponse?) -> (http: Int, status: String, fcm: String?, field: String?) {
    let error = object(response?.body ?? [])["error"] as? [String: Any] ?? [:]
    let details = error["details"] as? [[String: Any]] ?? []
    let fcm = details.first { ($0["@type"] as? String)?.hasSuffix("FcmError") ?? false }
    let bad = details.first { ($0["@type"] as? String)?.hasSuffix("BadRequest") ?? false }
    let field = (bad?["fieldViolations"] as? [[String: Any]])?.first?["field"] as? String
    return (response?.status ?? 0, error["status"] as? String ?? "", fcm?["errorCode"] as? String, field)
}

@Suite("Sending")
struct SendTests {
    let bench = Bench()

    @Test("#1 to a topic, a condition, a token and a fid; devices read canonical JSON")
    func targets() throws {
        let topic = try #require(bench.send(#"{"topic":"news","data":{"k":"v"}}"#).sent)
        guard case .topic(let name) = topic.target else { return #expect(Bool(false)) }
        #expect(name.description == "news")
        let event = object(topic.message.event)
        #expect(event["from"] as? String == "/topics/news")
        #expect(event["data"] as? [String: String] == ["k": "v"])
        #expect(event["messageId"] as? String == "00000000000000010000000000000002")
        #expect(bench.send(#"{"condition":"'a' in topics && 'b' in topics"}"#).sent != nil)
        #expect(bench.send("{\"token\":\"\(bench.token())\"}").sent != nil)
        #expect(bench.send("{\"fid\":\"\(bench.token().prefix(22))\"}").sent != nil)
    }

    @Test("#2 the project may be named by number; another project's bearer is refused")
    func projects() {
        #expect(bench.route(.post, "/v1/projects/5/messages:send", #"{"message":{"topic":"a"}}"#).sent != nil)
        let denied = bench.route(.post, "/v1/projects/other/messages:send", #"{"message":{"topic":"a"}}"#)
        #expect(error(denied.response).status == "PERMISSION_DENIED")
    }

    @Test("#3 #4 #5 camelCase and snake_case mixed, priority in either case, validate_only")
    func spelling() throws {
        let body =
            #"{"topic":"a","android":{"collapse_key":"k","priority":"high","notification":{"clickAction":"c","event_time":"2026-11-20T10:00:00Z"}},"fcmOptions":{"analytics_label":"l"}}"#
        let send = try #require(bench.send(body, extra: ",\"validate_only\":true").sent)
        #expect(send.validateOnly)
        #expect(send.message.collapseKey == Array("k".utf8))
        let android = object(send.message.event)["android"] as? [String: Any]
        #expect(android?["priority"] as? String == "HIGH")
        #expect(android?["collapseKey"] as? String == "k")
        #expect(bench.send(#"{"topic":"a","android":{"priority":"HIGH"}}"#).sent != nil)
    }

    @Test("#6 a duplicate key's last value wins")
    func duplicates() throws {
        let send = try #require(bench.send(#"{"topic":"a","topic":"b","data":{"k":"1","k":"2"}}"#).sent)
        #expect(object(send.message.event)["from"] as? String == "/topics/b")
        #expect(object(send.message.event)["data"] as? [String: String] == ["k": "2"])
    }

    /// Body, HTTP status, status word, FcmError code, field.
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
        let got = error(bench.send(body).response)
        #expect(got.http == 400 && got.status == status, "\(body)")
        #expect(got.fcm == fcm, "\(body)")
        #expect(got.field == field, "\(body)")
    }

    @Test("#9 collapse_key is a name like others in data")
    func collapseKeyInData() {
        #expect(bench.send(#"{"topic":"a","data":{"collapse_key":"x"}}"#).sent != nil)
    }

    @Test("#10 4,096 bytes of payload pass, 4,097 do not")
    func payload() {
        func body(_ count: Int) -> String {
            "{\"topic\":\"a\",\"data\":{\"k\":\"\(String(repeating: "x", count: count - 1))\"}}"
        }
        #expect(bench.send(body(4096)).sent != nil)
        let got = error(bench.send(body(4097)).response)
        #expect(got.http == 400 && got.fcm == "INVALID_ARGUMENT")
    }

    @Test(
        "#11 a time to live is cut to whole seconds",
        arguments: [("0s", 0), ("3.500000000s", 3), ("2419200s", 2_419_200)])
    func ttl(text: String, seconds: Int) {
        #expect(
            bench.send("{\"topic\":\"a\",\"android\":{\"ttl\":\"\(text)\"}}").sent?.message.ttlSeconds
                == UInt32(seconds))
    }

    @Test("#14 a foreign token is a mismatch")
    func foreign() {
        let got = error(bench.send("{\"token\":\"\(bench.token(project: 6))\"}").response)
        #expect(got.http == 403 && got.fcm == "SENDER_ID_MISMATCH")
    }

    @Test("#16 without a bearer, or with a wrong one, 401")
    func bearer() {
        for bearer in [nil, "nonsense", "tck_app", "owner", "tca.AAAA"] {
            let action = bench.route(
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
        let got = error(bench.route(.post, "/v1/projects/shop/messages:send", body).response)
        #expect(got.http == 400 && got.status == "INVALID_ARGUMENT", "\(body.prefix(40))")
    }

    @Test("#50 an unknown path or method is 404 in the envelope")
    func unknownPath() {
        for (method, path) in [
            (HTTPMethod.get, "/"), (.get, "/v1/projects/shop/messages:send"), (.post, "/batch"),
            (.put, "/v1/projects/shop/topics"),
            (.post, "/v1/projects"), (.get, "/admin/projects"), (.other("BREW"), "/iid/v1:batchAdd"),
        ] {
            let response = bench.route(method, path, "{}").response
            #expect(response?.status == 404, "\(path)")
        }
    }

    @Test("#17 #19 each refusal of the core has FCM's status and code")
    func refusalsOfTheCore() throws {
        let form = try #require(bench.send(#"{"topic":"a"}"#).form)
        let quota = QuotaRefusal(kind: .sends, limit: 10_000, retryDelay: 1_500_000_000)
        let table: [(Refusal, Int, String, String?)] = [
            (.unregistered, 404, "NOT_FOUND", "UNREGISTERED"),
            (.invalidToken, 400, "INVALID_ARGUMENT", "INVALID_ARGUMENT"),
            (.senderMismatch, 403, "PERMISSION_DENIED", "SENDER_ID_MISMATCH"),
            (.wrongCredential, 403, "PERMISSION_DENIED", nil),
            (.quota(quota), 429, "RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED"),
            (.unavailable("x"), 503, "UNAVAILABLE", "UNAVAILABLE"),
            (.deadlineExceeded, 504, "DEADLINE_EXCEEDED", nil),
        ]
        for (refusal, http, status, fcm) in table {
            let response = bench.api.render(.refused(refusal), form)
            let got = error(response)
            #expect(got.http == http && got.status == status && got.fcm == fcm, "\(refusal)")
            #expect(!response.fields.contains { $0.name == "retry-after" })
        }
    }
}

@Suite("Topic management")
struct TopicTests {
    let bench = Bench()
    let sign = [("access_token_auth", "true")]

    private func batch(_ tokens: [String], to: String = "/topics/news") -> APIAction {
        let list = tokens.map { "\"\($0)\"" }.joined(separator: ",")
        return bench.route(
            .post, "/iid/v1:batchAdd", "{\"to\":\"\(to)\",\"registration_tokens\":[\(list)]}", headers: sign)
    }

    @Test("#22 to #27 a batch keeps its places: success is {}, failure a word")
    func batches() throws {
        let action = batch([bench.token(), "nonsense", bench.token(), bench.token(project: 6)])
        #expect(try #require(action.change).devices.count == 2)
        let outcome = Outcome.changes([.changed(Day(1)), .refused(.unregistered)])
        let body = String(decoding: bench.api.render(outcome, try #require(action.form)).body, as: UTF8.self)
        #expect(
            body
                == #"{"results":[{},{"error":"INVALID_ARGUMENT"},{"error":"NOT_FOUND"},{"error":"INVALID_ARGUMENT"}]}"#
        )
    }

    @Test("#22 #26 a bad batch gets a plain string")
    func badBatches() {
        let tooMany = batch(Array(repeating: bench.token(), count: 1001)).response
        #expect(tooMany?.status == 400 && object(tooMany?.body ?? [])["error"] is String)
        #expect(batch(Array(repeating: bench.token(), count: 1000)).change?.devices.count == 1000)
        #expect(batch([]).response?.status == 400)
        #expect(batch([bench.token()], to: "/topics/a b").response?.status == 400)
        let body = "{\"to\":\"/topics/a\",\"registration_tokens\":[\"\(bench.token())\"]}"
        let unsigned = bench.route(.post, "/iid/v1:batchAdd", body).response
        #expect(unsigned?.status == 401 && object(unsigned?.body ?? [])["error"] is String)
        let legacy = bench.route(
            .post, "/iid/v1:batchAdd", body, bearer: nil, headers: [("authorization", "key=AAA"), sign[0]])
        #expect(legacy.response?.status == 401)
    }

    @Test("#28 #29 create twice is 409, delete of what is not there 404 unless it may be missing")
    func topicSubscriptions() throws {
        let device = bench.token().replacing(":", with: "%3A")
        let path = "/v1/projects/shop/registrations/\(device)/topicSubscriptions"
        let create = try #require(bench.route(.post, "\(path)?topic_name=news", "{}").form)
        #expect(bench.api.render(.changes([.changed(Day(20_000))]), create).status == 200)
        #expect(
            error(bench.api.render(.changes([.unchanged(Day(20_000))]), create)).status == "ALREADY_EXISTS")
        let delete = try #require(bench.route(.delete, "\(path)/news").form)
        #expect(bench.api.render(.changes([.unchanged(nil)]), delete).status == 404)
        let lenient = try #require(bench.route(.delete, "\(path)/news?allow_missing=true").form)
        #expect(bench.api.render(.changes([.unchanged(nil)]), lenient).body == Array("{}".utf8))
    }

    @Test("#30 a path is decoded once, after the split")
    func decoding() throws {
        let device = bench.token().replacing(":", with: "%3A")
        let path = "/v1/projects/shop/registrations/\(device)/topicSubscriptions/news%2525~x"
        #expect(bench.route(.delete, path).change?.topic.description == "news%25~x")
        let slash = "/v1/projects/shop/registrations/a%2Fb/topicSubscriptions/x"
        #expect(error(bench.route(.delete, slash).response).status == "INVALID_ARGUMENT")
    }

    @Test("#31 lists come in pages of at most 2,000")
    func pages() throws {
        let path = "/v1/projects/shop/registrations/\(bench.token())/topicSubscriptions"
        let all = (0..<2000).map {
            Subscription(topic: TopicName(checked: Array("t\($0)".utf8)), since: Day(1))
        }
        for (query, count, next) in [
            ("", 1000, "1000"), ("?pageSize=5000", 2000, ""), ("?pageSize=3&pageToken=1998", 2, ""),
        ] {
            let form = try #require(bench.route(.get, path + query).form)
            let page = object(bench.api.render(.subscriptions(all), form).body)
            #expect((page["topicSubscriptions"] as? [Any])?.count == count)
            #expect(page["nextPageToken"] as? String == next)
        }
    }

    @Test("#41 #42 device SDKs subscribe by their own credential")
    func deviceForms() throws {
        let credential = String(decoding: bench.keys.credential(secret: 99), as: UTF8.self)
        let path = "/v1/projects/shop/registrations/\(bench.token())/topicSubscriptions/100%:subscribe"
        let modern = bench.route(
            .post, path, bearer: nil,
            headers: [("x-goog-api-key", "tck_app"), ("x-goog-firebase-installations-auth", credential)])
        let proof = bench.keys.parseProof(credential.utf8)
        #expect(try #require(modern.change).topic.description == "100%")
        #expect(modern.change?.caller == proof.map { .device($0) })
        let form = "sender=\(bench.token())&X-gcm.topic=/topics/a&X-scope=/topics/a&delete=true"
        let classic = bench.route(
            .post, "/iid/register", form, bearer: nil,
            headers: [("authorization", "AidLogin 1:\(credential)")])
        #expect(classic.change?.kind == .unsubscribe)
        let rendered = bench.api.render(.changes([.unchanged(nil)]), try #require(classic.form))
        #expect(String(decoding: rendered.body, as: UTF8.self) == "token=\(bench.token())")
    }
}

@Suite("Access tokens")
struct TokenTests {
    @Test("are good until they expire, and only as they were made")
    func lifetime() {
        let bench = Bench()
        let (token, seconds) = bench.api.authenticator.makeAccessToken(ProjectNumber(5), now: bench.now)
        #expect(seconds == 3599)
        let text = String(decoding: token, as: UTF8.self)
        #expect(
            bench.route(.post, "/v1/projects/shop/messages:send", #"{"message":{"topic":"a"}}"#, bearer: text)
                .sent != nil)
        var request = HTTPRequest(method: .get, target: [])
        request.fields.append(name: "authorization".utf8, value: "Bearer \(text)".utf8)
        let late = WallTime(milliseconds: bench.now.milliseconds + 3_600_001)
        #expect(bench.api.authenticator.principal(request, bench.api.directory, now: late) == nil)
        for place in token.indices.dropFirst(4) {
            var changed = token
            changed[place] = changed[place] == 65 ? 66 : 65
            let action = bench.route(
                .post, "/v1/projects/shop/messages:send", #"{"message":{"topic":"a"}}"#,
                bearer: String(decoding: changed, as: UTF8.self))
            #expect(action.sent == nil, "byte \(place)")
        }
    }

    @Test("#34 are exchanged for an assertion that is right in every part")
    func exchange() throws {
        let bench = Bench()
        let uri = "https://oauth2.googleapis.com/token"
        let file = try #require(ServiceAccountFile.make(project: bench.project, tokenURI: uri))
        bench.api.directory.accounts[file.keyID] = .init(
            project: bench.project.number, email: file.email, publicKey: file.publicKey)
        // Signatures are made by the SDK's own library in the acceptance tests; here everything else is refused first.
        let head = Base64URL.encode("{\"alg\":\"none\",\"kid\":\"\(file.keyID)\"}".utf8)
        let symmetric = Base64URL.encode("{\"alg\":\"HS256\",\"kid\":\"\(file.keyID)\"}".utf8)
        let unknown = Base64URL.encode(#"{"alg":"RS256","kid":"nobody"}"#.utf8)
        let unsigned = Base64URL.encode("{\"alg\":\"RS256\",\"kid\":\"\(file.keyID)\"}".utf8)
        let claims = Base64URL.encode("{\"iss\":\"\(file.email)\",\"aud\":\"\(uri)\"}".utf8)
        func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }
        for assertion in [
            "", "a", "a.b", "a.b.c.d", "\(text(head)).\(text(claims)).",
            "\(text(symmetric)).\(text(claims)).AAAA",
            "\(text(unknown)).\(text(claims)).AAAA", "\(text(unsigned)).\(text(claims)).AAAA",
        ] {
            let body =
                "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=\(assertion)"
            let response = bench.route(.post, "/token", body, bearer: nil).response
            #expect(
                response?.status == 400
                    && object(response?.body ?? [])["error"] as? String == "invalid_grant", "\(assertion)")
        }
        let other = bench.route(.post, "/token", "grant_type=password", bearer: nil).response
        #expect(object(other?.body ?? [])["error"] as? String == "unsupported_grant_type")
    }
}

@Suite("Dates")
struct DateTests {
    @Test(
        "are civil dates",
        arguments: [
            (0, "1970-01-01"), (59, "1970-03-01"), (11_016, "2000-02-29"), (20_777, "2026-11-20"),
            (47_540, "2100-02-28"), (47_541, "2100-03-01"),
        ])
    func dates(day: Int, text: String) { #expect(Timestamp.date(day) == text) }
}
