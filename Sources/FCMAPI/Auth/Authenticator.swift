import HTTPMessages
import Model

/// On whose behalf a request speaks.
public enum Principal: Hashable, Sendable {
    /// An operator on the admin socket, or the development server's `owner`: every project.
    case owner
    case project(ProjectNumber)
}

/// Decides who a request's bearer is.
///
/// Access tokens are signed by the server and checked without asking anybody; keys are looked up by their
/// hash. What was verified is kept for a while, because a backend sends the same token with every message.
/// Confined to one loop.
final class Authenticator {
    /// Tokens that were verified lately; a handful of backends speak to one loop at a time.
    static let cacheMax = 16
    static let tokenLifetime: Int64 = 3600

    private let signingKey: [UInt8]
    private let isDev: Bool
    private struct Verified {
        var token: [UInt8]
        var principal: Principal
        var until: Int64
    }
    private var verified: [Verified] = []
    private var nextPlace = 0

    init(signingKey: [UInt8], isDev: Bool) {
        self.signingKey = signingKey
        self.isDev = isDev
    }

    /// The directory changed: what was verified under the old one counts no more.
    func forget() { verified.removeAll(keepingCapacity: true) }

    /// `nil` where nobody is shown to speak.
    func principal(_ request: HTTPRequest, _ directory: Directory, now: WallTime) -> Principal? {
        guard let field = request.fields["authorization"], let token = Authenticator.bearer(field) else {
            return nil
        }
        let known = token.withUnsafeBufferPointer { token in
            verified.first { entry in
                entry.token.count == token.count && entry.until > now.milliseconds
                    && entry.token.withUnsafeBufferPointer { Crypto.equal($0, token) }
            }
        }
        if let known { return known.principal }
        guard let (principal, until) = verify(token, directory, now) else { return nil }
        let entry = Verified(token: Array(token), principal: principal, until: until)
        if verified.count < Authenticator.cacheMax {
            verified.append(entry)
        } else {
            verified[nextPlace] = entry
            nextPlace = (nextPlace + 1) % Authenticator.cacheMax
        }
        return principal
    }

    /// The token of `Bearer TOKEN`, the scheme in any case (RFC 9110 §11.1).
    static func bearer(_ field: ArraySlice<UInt8>) -> ArraySlice<UInt8>? {
        let scheme: StaticString = "bearer "
        let count = scheme.utf8CodeUnitCount
        guard field.count > count else { return nil }
        for place in 0..<count where field[field.startIndex + place] | 0x20 != scheme.utf8Start[place] {
            return nil
        }
        return field.dropFirst(count)
    }

    private func verify(
        _ token: ArraySlice<UInt8>, _ directory: Directory, _ now: WallTime
    ) -> (principal: Principal, until: Int64)? {
        let soon = now.milliseconds + 60_000
        if isDev, token.elementsEqual("owner".utf8) { return (.owner, soon) }
        if let (project, until) = readAccessToken(token), until > now.milliseconds {
            return directory.byNumber[project].map { _ in (.project(project), min(until, soon)) }
        }
        if let key = directory.keys[KeyHash.of(token)], key.kind == .bearer {
            return (.project(key.project), soon)
        }
        return nil
    }

    // MARK: Access tokens

    private static let prefix = Array("tca.".utf8)

    /// `tca.` and base64url of project (4 bytes), expiry (8 bytes, milliseconds) and 16 bytes of HMAC-SHA256
    /// over both.
    func makeAccessToken(_ project: ProjectNumber, now: WallTime) -> (token: [UInt8], expiresIn: Int64) {
        let until = now.milliseconds + Authenticator.tokenLifetime * 1000
        var body: [UInt8] = []
        withUnsafeBytes(of: project.rawValue.bigEndian) { body.append(contentsOf: $0) }
        withUnsafeBytes(of: until.bigEndian) { body.append(contentsOf: $0) }
        body += Crypto.hmacSHA256(signingKey, body)[..<16]
        return (Authenticator.prefix + Base64URL.encode(body), Authenticator.tokenLifetime - 1)
    }

    private func readAccessToken(_ token: ArraySlice<UInt8>) -> (ProjectNumber, Int64)? {
        guard token.starts(with: Authenticator.prefix),
            let body = Base64URL.decode(token.dropFirst(Authenticator.prefix.count)), body.count == 28,
            Crypto.equal(Crypto.hmacSHA256(signingKey, Array(body[..<12]))[..<16], body[12...])
        else { return nil }
        let number = body[..<4].reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
        let until = body[4..<12].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        guard number < ProjectNumber.limit else { return nil }
        return (ProjectNumber(number), Int64(bitPattern: until))
    }
}
