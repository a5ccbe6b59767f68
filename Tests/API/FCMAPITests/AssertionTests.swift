import Credentials
import Foundation
import HTTPMessages
import Model
import Testing

@testable import FCMAPI

@Suite("An assertion (RFC 7523)")
struct AssertionTests {
    private static let uri = "https://oauth2.googleapis.com/token"
    private static let seconds = 1_800_000_000
    private static let scope = "https://www.googleapis.com/auth/cloud-platform https://x/y"

    /// One account for all rows: making a key takes a while.
    private static let file = ServiceAccountKey.make().map {
        ServiceAccountFile(
            project: Project(id: "shop", number: ProjectNumber(5)), tokenURI: uri, key: $0,
            keyID: [UInt8](repeating: 5, count: 20))
    }

    private func good() -> [String: Any] {
        [
            "iss": AssertionTests.file?.email ?? "", "aud": AssertionTests.uri,
            "iat": AssertionTests.seconds, "exp": AssertionTests.seconds + 3600,
            "scope": AssertionTests.scope,
        ]
    }

    /// A spare key, which tests give to the same account or to an account of another project.
    private static let spare = ServiceAccountKey.make()

    private static func harness() throws -> APIHarness {
        let harness = APIHarness()
        let file = try #require(file)
        harness.api.directory.accounts[file.keyID] = .init(
            project: harness.project.number, email: file.email, publicKey: file.key.open)
        return harness
    }

    private func exchange(
        _ claims: String, header: String? = nil, by secret: String? = nil, at harness: APIHarness? = nil
    ) throws -> HTTPResponse {
        let file = try #require(AssertionTests.file)
        let head = header ?? "{\"alg\":\"RS256\",\"typ\":\"JWT\",\"kid\":\"\(file.keyID)\"}"
        let signed = Base64URL.encode(head.utf8) + [UInt8(ascii: ".")] + Base64URL.encode(claims.utf8)
        let own = try #require(object(Array(file.json.utf8))["private_key"] as? String)
        let signature = try #require(Crypto.signRS256(signed, privateKey: secret ?? own))
        let assertion = String(
            decoding: signed + [UInt8(ascii: ".")] + Base64URL.encode(signature), as: UTF8.self)
        return try present(assertion, at: harness ?? AssertionTests.harness())
    }

    private func present(_ assertion: String, at harness: APIHarness) throws -> HTTPResponse {
        let grant = "urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer"
        return try #require(
            harness.route(.post, "/token", "assertion=\(assertion)&grant_type=\(grant)", bearer: nil).response
        )
    }

    private func text(_ claims: [String: Any]) throws -> String {
        String(decoding: try JSONSerialization.data(withJSONObject: claims), as: UTF8.self)
    }

    private func exchange(_ claims: [String: Any]) throws -> HTTPResponse { try exchange(try text(claims)) }

    @Test("#34 that is right is exchanged for a token that sends")
    func right() throws {
        let harness = try AssertionTests.harness()
        let response = try exchange(try text(good()), at: harness)
        let reply = object(response.body)
        #expect(response.status == 200 && reply["token_type"] as? String == "Bearer")
        #expect(reply["expires_in"] as? Int == 3599)
        let token = try #require(reply["access_token"] as? String)
        let path = "/v1/projects/shop/messages:send"
        #expect(harness.route(.post, path, #"{"message":{"topic":"a"}}"#, bearer: token).sent != nil)
        let other = harness.route(
            .post, "/v1/projects/other/messages:send", #"{"message":{"topic":"a"}}"#, bearer: token)
        #expect(error(other.response).status == "PERMISSION_DENIED")
    }

    @Test("#34 may be five minutes early or late", arguments: [-299, 299])
    func skew(seconds: Int) throws {
        var claims = good()
        let issued = seconds > 0 ? AssertionTests.seconds + seconds : AssertionTests.seconds - 3600 + seconds
        claims["iat"] = issued
        claims["exp"] = issued + 3600
        #expect(try exchange(claims).status == 200)
    }

    @Test("#34 may be right by either of two times while the server doubts its clock", arguments: [3, -3])
    func otherTime(days: Int) throws {
        let harness = try AssertionTests.harness()
        let other = AssertionTests.seconds + days * 86_400
        var claims = good()
        (claims["iat"], claims["exp"]) = (other, other + 3600)
        #expect(try exchange(try text(claims), at: harness).status == 400)
        harness.api.otherTime = { WallTime(milliseconds: Int64(other) * 1000) }
        #expect(try exchange(try text(claims), at: harness).status == 200)
        #expect(try exchange(try text(good()), at: harness).status == 200)
        (claims["iat"], claims["exp"]) = (other - 7200, other - 3600)
        #expect(try exchange(try text(claims), at: harness).status == 400)
    }

    @Test(
        "#34 that is wrong in one claim is refused",
        arguments: [
            ("iss", "\"someone@else\""), ("iss", "7"), ("aud", "\"https://oauth2.example/token\""),
            ("aud", "[\"https://oauth2.googleapis.com/token\"]"), ("exp", "1799999699"),
            ("exp", "1800003901"),
            ("iat", "1800000301"), ("iat", "1799990000"), ("exp", "null"), ("iat", "\"1800000000\""),
            ("iat", "-9223372036854775808"), ("exp", "9223372036854775807"), ("exp", "18446744073709551615"),
            ("exp", "1e300"), ("exp", "1800000000"),
        ])
    func wrong(claim: String, value: String) throws {
        // Of two fields with one name the later counts, so this claim replaces the good one.
        let text = String(
            decoding: try JSONSerialization.data(withJSONObject: good()), as: UTF8.self)
        let response = try exchange(text.dropLast() + ",\"\(claim)\":\(value)}")
        #expect(response.status == 400)
        #expect(object(response.body)["error"] as? String == "invalid_grant", "\(claim): \(value)")
    }

    @Test("#34 whose two times are as far apart as can be is refused, not computed with")
    func extremes() throws {
        var claims = good()
        claims["iat"] = Int64.min
        claims["exp"] = Int64.max
        #expect(object(try exchange(claims).body)["error"] as? String == "invalid_grant")
    }

    @Test("that asks for neither scope is refused")
    func scopes() throws {
        var claims = good()
        claims["scope"] = "https://www.googleapis.com/auth/datastore"
        #expect(object(try exchange(claims).body)["error"] as? String == "invalid_scope")
        claims["scope"] = "https://www.googleapis.com/auth/firebase.messaging"
        #expect(try exchange(claims).status == 200)
        claims["scope"] = nil
        #expect(object(try exchange(claims).body)["error"] as? String == "invalid_scope")
    }

    @Test(
        "whose header asks for another algorithm or for what is not understood is refused",
        arguments: [
            "\"alg\":\"none\"", "\"alg\":\"HS256\"", "\"alg\":\"RS512\"", "\"alg\":7", "\"x\":1",
            "\"alg\":\"RS256\",\"crit\":[\"exp\"]", "\"alg\":\"RS256\",\"crit\":[]",
        ])
    func headers(fields: String) throws {
        let kid = try #require(AssertionTests.file).keyID
        let claims = String(decoding: try JSONSerialization.data(withJSONObject: good()), as: UTF8.self)
        let response = try exchange(claims, header: "{\"kid\":\"\(kid)\",\(fields)}")
        #expect(object(response.body)["error"] as? String == "invalid_grant")
        for header in ["[]", "{}", "x", "", "{\"alg\":\"RS256\",\"kid\":\"other\"}"] {
            #expect(object(try exchange(claims, header: header).body)["error"] as? String == "invalid_grant")
        }
    }

    // MARK: Without a key's id

    @Test(
        "without kid, as Google's library for Node signs, is tried against its issuer's keys",
        arguments: ["{\"alg\":\"RS256\"}", "{\"alg\":\"RS256\",\"typ\":\"JWT\"}"])
    func noKeyID(header: String) throws {
        // The claims in the order of Google's library for Node.
        let claims =
            "{\"iss\":\"\(try #require(AssertionTests.file).email)\","
            + "\"scope\":\"https://www.googleapis.com/auth/cloud-platform "
            + "https://www.googleapis.com/auth/firebase.messaging\","
            + "\"aud\":\"https://oauth2.googleapis.com/token\",\"exp\":1800003600,\"iat\":1800000000}"
        let response = try exchange(claims, header: header)
        #expect(response.status == 200, "\(String(decoding: response.body, as: UTF8.self))")
        #expect(object(response.body)["access_token"] is String)
    }

    @Test("without kid is tried against each key of its issuer, and against nobody else's")
    func severalKeys() throws {
        let (file, spare) = (try #require(AssertionTests.file), try #require(AssertionTests.spare))
        let harness = try AssertionTests.harness()
        let header = "{\"alg\":\"RS256\"}"
        let claims = try text(good())
        harness.api.directory.accounts["other"] = .init(
            project: ProjectNumber(6), email: "other@x", publicKey: spare.open)
        var response = try exchange(claims, header: header, by: spare.secret, at: harness)
        #expect(object(response.body)["error_description"] as? String == "Invalid JWT Signature.")
        harness.api.directory.accounts["spare"] = .init(
            project: harness.project.number, email: file.email, publicKey: spare.open)
        response = try exchange(claims, header: header, by: spare.secret, at: harness)
        #expect(response.status == 200)
        #expect(try exchange(claims, header: header, at: harness).status == 200)
        harness.api.directory.accounts["spare"] = nil
        response = try exchange(claims, header: header, by: spare.secret, at: harness)
        #expect(object(response.body)["error"] as? String == "invalid_grant", "the key was taken away")
    }

    @Test("without kid is refused where its issuer is nobody", arguments: ["\"who@x\"", "7", "null", "\"\""])
    func unknownIssuer(issuer: String) throws {
        let claims: String = try text(good()).dropLast() + ",\"iss\":\(issuer)}"
        let response = try exchange(claims, header: "{\"alg\":\"RS256\"}")
        #expect(response.status == 400 && object(response.body)["error"] as? String == "invalid_grant")
    }

    @Test("with a kid that is not known is not tried against other keys")
    func wrongKeyID() throws {
        let response = try exchange(try text(good()), header: "{\"alg\":\"RS256\",\"kid\":\"x\"}")
        #expect(object(response.body)["error"] as? String == "invalid_grant")
    }

    @Test("costs the reading of a key once, however many come")
    func keysAreKept() throws {
        let harness = try AssertionTests.harness()
        for header in [nil, "{\"alg\":\"RS256\"}", nil] {
            #expect(try exchange(try text(good()), header: header, at: harness).status == 200)
        }
        let forged = try #require(AssertionTests.spare).secret
        #expect(try exchange(try text(good()), by: forged, at: harness).status == 400)
        #expect(harness.api.accountKeys.readCount == 1)
    }

    @Test("that is too long is not even split", arguments: [16_385, 30_000])
    func tooLong(count: Int) throws {
        let response = try present(String(repeating: ".", count: count), at: try AssertionTests.harness())
        #expect(object(response.body)["error"] as? String == "invalid_grant")
        #expect(
            object(response.body)["error_description"] as? String
                == "The assertion is longer than 16,384 bytes.")
    }

    // MARK: Other libraries' forms

    @Test(
        "may have fractions of seconds, a list of scopes, and the audiences that Google had before",
        arguments: [
            "\"iat\":1800000000.25,\"exp\":1800003599.75", "\"iat\":1800000000.0,\"exp\":1.8000036e9",
            "\"scope\":[\"https://www.googleapis.com/auth/firebase.messaging\"]",
            "\"scope\":[\"https://x/y\",\"https://www.googleapis.com/auth/cloud-platform https://x\"]",
            "\"aud\":\"https://www.googleapis.com/oauth2/v4/token\"",
            "\"aud\":\"https://accounts.google.com/o/oauth2/token\"",
        ])
    func otherForms(fields: String) throws {
        let response = try exchange(try text(good()).dropLast() + ",\(fields)}")
        #expect(response.status == 200, "\(String(decoding: response.body, as: UTF8.self))")
    }

    @Test("whose list of scopes has neither is refused", arguments: ["[]", "[7]", "[\"a\"]", "{}", "[[]]"])
    func otherScopes(scopes: String) throws {
        let response = try exchange(try text(good()).dropLast() + ",\"scope\":\(scopes)}")
        #expect(object(response.body)["error"] as? String == "invalid_scope")
    }

    @Test("whose claims are no object is refused", arguments: ["", "[]", "7", "{", "{\"iss\":\u{1}}"])
    func noClaims(text: String) throws {
        #expect(object(try exchange(text).body)["error"] as? String == "invalid_grant")
    }

    @Test("a service account's file is in Google's form")
    func file() throws {
        let file = try #require(AssertionTests.file)
        let fields = object(Array(file.json.utf8))
        #expect(fields["type"] as? String == "service_account" && fields["project_id"] as? String == "shop")
        #expect(fields["token_uri"] as? String == AssertionTests.uri)
        #expect(fields["client_email"] as? String == file.email)
        #expect(fields["private_key_id"] as? String == file.keyID && file.keyID.count == 40)
        let key = try #require(fields["private_key"] as? String)
        #expect(key.hasPrefix("-----BEGIN PRIVATE KEY-----\n"))
        #expect(file.key.open.hasPrefix("-----BEGIN PUBLIC KEY-----\n"))
        #expect(!file.json.contains(file.key.open))
    }

    @Test("is taken as Google's libraries of the last ten years sign it")
    func libraries() throws {
        let now = AssertionTests.seconds
        var claims = good()
        // PHP back-dates `iat` by its leeway.
        for (issued, expires) in [(now - 60, now + 3600), (now - 300, now + 3600), (now, now + 3900)] {
            (claims["iat"], claims["exp"]) = (issued, expires)
            #expect(try exchange(claims).status == 200, "\(issued - now) \(expires - now)")
        }
        for (issued, expires) in [
            (now, now + 3901), (now - 10, now - 301), (now + 301, now + 3600), (now, now),
        ] {
            (claims["iat"], claims["exp"]) = (issued, expires)
            #expect(try exchange(claims).status == 400, "\(issued - now) \(expires - now)")
        }
        claims = good()
        for audience in TokenExchange.googleURIs {
            claims["aud"] = audience
            #expect(try exchange(claims).status == 200, "\(audience)")
        }
    }

    @Test("is taken at each of Google's token paths")
    func paths() throws {
        for path in ["/token", "/oauth2/v4/token", "/oauth2/v3/token", "/o/oauth2/token"] {
            let response = try #require(try harness(path))
            #expect(
                response.status == 400
                    && object(response.body)["error"] as? String == "unsupported_grant_type")
        }
    }

    private func harness(_ path: String) throws -> HTTPResponse? {
        try AssertionTests.harness().route(.post, path, "grant_type=x&assertion=y", bearer: nil).response
    }
}
