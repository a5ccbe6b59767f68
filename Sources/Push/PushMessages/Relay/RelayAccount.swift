import CSimdjson
import Model

/// The service account with which a server relays to a Firebase project, as it asks for access tokens
/// (RFC 7523 §2.1; Google, "Using OAuth 2.0 for Server to Server Applications").
public struct RelayAccount: Sendable {
    public static let scope = "https://www.googleapis.com/auth/firebase.messaging"
    /// Seconds for which an assertion counts; Google takes an hour at most.
    static let assertionSeconds: Int64 = 3600
    /// The token's host must not find a time that lies ahead.
    static let slackSeconds: Int64 = 5

    public let key: RSAKey
    public let keyID: String
    public let email: String
    public let tokenURI: String

    public init(key: RSAKey, keyID: String, email: String, tokenURI: String) {
        self.key = key
        self.keyID = keyID
        self.email = email
        self.tokenURI = tokenURI
    }

    /// The body of the request for an access token, `application/x-www-form-urlencoded`.
    public func request(now: WallTime) throws(PushCryptoError) -> [UInt8] {
        let issued = now.milliseconds / 1000 - RelayAccount.slackSeconds
        let header = "{\"alg\":\"RS256\",\"typ\":\"JWT\",\"kid\":\(CompactJWT.quoted(keyID))}"
        let claims =
            "{\"iss\":\(CompactJWT.quoted(email)),\"scope\":\"\(RelayAccount.scope)\","
            + "\"aud\":\(CompactJWT.quoted(tokenURI)),\"iat\":\(issued),"
            + "\"exp\":\(issued + RelayAccount.assertionSeconds)}"
        let assertion = try CompactJWT.signed(header: header, claims: claims, by: key)
        // Base64url and dots need no escape.
        return Array(
            "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=\(assertion)".utf8)
    }
}

/// What the token's host answers (RFC 6749 §5).
public enum AccessTokenAnswer: Hashable, Sendable {
    /// Google's tokens have up to 2048 bytes.
    static let tokenBytesMax = 2048

    case token(String, seconds: Int64)
    /// The account or its key is refused. The text is for an operator.
    case refused(String)
    case failed(retryAfterSeconds: Int?)
    /// The request had no turn in the client, which is no evidence about the token's host. The text is for an
    /// operator.
    case notTried(String)

    public init(status: Int, body: [UInt8], retryAfter: String?, now: WallTime) {
        if status == 200 {
            self = AccessTokenAnswer.token(in: body) ?? .failed(retryAfterSeconds: nil)
            return
        }
        let wait = RetryAfter.seconds(retryAfter, now: now)
        guard (400..<500).contains(status), ![408, 421, 425, 429].contains(status) else {
            self = .failed(retryAfterSeconds: wait)
            return
        }
        let answer = AnswerBody(body)
        let word = answer.text("/error") ?? answer.text("/error/status") ?? answer.excerpt
        let more = answer.text("/error_description").map { ": \($0)" } ?? ""
        self = .refused("the token's host: \(status) \(word)\(more)")
    }

    private static func token(in body: [UInt8]) -> AccessTokenAnswer? {
        guard !body.isEmpty else { return nil }
        var out = [UInt8](repeating: 0, count: tokenBytesMax + 1)
        let count = tidecast_json_text_at(body, body.count, "/access_token", &out, out.count)
        guard (1...tokenBytesMax).contains(count),
            out[..<count].allSatisfy({ $0 > 0x20 && $0 < 0x7F })
        else { return nil }
        var seconds: Int64 = 0
        guard tidecast_json_integer_at(body, body.count, "/expires_in", &seconds) == 0, seconds > 0 else {
            return nil
        }
        return .token(String(decoding: out[..<count], as: UTF8.self), seconds: seconds)
    }
}
