import HTTPMessages
import Testing

@testable import FCMAPI

@Suite("How long a body may be")
struct BodyBoundTests {
    /// The bound in bytes, or the status of the answer.
    private func bound(
        _ method: HTTPMethod, _ target: String, authorization: String? = "Bearer x", isAdmin: Bool = false
    ) -> Int {
        var fields = HTTPFields()
        if let authorization { fields.append(name: "authorization".utf8, value: authorization.utf8) }
        let request = HTTPRequest(method: method, target: Array(target.utf8), fields: fields)
        switch BodyBound.of(request, isAdmin: isAdmin) {
        case .bytes(let bytes): return bytes
        case .answer(let response): return response.status
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
            (.other("BREW"), "/token", 4096),
        ] as [(HTTPMethod, String, Int)])
    func paths(row: (method: HTTPMethod, target: String, bytes: Int)) {
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

    @Test("is a batch's over the admin socket")
    func admin() {
        #expect(bound(.post, "/admin/projects/shop/subscribe", authorization: nil, isAdmin: true) == 262_144)
    }
}
