import Credentials
import Model

/// The OAuth 2 JWT-bearer exchange (RFC 7523) as Google's libraries speak it.
struct TokenExchange {
    static let skew: Int64 = 300
    static let grantType = "urn:ietf:params:oauth:grant-type:jwt-bearer"
    private static let scopes: Set<String> = [
        "https://www.googleapis.com/auth/firebase.messaging",
        "https://www.googleapis.com/auth/cloud-platform",
    ]

    struct Failure: Error {
        var code: String
        var description: String
    }

    /// The token URIs that Google's libraries have had since 2014. They sign these audiences, and most ask
    /// these paths, whatever `token_uri` says (`docs/admin-sdks.md` has which library asks which).
    static let googleURIs: Set<String> = [
        "https://oauth2.googleapis.com/token", "https://www.googleapis.com/oauth2/v4/token",
        "https://www.googleapis.com/oauth2/v3/token", "https://accounts.google.com/o/oauth2/token",
    ]
    /// Seconds for which an assertion may be valid, but for the leeway: Google's library for PHP back-dates
    /// `iat` by a minute, and sets `exp` to an hour from now.
    private static let lifetimeMax: Int64 = 3600

    /// The longest assertion, in bytes; Google's libraries make about 800.
    static let assertionBytesMax = 16_384

    let directory: Directory
    let keys: AccountKeys
    /// The accepted values of `aud`: this server's token URI as service-account files name it.
    let tokenURIs: Set<String>
    let parser: JSONParser

    /// The value of a claim or of a header's field; `other` is of no use here.
    private enum Claim {
        case text(String)
        case second(Int64)
        case list([String])
        case other

        var text: String? { if case .text(let text) = self { text } else { nil } }
        var second: Int64? { if case .second(let second) = self { second } else { nil } }
    }
    private typealias Claims = [String: Claim]

    /// The key that has signed the assertion, and its account. `other`: another time that may be right.
    func signer(
        _ form: Form?, now: WallTime, or other: WallTime?
    ) throws(Failure) -> (key: String, account: Directory.ServiceAccount) {
        guard let form else {
            throw Failure(code: "invalid_request", description: "The form is too long.")
        }
        guard form["grant_type"] == TokenExchange.grantType else {
            throw Failure(
                code: "unsupported_grant_type", description: "Only the JWT-bearer grant is offered.")
        }
        guard let assertion = form["assertion"] else {
            throw Failure(code: "invalid_request", description: "The assertion is missing.")
        }
        guard assertion.utf8.count <= TokenExchange.assertionBytesMax else {
            throw grant("The assertion is longer than 16,384 bytes.")
        }
        let parts = assertion.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 3, let head = Base64URL.decode(parts[0]),
            let body = Base64URL.decode(parts[1]), let signature = Base64URL.decode(parts[2])
        else { throw grant("The assertion is not a JWT.") }
        let header = try claims(head)
        guard header["alg"]?.text == "RS256" else {
            throw grant("The assertion is not signed with RS256.")
        }
        // `crit` names extensions that the reader must understand, and this reader understands none
        // (RFC 7515 §4.1.11).
        guard header["crit"] == nil else { throw grant("Invalid JWT: its header has critical extensions.") }
        let claims = try claims(body)
        let signed = Array(assertion.utf8.prefix(parts[0].count + 1 + parts[1].count))
        let (key, account) = try signer(header, claims, now: now) {
            $0.verifies(signed, signature: signature)
        }
        try check(claims, account, at: [now] + (other.map { [$0] } ?? []))
        return (key, account)
    }

    /// Finds the key that has signed. RFC 7523 demands no `kid`, and Google's library for Node sends none:
    /// then each key of the issuer is tried.
    private func signer(
        _ header: Claims, _ claims: Claims, now: WallTime, verifies: (PublicKey) -> Bool
    ) throws(Failure) -> (String, Directory.ServiceAccount) {
        var ids: [String] = []
        if let kid = header["kid"] {
            guard let id = kid.text, let account = directory.accounts[id] else {
                throw grant("Invalid JWT: the key is not known.")
            }
            guard now.isBefore(account.end) else { throw grant("Invalid JWT: the key has expired.") }
            ids = [id]
        } else if let issuer = claims["iss"]?.text {
            ids = keys.ids(of: issuer, in: directory, now: now)
        }
        guard !ids.isEmpty else { throw grant("Invalid grant: account not found.") }
        for id in ids {
            guard let account = directory.accounts[id], let key = keys.key(id, of: account), verifies(key)
            else { continue }
            return (id, account)
        }
        throw grant("Invalid JWT Signature.")
    }

    private func check(
        _ claims: Claims, _ account: Directory.ServiceAccount, at times: [WallTime]
    ) throws(Failure) {
        guard claims["iss"]?.text == account.email else {
            throw grant("The issuer is not the key's account.")
        }
        guard let audience = claims["aud"]?.text,
            tokenURIs.contains(audience) || TokenExchange.googleURIs.contains(audience)
        else {
            throw grant("Invalid JWT: the audience is not this server's token URI.")
        }
        guard let issued = claims["iat"]?.second, let expires = claims["exp"]?.second else {
            throw grant("Invalid JWT: iat and exp are needed.")
        }
        let isCurrent = times.contains { time in
            let second = time.milliseconds / 1000
            return expires > second - TokenExchange.skew && issued <= second + TokenExchange.skew
        }
        guard isCurrent else {
            throw grant(
                "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe.")
        }
        let (lifetime, isBeyond) = expires.subtractingReportingOverflow(issued)
        guard !isBeyond, lifetime <= TokenExchange.lifetimeMax + TokenExchange.skew, lifetime > 0 else {
            throw grant("Invalid JWT: it lives for more than an hour.")
        }
        guard !scopes(claims["scope"]).isDisjoint(with: TokenExchange.scopes) else {
            throw Failure(
                code: "invalid_scope",
                description: "The scope has neither firebase.messaging nor cloud-platform.")
        }
    }

    /// The scopes, separated by spaces (RFC 6749 §3.3), or in a list, as some libraries send them.
    private func scopes(_ claim: Claim?) -> Set<String> {
        switch claim {
        case .text(let text): Set(text.split(separator: " ").map(String.init))
        case .list(let list): Set(list.flatMap { $0.split(separator: " ").map(String.init) })
        default: []
        }
    }

    private func grant(_ description: String) -> Failure {
        Failure(code: "invalid_grant", description: description)
    }

    private static let wanted: [StaticString] = [
        "alg", "crit", "kid", "iss", "aud", "iat", "exp", "scope",
    ]

    /// The `wanted` fields of a JSON object. Of a repeated name the last field counts.
    private func claims(_ bytes: [UInt8]) throws(Failure) -> Claims {
        guard let object = try? parser.parse(bytes), object.kind == .object else {
            throw grant("The assertion is not a JWT.")
        }
        var claims: Claims = [:]
        try? object.forEachField { (name, value) throws(APIError) in
            guard let name = TokenExchange.wanted.first(where: { Schema.equal(name, $0) }) else { return }
            claims[name.description] = TokenExchange.claim(value)
        }
        return claims
    }

    /// A time is a number of seconds, which may have a fraction (RFC 7519 §2, NumericDate).
    private static func claim(_ value: JSONValue) -> Claim {
        if let text = value.text { return .text(text) }
        if let number = value.integer { return .second(number) }
        if let number = value.number, let whole = Int64(exactly: number.rounded(.down)) {
            return .second(whole)
        }
        return value.kind == .array ? .list(value.elements.compactMap(\.text)) : .other
    }
}
