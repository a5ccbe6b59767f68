import Credentials
import Model
import RegistrationIDs

/// The auth token that an app gets for its installation: `tci.` and base64url of four parts. These are the
/// FID (22 bytes), the part of the registration token behind the colon (22), the end (8, in milliseconds),
/// and 16 bytes of HMAC-SHA256 over the other three. Each node checks the token alone.
///
/// Source: the Firebase Installations API; an SDK asks for another token an hour before the end.
struct InstallationToken: Hashable {
    /// Seconds.
    static let lifetime: Int64 = 604_800
    private static let prefix = Array("tci.".utf8)
    private static let sealBytes = 16
    private static let idBytes = 22
    private static let bodyBytes = 2 * idBytes + 8

    /// As the device's registration token has it.
    var fid: [UInt8]
    var proof: [UInt8]
    var end: WallTime

    var registrationToken: [UInt8] { fid + [UInt8(ascii: ":")] + proof }

    init(fid: [UInt8], proof: [UInt8], now: WallTime) {
        self.fid = fid
        self.proof = proof
        end = WallTime(milliseconds: now.milliseconds + InstallationToken.lifetime * 1000)
    }

    /// `nil` if the text is no registration token.
    init?(registrationToken text: [UInt8], now: WallTime) {
        guard text.count == 2 * InstallationToken.idBytes + 1,
            text[InstallationToken.idBytes] == UInt8(ascii: ":")
        else { return nil }
        self.init(
            fid: Array(text.prefix(InstallationToken.idBytes)),
            proof: Array(text.suffix(InstallationToken.idBytes)), now: now)
    }

    private static func seal(_ body: [UInt8], _ key: [UInt8]) -> [UInt8] {
        // The prefix counts, so that no token of one kind is a token of another.
        Array(HMACSHA256.of(key, prefix + body)[..<sealBytes])
    }

    func signed(with key: [UInt8]) -> [UInt8] {
        var body = fid + proof
        withUnsafeBytes(of: end.milliseconds.bigEndian) { body.append(contentsOf: $0) }
        body += InstallationToken.seal(body, key)
        return InstallationToken.prefix + Base64URL.encode(body)
    }

    /// `nil` if the token was not signed with this key. The caller checks the end.
    init?(_ token: some Collection<UInt8>, signedWith key: [UInt8]) {
        let whole = InstallationToken.bodyBytes + InstallationToken.sealBytes
        guard token.starts(with: InstallationToken.prefix), token.count <= 2 * whole,
            let body = Base64URL.decode(token.dropFirst(InstallationToken.prefix.count)),
            body.count == whole
        else { return nil }
        let said = Array(body.prefix(InstallationToken.bodyBytes))
        let seal = InstallationToken.seal(said, key)
        let shown = body.suffix(InstallationToken.sealBytes)
        guard Crypto.equal(seal.span, shown.span) else { return nil }
        fid = Array(said[..<InstallationToken.idBytes])
        proof = Array(said[InstallationToken.idBytes..<2 * InstallationToken.idBytes])
        let until = said[(2 * InstallationToken.idBytes)...].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        end = WallTime(milliseconds: Int64(bitPattern: until))
    }
}

/// What an app keeps of its installation to get new auth tokens: the device's credential, a dot, and the part
/// of its registration token behind the colon.
struct RefreshToken {
    var credential: [UInt8]
    var proof: [UInt8]

    init(credential: [UInt8], proof: [UInt8]) {
        self.credential = credential
        self.proof = proof
    }

    init?(_ text: some Collection<UInt8>) {
        let parts = text.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 2, parts.allSatisfy({ $0.count == 22 }) else { return nil }
        (credential, proof) = (Array(parts[0]), Array(parts[1]))
    }

    var text: [UInt8] { credential + [UInt8(ascii: ".")] + proof }
}
