import Credentials
import HTTPMessages
import Testing

@testable import FCMAPI

@Suite("An operator who is refused") struct RefusedOperatorTests {
    private let harness = APIHarness()

    init() {
        let life = Credential(kind: .operatorToken, project: nil, label: "ci", role: .read)
        harness.api.directory.apply(KeyHash.of("tco_ci".utf8), life)
    }

    private func refused(
        _ method: HTTPMethod, _ target: String, bearer: String?, isSecure: Bool = true, isAdmin: Bool = false
    ) -> RefusedOperator? {
        var fields = HTTPFields()
        if let bearer { fields.append(name: "authorization".utf8, value: "Bearer \(bearer)".utf8) }
        let request = HTTPRequest(
            method: method, target: Array(target.utf8), fields: fields, body: Array("{}".utf8),
            isSecure: isSecure, client: ClientAddress(bytes: [192, 0, 2, 1]))
        return harness.routed(request, isAdmin: isAdmin).refusedOperator
    }

    @Test("is told to the audit log with a name and the request, and without a secret")
    func isToldOfWithWhoAndWhat() throws {
        let role = try #require(refused(.delete, "/admin/projects/shop?key=hidden", bearer: "tco_ci"))
        #expect(role.name == "operator ci (\(KeyHash.of("tco_ci".utf8).prefix(16)))")
        #expect(role.subject.hasPrefix("DELETE /admin/projects/shop: This request needs an operator's token"))
        let clear = try #require(refused(.get, "/admin/keys", bearer: "tco_ci", isSecure: false))
        #expect(clear.subject.contains("over TLS only"))
        let elsewhere = try #require(refused(.post, "/v1/projects/shop/messages:send", bearer: "tco_ci"))
        #expect(elsewhere.subject.hasPrefix("POST /v1/projects/shop/messages:send: This request needs"))
        let wrong = try #require(refused(.get, "/admin/keys", bearer: "tco_guess"))
        #expect(wrong.name == "unknown token")
        let hash = KeyHash.of("tco_guess".utf8).prefix(16)
        #expect(wrong.subject.hasPrefix("GET /admin/keys (\(hash)): "))
        #expect(!wrong.subject.contains("guess"))
        let backend = try #require(refused(.get, "/admin/keys", bearer: "tcb_secret"))
        #expect(backend.name == "shop")
        let long = try #require(
            refused(.get, "/admin/" + String(repeating: "x", count: 5000), bearer: "tco_guess"))
        #expect(long.subject.utf8.count < 300)
    }

    @Test("is the only client whose refusals are told there")
    func nothingElseIs() {
        // The API answers 404 to a client without a token, and a backend's mistakes do not concern operators.
        #expect(refused(.get, "/admin/keys", bearer: nil) == nil)
        #expect(refused(.post, "/v1/projects/shop/messages:send", bearer: "tcb_wrong") == nil)
        #expect(refused(.post, "/v1/projects/other/messages:send", bearer: "tcb_secret") == nil)
        #expect(refused(.get, "/admin/keys", bearer: "tco_ci") == nil)
        #expect(refused(.get, "/admin/nothing", bearer: "tco_ci") == nil)
        #expect(refused(.get, "/admin/keys", bearer: "tco_guess", isAdmin: true) == nil)
    }
}
