import Credentials
import HTTPMessages
import Model
import Routing
import Testing

@testable import FCMAPI

extension HTTPFields {
    fileprivate static func bearer(_ token: String) -> HTTPFields {
        var fields = HTTPFields()
        fields.append(name: "authorization".utf8, value: "Bearer \(token)".utf8)
        return fields
    }
}

/// What libraries of other languages make of an answer. `docs/admin-sdks.md` has their versions.
@Suite("To a library that somebody else wrote")
struct LibraryTests {
    private let harness = APIHarness()

    /// Whether an Admin SDK tells its backend that the device is gone. All SDKs look at the `FcmError`. If
    /// there is none, Node 14.5.1 looks at the status (`createFirebaseError`).
    private func deletesToken(_ response: HTTPResponse?) -> Bool {
        let answer = error(response)
        return ["UNREGISTERED", "NOT_FOUND"].contains(answer.fcm ?? answer.status)
    }

    @Test(
        "a path that is not there looks like no dead token",
        arguments: [
            "/batch", "/fcm/send", "/fcm/notification", "/", "/v1", "/proxy/v1/projects/shop/messages:send",
            "/v1/projects/shop/messages:sendAll", "/v1/projects/shop", "/iid/v1:batchImport", "/v1/web/iid",
            "/iid/info", "/oauth2/v5/token", "/o/oauth2/token/x", "/push", "/a//b", "/%",
        ])
    func unknownPath(path: String) throws {
        for method in [HTTPMethod.get, .post, .put, .delete] {
            let response = try #require(harness.route(method, path, "{}").response)
            #expect(response.status == 404 && !deletesToken(response))
            #expect(String(decoding: response.body, as: UTF8.self).hasPrefix("<!DOCTYPE html>"))
        }
    }

    /// `AppInstanceApiClient` of firebase-php 8.6 asks so.
    @Test("a token's topics are also at the path without info")
    func tokenWithoutInfo() throws {
        let token = harness.token()
        let list = [Subscription(topic: TopicName(checked: Array("news".utf8)), since: Day(20_777))]
        let bodies = try ["/iid/info/\(token)", "/iid/\(token)"].map { path in
            let form = try #require(harness.route(.get, path + "?details=true").form)
            return harness.api.render(.subscriptions(list), form).body
        }
        #expect(bodies[0] == bodies[1] && object(bodies[0])["rel"] != nil)
        #expect(harness.route(.get, "/iid/a:b").response?.status == 400)
    }

    @Test("a project that is not there looks like a project of somebody else")
    func unknownProject() throws {
        let life = Credential(kind: .operatorToken, project: nil, label: "ci", role: .admin)
        harness.api.directory.apply(KeyHash.of("tco_admin".utf8), life)
        func send(_ name: String, bearer: String) -> HTTPResponse? {
            let request = HTTPRequest(
                method: .post, target: Array("/v1/projects/\(name)/messages:send".utf8),
                fields: .bearer(bearer), body: Array(#"{"message":{"topic":"a"}}"#.utf8), isSecure: true)
            return harness.route(request).response
        }
        for name in ["nothing", "other", "Bad_P", "-"] {
            let answer = error(send(name, bearer: "tcb_secret"))
            #expect(answer.http == 403 && answer.status == "PERMISSION_DENIED", "\(name)")
        }
        for name in ["nothing", "Bad_P", "-"] {
            let answer = error(send(name, bearer: "tco_admin"))
            #expect(answer.http == 403 && answer.status == "PERMISSION_DENIED", "\(name)")
        }
    }

    @Test("only the proven end of a device says so")
    func refusals() {
        let refusals: [Refusal] = [
            .invalidToken, .senderMismatch, .wrongCredential, .tooManyTopics, .pushKeyRefused,
            .unavailable("x"), .deadlineExceeded,
        ]
        for refusal in refusals {
            #expect(!deletesToken(APIError(refusal, project: "shop", field: "message.token").response()))
        }
        let end = APIError(.unregistered, project: "shop", field: "message.token").response()
        #expect(deletesToken(end))
    }

    private func reason(_ authorization: String?, path: String = "/v1/projects/shop/messages:send") -> String?
    {
        let headers = authorization.map { [("authorization", $0)] } ?? []
        let response = harness.route(.post, path, "{}", bearer: nil, headers: headers).response
        guard response?.status == 401 else { return "\(response?.status ?? 0)" }
        let body = object(response?.body ?? [])["error"] as? [String: Any]
        let details = body?["details"] as? [[String: Any]] ?? []
        let info = details.first { ($0["@type"] as? String)?.hasSuffix("ErrorInfo") ?? false }
        return info?["reason"] as? String
    }

    @Test("a bearer that does not count has Google's reason")
    func reasons() {
        let token = AccessToken(project: ProjectNumber(5), key: "0a", end: WallTime(milliseconds: 1))
        let ended = String(decoding: token.signed(with: [UInt8](repeating: 7, count: 32)), as: UTF8.self)
        let foreign = String(decoding: token.signed(with: [UInt8](repeating: 8, count: 32)), as: UTF8.self)
        #expect(reason("Bearer \(ended)") == "ACCESS_TOKEN_EXPIRED")
        #expect(reason("Bearer \(foreign)") == "ACCESS_TOKEN_EXPIRED")
        #expect(reason("Bearer ya29.something") == "ACCESS_TOKEN_TYPE_UNSUPPORTED")
        #expect(reason("key=AAAA") == "ACCESS_TOKEN_TYPE_UNSUPPORTED")
        #expect(reason(nil) == "CREDENTIALS_MISSING")
        func challenge(_ authorization: String?, _ path: String) -> String? {
            let headers = authorization.map { [("authorization", $0)] } ?? []
            let response = harness.route(.post, path, "{}", bearer: nil, headers: headers).response
            return response?.fields.first { $0.name == "www-authenticate" }?.value
        }
        for path in ["/v1/projects/shop/messages:send", "/iid/v1:batchAdd"] {
            #expect(
                challenge("Bearer \(ended)", path) == "Bearer realm=\"tidecast\", error=\"invalid_token\"")
            #expect(challenge(nil, path) == "Bearer realm=\"tidecast\"")
        }
        let large = HTTPRequest(
            method: .post, target: Array("/v1/projects/shop/messages:send".utf8), fields: HTTPFields(),
            body: [])
        guard
            case .answer(let refused, _) = harness.api.bodyBound(of: large, isAdmin: false, now: harness.now)
        else {
            Issue.record("a large body without a bearer was let in")
            return
        }
        #expect(String(decoding: refused.body, as: UTF8.self).contains("CREDENTIALS_MISSING"))
    }

    @Test("a bearer may have blanks before it")
    func blanks() {
        let headers = [("authorization", "Bearer   tcb_secret")]
        let body = #"{"message":{"topic":"a"}}"#
        let path = "/v1/projects/shop/messages:send"
        #expect(harness.route(.post, path, body, bearer: nil, headers: headers).sent != nil)
        #expect(reason("Bearer    ") == "ACCESS_TOKEN_TYPE_UNSUPPORTED")
    }

    @Test("a body in another form of text is refused with its name")
    func otherText() {
        let path = "/v1/projects/shop/messages:send"
        let body = Array(#"{"message":{"topic":"a"}}"#.utf8)
        let marked: [UInt8] = [0xEF, 0xBB, 0xBF] + body
        let wide: [UInt8] = body.flatMap { [$0, 0] }
        for (bytes, word) in [(marked, "byte order mark"), (wide, "UTF-16")] {
            let response = harness.route(.post, path, bytes: bytes).response
            #expect(error(response).http == 400)
            let text = String(decoding: response?.body ?? [], as: UTF8.self)
            #expect(text.contains(word))
        }
        let empty = [("content-encoding", "")]
        #expect(harness.route(.post, path, bytes: body, headers: empty).sent != nil)
    }

    @Test("an EventSource that is refused for a while may come back")
    func eventSource() throws {
        var settings = APISettings()
        var limits = ClientLimits.Settings()
        limits.callsPerMinute = 1
        settings.clients = ClientLimits(limits, salt: 3)
        let harness = APIHarness(settings)
        let credential = String(decoding: harness.keys.credential(secret: 99), as: UTF8.self)
        let path = "/v1/projects/shop/registrations/\(harness.token()):listen?credential=\(credential)"
        func ask(_ headers: HTTPFields) -> HTTPResponse? {
            let client = ClientAddress(text: "192.0.2.1")
            return harness.route(
                HTTPRequest(method: .get, target: Array(path.utf8), fields: headers, body: [], client: client)
            ).response
        }
        var plain = HTTPFields()
        plain.append(name: "accept".utf8, value: "text/event-stream".utf8)
        _ = ask(plain)
        // Libraries that set a field do the same.
        plain.append(name: "authorization".utf8, value: "Bearer \(credential)".utf8)
        let refused = try #require(ask(plain))
        #expect(refused.status == 200)
        let text = String(decoding: refused.body, as: UTF8.self)
        #expect(text.contains("event: reconnect\n") && text.contains("retry: ") && text.hasSuffix("\n\n"))
        let refusal = try #require(ask(HTTPFields()))
        #expect(refusal.status == 429)
        // A page may read how long to wait.
        #expect(refusal.fields.contains { $0 == ("access-control-expose-headers", "retry-after") })
        let passing = harness.api.refuseStream(.unavailable("x"), isEventSource: true)
        #expect(passing.status == 200)
        #expect(harness.api.refuseStream(.unavailable("x"), isEventSource: false).status == 503)
        #expect(harness.api.refuseStream(.unregistered, isEventSource: true).status == 404)
    }

    @Test("a page may set the fields that libraries for event streams set")
    func preflight() {
        func allowed(_ asked: String?) -> String? {
            let headers = asked.map { [("access-control-request-headers", $0)] } ?? []
            let response = harness.route(.options, "/v1/projects/shop", bearer: nil, headers: headers)
                .response
            return response?.fields.first { $0.name == "access-control-allow-headers" }?.value
        }
        #expect(allowed("authorization,cache-control") == "authorization,cache-control")
        #expect(allowed("x-requested-with, X-My_Own") == "x-requested-with, X-My_Own")
        for asked in [nil, "", "a\r\nset-cookie: x", "a;b", String(repeating: "a", count: 1025)] {
            #expect(allowed(asked)?.contains("x-requested-with") == true)
        }
    }
}
