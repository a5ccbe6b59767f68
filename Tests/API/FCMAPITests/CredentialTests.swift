import Credentials
import Foundation
import HTTPMessages
import Model
import Testing

@testable import FCMAPI

private let path = "/v1/projects/shop/messages:send"
private let body = #"{"message":{"topic":"a"}}"#

@Suite("A credential that ends") struct EndingCredentialTests {
    private func harness(end: Int64?) -> APIHarness {
        let harness = APIHarness()
        let end = end.map { WallTime(milliseconds: harness.now.milliseconds + $0) }
        var directory = harness.api.directory
        directory.keys[KeyHash.of("tcb_secret".utf8)]?.end = end
        directory.keys[KeyHash.of("tck_app".utf8)]?.end = end
        directory.accounts["0a"] = .init(
            project: harness.project.number, email: "e", publicKey: "", end: end)
        harness.api.directory = directory
        return harness
    }

    private func token(_ harness: APIHarness, key: String) -> String {
        let made = harness.api.authenticator.makeAccessToken(
            harness.project.number, key: key, now: harness.now)
        return String(decoding: made.token, as: UTF8.self)
    }

    private func registers(_ harness: APIHarness) -> Bool {
        let action = harness.route(
            .post, "/v1/projects/shop/registrations", bearer: nil, headers: [("x-goog-api-key", "tck_app")])
        if case .operation = action { return true }
        return false
    }

    @Test("counts until then", arguments: [nil, 1] as [Int64?])
    func counts(end: Int64?) {
        let harness = harness(end: end)
        #expect(harness.route(.post, path, body).sent != nil)
        #expect(harness.route(.post, path, body, bearer: token(harness, key: "0a")).sent != nil)
        #expect(registers(harness))
    }

    @Test("counts no more from then on", arguments: [0, -1] as [Int64])
    func ended(end: Int64) {
        let harness = harness(end: end)
        #expect(error(harness.route(.post, path, body).response).http == 401)
        #expect(harness.route(.post, path, body, bearer: token(harness, key: "0a")).sent == nil)
        #expect(!registers(harness))
    }

    @Test("counts no more while what was verified is still remembered")
    func remembered() {
        let harness = harness(end: 1000)
        let later = WallTime(milliseconds: harness.now.milliseconds + 1000)
        for shown in ["tcb_secret", token(harness, key: "0a")] {
            let request = HTTPRequest(method: .get, target: [])
            request.fields.append(name: "authorization".utf8, value: "Bearer \(shown)".utf8)
            func principal(_ now: WallTime) -> Principal? {
                harness.api.authenticator.principal(request, harness.api.directory, now: now)
            }
            #expect(principal(harness.now) == .project(harness.project.number))
            #expect(principal(later) == nil)
        }
    }

    @Test("takes its access tokens with it at once when it is revoked")
    func revoked() {
        let harness = harness(end: nil)
        let shown = token(harness, key: "0a")
        #expect(harness.route(.post, path, body, bearer: shown).sent != nil)
        var life = Credential(kind: .serviceAccount, project: harness.project.number)
        life.revoked = harness.now
        harness.api.directory.apply("0a", life)
        #expect(error(harness.route(.post, path, body, bearer: shown).response).http == 401)
    }

    @Test("speaks for its own project only, whatever its token says")
    func foreign() {
        let harness = harness(end: nil)
        let made = harness.api.authenticator.makeAccessToken(ProjectNumber(6), key: "0a", now: harness.now)
        let text = String(decoding: made.token, as: UTF8.self)
        let sent = harness.route(.post, "/v1/projects/other/messages:send", body, bearer: text)
        #expect(error(sent.response).http == 401)
    }

    @Test("is noted when it is used")
    func uses() {
        let harness = harness(end: nil)
        _ = harness.route(.post, path, body)
        _ = harness.route(.post, path, body, bearer: token(harness, key: "0a"))
        _ = registers(harness)
        let names = [KeyHash.of("tcb_secret".utf8), KeyHash.of("tck_app".utf8), "0a"]
        #expect(Set(harness.api.takeUses(now: harness.now).keys) == Set(names))
        _ = harness.route(.post, path, body)
        #expect(harness.api.takeUses(now: harness.now).isEmpty)
    }
}

@Suite("A token of any bytes") struct AccessTokenTests {
    private let key = [UInt8](repeating: 9, count: 32)

    @Test(
        "is read as it was made, and as nothing under another key or with a byte changed or cut",
        arguments: ["0a", String(repeating: "f", count: 40), String(repeating: "f", count: 64)])
    func isReadAsItWasMade(id: String) {
        let token = AccessToken(project: ProjectNumber(7), key: id, end: WallTime(milliseconds: 9))
        let text = token.signed(with: key)
        #expect(AccessToken(text[...], signedWith: key) == token)
        #expect(AccessToken(text[...], signedWith: [1]) == nil)
        for index in text.indices {
            var changed = text
            changed[index] = changed[index] == 65 ? 66 : 65
            #expect(AccessToken(changed[...], signedWith: key) == nil, "byte \(index)")
            #expect(AccessToken(text[..<index], signedWith: key) == nil, "\(index) bytes")
        }
    }

    @Test("is refused without a trap where it is noise")
    func isNoReadersEnd() {
        var random = SeededGenerator(seed: 5)
        for _ in 0..<5000 {
            let count = Int.random(in: 0...200, using: &random)
            let bytes = (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }
            let text = Array("tca.".utf8) + Base64URL.encode(bytes)
            #expect(AccessToken(text[...], signedWith: key) == nil)
        }
    }
}

@Suite("What is asked of credentials") struct CredentialRequestTests {
    private func ask(_ method: HTTPMethod, _ target: String, _ body: String = "{}") -> APIAction {
        let harness = APIHarness()
        let request = HTTPRequest(
            method: method, target: Array("/admin\(target)".utf8), fields: HTTPFields(),
            body: Array(body.utf8))
        return harness.route(request, isAdmin: true)
    }

    private func wanted(_ action: APIAction) -> CredentialRequest? {
        if case .admin(.credentials(let wanted)) = action { wanted } else { nil }
    }

    @Test("is understood, in today's paths and in the former one")
    func isUnderstood() throws {
        let now = APIHarness().now.milliseconds
        guard case .list(nil) = wanted(ask(.get, "/keys")),
            case .list(.some) = wanted(ask(.get, "/keys?project=shop")),
            case .revoke("a") = wanted(ask(.post, "/keys/a/revoke")),
            case .expire("a", nil) = wanted(ask(.post, "/keys/a/expire", #"{"never":"true"}"#)),
            case .expire("a", let end) = wanted(ask(.post, "/keys/a/expire", #"{"ttlSeconds":"60"}"#)),
            case .rotate("a", 86_400_000, nil) = wanted(ask(.post, "/keys/a/rotate")),
            case .rotate("a", 2000, "u") = wanted(
                ask(.post, "/keys/a/rotate", #"{"overlapSeconds":"2","tokenUri":"u"}"#)),
            case .create(let new) = wanted(
                ask(
                    .post, "/keys",
                    #"{"project":"shop","kind":"service-account","name":"ci","#
                        + #""expireSeconds":"1900000000"}"#)),
            case .create(let former) = wanted(ask(.post, "/projects/shop/keys", #"{"kind":"device"}"#))
        else {
            Issue.record("not understood")
            return
        }
        #expect(end?.milliseconds == now + 60_000)
        #expect(new.kind == .serviceAccount && new.label == "ci" && new.project?.id == "shop")
        #expect(new.expires?.milliseconds == 1_900_000_000_000 && former.kind == .device)
    }

    @Test(
        "that makes no sense is refused",
        arguments: [
            ("/keys", "{}", 400), ("/keys", #"{"project":"none","kind":"bearer"}"#, 404),
            ("/keys", #"{"project":"shop","kind":"operator"}"#, 400),
            ("/keys", #"{"project":"shop","kind":7}"#, 400),
            ("/keys", #"{"project":"shop","kind":"bearer","ttlSeconds":"-1"}"#, 400),
            ("/keys", #"{"project":"shop","kind":"bearer","ttlSeconds":"9223372036854775807"}"#, 400),
            ("/keys", #"{"project":"shop","kind":"bearer","expireSeconds":"soon"}"#, 400),
            ("/keys/a/expire", "{}", 400), ("/keys/a/rotate", #"{"overlapSeconds":"1.5"}"#, 400),
            ("/keys/a/renew", "{}", 404), ("/keys/a", "{}", 404), ("/keys/a/revoke/b", "{}", 404),
            ("/keys", "[", 400),
        ])
    func refused(target: String, body: String, status: Int) {
        #expect(ask(.post, target, body).response?.status == status, "\(target) \(body)")
    }

    @Test(
        "is refused where a certificate's fingerprint is malformed",
        arguments: ["", "00", "x", String(repeating: "0", count: 40), String(repeating: "0", count: 65)])
    func fingerprints(text: String) {
        for path in ["refuse", "accept"] {
            let answer = ask(.post, "/cluster/\(path)", #"{"certificate":"\#(text)"}"#).response
            let said = String(decoding: answer?.body ?? [], as: UTF8.self)
            #expect(answer?.status == 400 && said.contains("64 hexadecimal digits"), "\(text): \(said)")
        }
    }

    /// The audit log gets each change that an operator makes, and no secret.
    @Test(
        "is told to the audit log where it is a change, without a secret",
        arguments: [
            (
                "/keys", #"{"project":"shop","kind":"bearer","name":"ci","expireSeconds":"1900000000"}"#,
                "key.create: bearer of shop named ci until 2030-03-17T17:46:40.000Z"
            ),
            ("/keys/0123456789abcdef0123/revoke", "{}", "key.revoke: 0123456789abcdef"),
            ("/keys/a/expire", #"{"never":"true"}"#, "key.expire: a never ends"),
            ("/keys/a/rotate", "{}", "key.rotate: a"),
            ("/serverKeys/signing/rotate", #"{"atOnce":"true"}"#, "key.rotate: signing, at once"),
            ("/serverKeys/registration/rotate", "{}", "key.rotate: registration"),
            ("/serverKeys/registration/retire", #"{"number":"1"}"#, "key.retire: registration 1"),
            ("/projects", #"{"id":"new"}"#, "project.create: new"),
            ("/cluster/drain", #"{"node":"n","force":"true"}"#, "cluster.drain: n, forced"),
            ("/cluster/uncordon", #"{"node":"n"}"#, "cluster.uncordon: n"),
        ])
    func isToldOf(target: String, body: String, told: String) {
        guard case .admin(let request) = ask(.post, target, body) else {
            Issue.record("not understood: \(target)")
            return
        }
        #expect(request.change.map { "\($0.action): \($0.subject)" } == told)
    }

    @Test("is told to the audit log with the certificate that it refuses or accepts")
    func certificates() {
        let printed = "00" + String(repeating: ":00", count: 31)
        let body = #"{"certificate":"\#(String(repeating: "0", count: 64))"}"#
        isToldOf(target: "/cluster/accept", body: body, told: "cluster.accept: \(printed)")
        isToldOf(target: "/cluster/refuse", body: body, told: "cluster.refuse: \(printed)")
        let forced = String(body.dropLast()) + #","force":"true"}"#
        isToldOf(target: "/cluster/refuse", body: forced, told: "cluster.refuse: \(printed), forced")
    }

    @Test(
        "is not told to the audit log where it only looks",
        arguments: ["/keys", "/serverKeys", "/projects", "/cluster", "/audit", "/audit?limit=2000"])
    func lookingIsNotToldOf(target: String) {
        guard case .admin(let request) = ask(.get, target) else {
            Issue.record("not understood: \(target)")
            return
        }
        #expect(request.change == nil)
    }

    @Test(
        "is refused where its limit is not a number from 1 to 2,000", arguments: ["0", "2001", "x", "-1", ""])
    func aLimitIsANumber(limit: String) {
        #expect(ask(.get, "/audit?limit=\(limit)").response?.status == 400)
    }
}

@Suite("An operator over the network") struct OperatorTests {
    private func harness(_ role: OperatorRole, end: Int64? = nil) -> APIHarness {
        let harness = APIHarness()
        var life = Credential(kind: .operatorToken, project: nil, label: "ci", role: role)
        life.expires = end.map { WallTime(milliseconds: harness.now.milliseconds + $0) }
        harness.api.directory.apply(KeyHash.of("tco_ci".utf8), life)
        return harness
    }

    private func request(
        _ method: HTTPMethod, _ target: String, _ body: String = "{}", bearer: String? = "tco_ci",
        isSecure: Bool = true, isLoopback: Bool = false
    ) -> HTTPRequest {
        var fields = HTTPFields()
        if let bearer { fields.append(name: "authorization".utf8, value: "Bearer \(bearer)".utf8) }
        return HTTPRequest(
            method: method, target: Array(target.utf8), fields: fields, body: Array(body.utf8),
            isSecure: isSecure, client: ClientAddress(bytes: isLoopback ? [127, 0, 0, 1] : [192, 0, 2, 1]))
    }

    /// The status of a refusal, or 0.
    private func ask(_ harness: APIHarness, _ request: HTTPRequest) -> Int {
        let action = harness.route(request)
        return action.response?.status ?? 0
    }

    private static let send = "/v1/projects/shop/messages:send"
    private static let message = #"{"message":{"topic":"a"}}"#
    private static let certificate = #"{"certificate":"\#(String(repeating: "0", count: 64))"}"#
    private static let rows: [(HTTPMethod, String, String, OperatorRole)] = [
        (.get, "/admin/projects", "", .read), (.get, "/admin/keys", "", .read),
        (.get, "/admin/audit", "", .read), (.get, "/admin/cluster", "", .read),
        (.get, "/admin/serverKeys", "", .read), (.get, "/v1/projects/shop/topics", "", .read),
        (.get, "/v1/projects/other/registrations", "", .read),
        (.get, "/admin/projects/shop/quotas", "", .read),
        (.post, send, message, .operate), (.post, "/v1/projects/shop/registrations", "{}", .operate),
        (.patch, "/admin/projects/shop/quotas", #"{"fanouts":1}"#, .operate),
        (.post, "/admin/cluster/drain", #"{"node":"n"}"#, .operate),
        (.post, "/admin/cluster/uncordon", #"{"node":"n"}"#, .operate),
        (.post, "/admin/cluster/refuse", certificate, .operate),
        (.post, "/admin/cluster/accept", certificate, .operate),
        (.post, "/admin/projects", #"{"id":"new"}"#, .admin), (.delete, "/admin/projects/shop", "", .admin),
        (.post, "/admin/projects/shop/keys", #"{"kind":"bearer"}"#, .admin),
        (.get, "/admin/projects/shop/push", "", .read), (.delete, "/admin/projects/shop/push", "", .admin),
        (.delete, "/admin/projects/shop/push/web", "", .admin),
        (.delete, "/admin/projects/shop/push/apns/sandbox/org.a", "", .admin),
        (.post, "/admin/keys", #"{"kind":"operator","role":"admin"}"#, .admin),
        (.post, "/admin/keys/a/revoke", "{}", .admin), (.post, "/admin/keys/a/rotate", "{}", .admin),
        (.post, "/admin/serverKeys/signing/rotate", "{}", .admin),
        (.post, "/admin/serverKeys/registration/retire", #"{"number":"1"}"#, .admin),
    ]

    @Test("may what the role says and no more", arguments: rows, OperatorRole.allCases)
    func roles(
        row: (method: HTTPMethod, target: String, body: String, needed: OperatorRole), role: OperatorRole
    ) {
        let status = ask(harness(role), request(row.method, row.target, row.body))
        #expect(status == (role >= row.needed ? 0 : 403), "\(row.target) by \(role)")
    }

    @Test("is nobody in clear text, except on the machine itself")
    func clearText() {
        for (method, target, body, _) in OperatorTests.rows {
            let harness = harness(.admin)
            #expect(ask(harness, request(method, target, body, isSecure: false)) == 403, "\(target)")
            let near = request(method, target, body, isSecure: false, isLoopback: true)
            #expect(ask(harness, near) == 0, "\(target)")
        }
    }

    @Test("is nobody any more when the token has ended", arguments: [0, -1] as [Int64])
    func ended(end: Int64) {
        for (method, target, body, _) in OperatorTests.rows {
            #expect(ask(harness(.admin, end: end), request(method, target, body)) == 401, "\(target)")
        }
    }

    @Test("is nobody else")
    func others() {
        for (method, target, body, _) in OperatorTests.rows where target.hasPrefix("/admin") {
            let harness = harness(.admin)
            // A client without a token does not learn that the path exists.
            #expect(ask(harness, request(method, target, body, bearer: nil)) == 404, "\(target)")
            for bearer in ["tco_other", "tck_app", "owner", "", "tco_ci "] {
                #expect(
                    ask(harness, request(method, target, body, bearer: bearer)) == 401, "\(target) \(bearer)")
            }
            let isOfBackends = method == .get && target.hasSuffix("quotas")
            #expect(
                ask(harness, request(method, target, body, bearer: "tcb_secret")) == (isOfBackends ? 0 : 401))
        }
    }

    @Test("is named for the audit log")
    func author() {
        let harness = harness(.read)
        let name = harness.api.author(of: request(.get, "/admin/keys"), now: harness.now)
        #expect(name == "operator ci (\(Credential.id(of: KeyHash.of("tco_ci".utf8))))")
        #expect(harness.api.author(of: request(.get, "/", bearer: nil), now: harness.now) == "unknown")
    }

    /// The command line uses paths under /admin for operations that a backend may do.
    @Test("is not needed for a backend's own subscriptions")
    func backends() {
        let harness = harness(.read)
        for verb in ["subscribe", "unsubscribe"] {
            let body = "{\"to\":\"/topics/a\",\"registration_tokens\":[\"\(harness.token())\"]}"
            let own = request(.post, "/admin/projects/shop/\(verb)", body, bearer: "tcb_secret")
            #expect(ask(harness, own) == 0)
            let other = request(.post, "/admin/projects/other/\(verb)", body, bearer: "tcb_secret")
            #expect(ask(harness, other) == 401)
            #expect(ask(harness, request(.post, "/admin/projects/other/\(verb)", body)) == 403)
        }
    }

    @Test(
        "is made with a role and for no project",
        arguments: [
            #"{"kind":"operator"}"#, #"{"kind":"operator","role":"root"}"#, #"{"kind":"operator","role":3}"#,
            #"{"kind":"operator","role":"read","project":"shop"}"#,
        ])
    func made(body: String) {
        #expect(ask(harness(.admin), request(.post, "/admin/keys", body)) == 400)
    }
}
