import Credentials
import Model
import RegistrationIDs

/// The token that `POST /token` gives: `tca.` and base64url of the project (4 bytes), the end (8 bytes,
/// milliseconds), the id of the service account's key, and 16 bytes of HMAC-SHA256 over all of these.
struct AccessToken: Hashable {
    /// Seconds.
    static let lifetime = CredentialBook.accessTokenLifetime / 1000
    private static let prefix = Array("tca.".utf8)
    private static let sealBytes = 16
    private static let headBytes = 12
    /// The longest id of a key, in bytes.
    private static let keyBytesMax = 64

    var project: ProjectNumber
    var key: String
    var end: WallTime

    init(project: ProjectNumber, key: String, end: WallTime) {
        self.project = project
        self.key = key
        self.end = end
    }

    func signed(with signingKey: [UInt8]) -> [UInt8] {
        var body: [UInt8] = []
        withUnsafeBytes(of: project.rawValue.bigEndian) { body.append(contentsOf: $0) }
        withUnsafeBytes(of: end.milliseconds.bigEndian) { body.append(contentsOf: $0) }
        body += key.utf8.prefix(AccessToken.keyBytesMax)
        body += HMACSHA256.of(signingKey, body)[..<AccessToken.sealBytes]
        return AccessToken.prefix + Base64URL.encode(body)
    }

    /// Whether the bearer has the form of an access token of a Tidecast server.
    static func isMarked(_ token: ArraySlice<UInt8>) -> Bool { token.starts(with: prefix) }

    /// `nil` if the token was not signed with this key.
    init?(_ token: ArraySlice<UInt8>, signedWith signingKey: [UInt8]) {
        guard token.starts(with: AccessToken.prefix),
            token.count <= (AccessToken.headBytes + AccessToken.keyBytesMax + AccessToken.sealBytes) * 2,
            let body = Base64URL.decode(token.dropFirst(AccessToken.prefix.count)),
            body.count > AccessToken.headBytes + AccessToken.sealBytes
        else { return nil }
        let said = body.dropLast(AccessToken.sealBytes)
        let seal = HMACSHA256.of(signingKey, Array(said))[..<AccessToken.sealBytes]
        let shown = body.suffix(AccessToken.sealBytes)
        guard Crypto.equal(seal.span, shown.span) else { return nil }
        let number = body[..<4].reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
        let until = body[4..<AccessToken.headBytes].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        guard number < ProjectNumber.limit else { return nil }
        project = ProjectNumber(number)
        end = WallTime(milliseconds: Int64(bitPattern: until))
        key = String(decoding: said.dropFirst(AccessToken.headBytes), as: UTF8.self)
    }

    /// Whether the key that the token was got with still counts.
    func isTaken(_ directory: Directory, now: WallTime) -> Bool {
        guard let account = directory.accounts[key] else { return false }
        return account.project == project && now.isBefore(account.end)
    }
}
