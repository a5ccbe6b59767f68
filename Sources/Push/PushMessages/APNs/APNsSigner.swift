import COpenSSL
import Model

/// Shows Apple's push service who sends (Apple, "Establishing a token-based connection to APNs").
public struct APNsSigner: Sendable {
    /// A token lives for 40 minutes: Apple wants a new one after 20 minutes at the earliest and after 60 at
    /// the latest.
    public static let periodSeconds: Int64 = 2400
    /// Apple takes no time that lies ahead, and this machine's clock may be a little early.
    static let slackSeconds: Int64 = 5

    public let key: P256Key
    /// 10 characters.
    public let keyID: String
    /// 10 characters.
    public let teamID: String

    public init(key: P256Key, keyID: String, teamID: String) {
        self.key = key
        self.keyID = keyID
        self.teamID = teamID
    }

    /// Why a key's or team's id is none; `nil` if it may be one.
    public static func check(id: String) -> String? {
        let isPlain = id.utf8.allSatisfy { byte in
            (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
                || (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte)
        }
        return isPlain && id.utf8.count == 10
            ? nil : "\"\(id.prefix(20))\" must have 10 capital letters and digits."
    }

    /// `iat` of the token for `now`: seconds since 1970, the same on all nodes for 40 minutes.
    public static func issuedAt(_ now: WallTime, period: Int64 = periodSeconds) -> Int64 {
        (now.milliseconds / 1000 - slackSeconds) / period * period
    }

    /// The value of `authorization`. The caller must keep the value for as long as `issuedAt` is the same:
    /// Apple refuses a connection on which the token changes too often.
    func authorization(issuedAt: Int64) throws(PushCryptoError) -> String {
        let header = "{\"alg\":\"ES256\",\"kid\":\(CompactJWT.quoted(keyID))}"
        let claims = "{\"iss\":\(CompactJWT.quoted(teamID)),\"iat\":\(issuedAt)}"
        return "bearer " + (try CompactJWT.signed(header: header, claims: claims, by: key))
    }
}

extension P256Key {
    /// Reads a private key in PEM, such as Apple's `AuthKey_….p8` (PKCS #8, RFC 5958). Throws `.privateKey`
    /// if the text holds none, or the key is on another curve or locked by a password.
    public convenience init(pem: String) throws(PushCryptoError) {
        let text = Array(pem.utf8)
        let bytes = text.withUnsafeBytes { text -> [UInt8]? in
            guard let bio = BIO_new_mem_buf(text.baseAddress, Int32(clamping: text.count)) else { return nil }
            defer { BIO_free(bio) }
            // Without the callback libcrypto would ask for a password at the terminal.
            guard let key = PEM_read_bio_PrivateKey(bio, nil, { _, _, _, _ in -1 }, nil) else { return nil }
            defer { EVP_PKEY_free(key) }
            return P256Key.scalar(of: key)
        }
        ERR_clear_error()
        guard let bytes else { throw .privateKey("the text holds no private key on P-256 in PEM") }
        try self.init(privateBytes: bytes)
    }

    private static func scalar(of key: OpaquePointer) -> [UInt8]? {
        var name = [CChar](repeating: 0, count: 64)
        var count = 0
        guard EVP_PKEY_get_group_name(key, &name, name.count, &count) == 1,
            name.prefix(count).elementsEqual("prime256v1".utf8.map { CChar($0) })
        else { return nil }
        var scalar: OpaquePointer?
        guard EVP_PKEY_get_bn_param(key, "priv", &scalar) == 1 else { return nil }
        defer { BN_clear_free(scalar) }
        var bytes = [UInt8](repeating: 0, count: privateCount)
        return BN_bn2binpad(scalar, &bytes, Int32(bytes.count)) == bytes.count ? bytes : nil
    }
}
