import Credentials
import HTTPMessages
import Testing

@testable import FCMAPI

@Suite("How long a body may be")
final class BodyBoundTests {
    private let harness = APIHarness()
    /// What the newest answer tells the audit log.
    private var told: RefusedOperator?

    /// The bound in bytes, or the status of the answer.
    private func bound(
        _ method: HTTPMethod, _ target: String, authorization: String? = "Bearer tcb_secret",
        isAdmin: Bool = false
    ) -> Int {
        var fields = HTTPFields()
        if let authorization { fields.append(name: "authorization".utf8, value: authorization.utf8) }
        let request = HTTPRequest(method: method, target: Array(target.utf8), fields: fields)
        switch harness.api.bodyBound(of: request, isAdmin: isAdmin, now: harness.now) {
        case .bytes(let bytes): return bytes
        case .answer(let response, let refused):
            told = refused
            return response.status
        }
    }

    @Test(
        "is said by its path",
        arguments: [
            (.post, "/token", 32_768), (.post, "/token?x=y", 32_768), (.post, "/iid/register", 32_768),
            (.post, "/register", 4096), (.post, "/checkin", 4096),
            (.post, "/v1/projects/shop/messages:send", 65_536),
            (.post, "/v1/projects/shop/messages%3Asend", 65_536),
            (.post, "/v1/projects/shop/messages:send?alt=json", 65_536),
            (.post, "/iid/v1:batchAdd", 262_144), (.post, "/iid/v1%3AbatchRemove", 262_144),
            (.get, "/v1/projects/shop/messages:send", 4096), (.delete, "/token", 4096),
            (.head, "/healthz", 4096), (.post, "/healthz", 4096), (.post, "/", 4096), (.post, "*", 4096),
            (.post, "/v1/projects/shop/registrations", 4096),
            (.post, "/v1/projects/shop/registrations/x:acknowledge", 4096),
            (.post, "/v1/projects/shop/messages:send/x", 4096), (.post, "/admin/projects", 4096),
            (.post, "/admin/projects/shop/subscribe", 262_144), (.post, "/admin/keys", 4096),
            (.post, "/admin/projects/shop/push/web", 262_144), (.post, "/admin/projects/shop/push/x", 4096),
            (.other("BREW"), "/token", 4096),
        ] as [(HTTPMethod, String, Int)])
    func bounds(row: (method: HTTPMethod, target: String, bytes: Int)) {
        #expect(bound(row.method, row.target) == row.bytes)
    }

    @Test(
        "is nothing where a bearer is needed and there is none", arguments: [nil, "", "Basic x", "Bearer "])
    func unsigned(authorization: String?) {
        for target in ["/v1/projects/shop/messages:send", "/iid/v1:batchAdd", "/iid/v1:batchRemove"] {
            #expect(bound(.post, target, authorization: authorization) == 401)
        }
        #expect(bound(.post, "/token", authorization: authorization) == 32_768)
    }

    @Test(
        "is nothing where the bearer is nobody's", arguments: ["Bearer x", "bearer tck_app", "Bearer owner"])
    func foreign(authorization: String) {
        for target in [
            "/v1/projects/shop/messages:send", "/iid/v1:batchAdd", "/iid/v1:batchRemove",
            "/admin/projects/shop/subscribe", "/admin/projects/shop/unsubscribe",
            "/admin/projects/shop/push/web",
        ] {
            #expect(bound(.post, target, authorization: authorization) == 401)
        }
        #expect(bound(.post, "/token", authorization: authorization) == 32_768)
    }

    @Test("shows a client without a token nothing of the paths below /admin")
    func hidden() {
        for target in ["/admin/projects/shop/subscribe", "/admin/projects/shop/push/web", "/admin/nothing"] {
            #expect(bound(.post, target, authorization: nil) == 4096)
        }
    }

    @Test("tells the audit log of a guess at an operator's token whose body is not read")
    func guess() throws {
        #expect(bound(.post, "/v1/projects/shop/messages:send", authorization: "Bearer x") == 401)
        #expect(told == nil)
        #expect(bound(.post, "/admin/projects/shop/subscribe", authorization: "Bearer x") == 401)
        let told = try #require(told)
        #expect(told.subject.hasPrefix("POST /admin/projects/shop/subscribe ("))
    }

    @Test("is nothing for a bearer that has ended, also a moment after it counted")
    func ended() {
        let send = "/v1/projects/shop/messages:send"
        #expect(bound(.post, send, authorization: "Bearer tcb_new") == 401)
        harness.api.directory.keys[KeyHash.of("tcb_new".utf8)] = .init(.bearer, harness.project.number)
        #expect(bound(.post, send, authorization: "Bearer tcb_new") == 65_536)
        harness.api.directory.keys[KeyHash.of("tcb_new".utf8)] = nil
        #expect(bound(.post, send, authorization: "Bearer tcb_new") == 401)
    }

    @Test("is a batch's over the admin socket")
    func admin() {
        #expect(bound(.post, "/admin/projects/shop/subscribe", authorization: nil, isAdmin: true) == 262_144)
    }
}
