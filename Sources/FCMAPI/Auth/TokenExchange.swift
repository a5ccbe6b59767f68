import HTTPMessages
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

    /// What Google's libraries sign as the audience, whatever `token_uri` says; the older two are of clients
    /// that were never updated.
    private static let googleAudiences: Set<String> = [
        "https://oauth2.googleapis.com/token", "https://www.googleapis.com/oauth2/v4/token",
        "https://accounts.google.com/o/oauth2/token",
    ]

    let directory: Directory
    /// The `aud` that is taken: this server's token URI as service-account files name it.
    let tokenURIs: Set<String>
    let parser: JSONParser

    /// The project that an assertion speaks for.
    func project(_ form: [String: String], now: WallTime) throws(Failure) -> ProjectNumber {
        guard form["grant_type"] == TokenExchange.grantType else {
            throw Failure(
                code: "unsupported_grant_type", description: "Only the JWT-bearer grant is offered.")
        }
        guard let assertion = form["assertion"] else {
            throw Failure(code: "invalid_request", description: "The assertion is missing.")
        }
        let parts = assertion.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 3, assertion.utf8.count <= 16_384, let head = Base64URL.decode(parts[0]),
            let body = Base64URL.decode(parts[1]), let signature = Base64URL.decode(parts[2])
        else { throw grant("The assertion is no JWT.") }
        let header = try claims(head)
        guard header["alg"] as? String == "RS256" else {
            throw grant("The assertion is not signed with RS256.")
        }
        // An extension that must be understood, and is not (RFC 7515 §4.1.11).
        guard header["crit"] == nil else { throw grant("Invalid JWT: its header has critical extensions.") }
        guard let kid = header["kid"] as? String, let account = directory.accounts[kid] else {
            throw grant("Invalid JWT: the key is not known.")
        }
        let signed = Array(assertion.utf8.prefix(parts[0].count + 1 + parts[1].count))
        guard Crypto.verifyRS256(signed, signature: signature, publicKey: account.publicKey) else {
            throw grant("Invalid JWT Signature.")
        }
        try check(try claims(body), account, now)
        return account.project
    }

    private func check(_ claims: [String: Any], _ account: Directory.ServiceAccount, _ now: WallTime)
        throws(Failure)
    {
        let second = now.milliseconds / 1000
        guard claims["iss"] as? String == account.email else {
            throw grant("The issuer is not the key's account.")
        }
        guard let audience = claims["aud"] as? String,
            tokenURIs.contains(audience) || TokenExchange.googleAudiences.contains(audience)
        else {
            throw grant("Invalid JWT: the audience is not this server's token URI.")
        }
        guard let issued = claims["iat"] as? Int64, let expires = claims["exp"] as? Int64 else {
            throw grant("Invalid JWT: iat and exp are needed.")
        }
        guard expires > second - TokenExchange.skew, issued <= second + TokenExchange.skew else {
            throw grant(
                "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe.")
        }
        let (lifetime, isBeyond) = expires.subtractingReportingOverflow(issued)
        guard !isBeyond, lifetime <= 3600, lifetime > 0 else {
            throw grant("Invalid JWT: it lives for more than an hour.")
        }
        let asked = Set((claims["scope"] as? String ?? "").split(separator: " ").map(String.init))
        guard !asked.isDisjoint(with: TokenExchange.scopes) else {
            throw Failure(
                code: "invalid_scope",
                description: "Neither firebase.messaging nor cloud-platform was asked for.")
        }
    }

    private func grant(_ description: String) -> Failure {
        Failure(code: "invalid_grant", description: description)
    }

    /// The strings and whole numbers of a JSON object; `true` for what is neither, so that it is seen to be
    /// there.
    private func claims(_ bytes: [UInt8]) throws(Failure) -> [String: any Sendable] {
        guard let object = try? parser.parse(bytes), object.kind == .object else {
            throw grant("The assertion is no JWT.")
        }
        var claims: [String: any Sendable] = [:]
        try? object.forEachField { (name, value) throws(APIError) in
            let key = String(decoding: name, as: UTF8.self)
            claims[key] = nil
            if let text = value.text {
                claims[key] = text
            } else if let number = value.integer {
                claims[key] = number
            } else {
                claims[key] = true
            }
        }
        return claims
    }
}
