import COpenSSL
import Model

/// The two halves of a service account's key.
public struct ServiceAccountKey: Sendable {
    /// PKCS #8 in PEM.
    let secret: String
    /// SubjectPublicKeyInfo in PEM.
    let open: String

    /// Makes an RSA-2048 key with libcrypto's own randomness. Returns it only after the public half has
    /// verified a signature of the private half. `nil` where libcrypto fails. Takes a while.
    public static func make() -> ServiceAccountKey? {
        guard let key = tidecast_RSA_generate(2048) else { return nil }
        defer { EVP_PKEY_free(key) }
        guard let secret = pem({ PEM_write_bio_PKCS8PrivateKey($0, key, nil, nil, 0, nil, nil) }),
            let open = pem({ PEM_write_bio_PUBKEY($0, key) })
        else { return nil }
        let probe = Array("tidecast".utf8)
        guard let signature = Crypto.signRS256(probe, privateKey: secret),
            let reader = PublicKey(pem: open), reader.verifies(probe, signature: signature)
        else { return nil }
        return ServiceAccountKey(secret: secret, open: open)
    }

    private static func pem(_ write: (OpaquePointer) -> Int32) -> String? {
        guard let bio = BIO_new(BIO_s_mem()) else { return nil }
        defer { BIO_free(bio) }
        guard write(bio) == 1 else { return nil }
        var text: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4096)
        while true {
            let count = BIO_read(bio, &buffer, Int32(buffer.count))
            guard count > 0 else { break }
            text += buffer[..<Int(count)]
        }
        return String(decoding: text, as: UTF8.self)
    }
}

/// A new service account's key: the file that Google's libraries read, and the parts of it that the server
/// keeps.
public struct ServiceAccountFile: Sendable {
    public var keyID: String
    public var email: String
    /// SubjectPublicKeyInfo in PEM.
    public var publicKey: String
    /// The whole file, with the private key in PKCS #8.
    public var json: String

    /// The bytes of a key's id.
    public static let keyIDCount = 20

    /// `keyID`: 20 random bytes.
    public static func make(
        project: Project, tokenURI: String, key: ServiceAccountKey, keyID: [UInt8]
    ) -> ServiceAccountFile {
        let keyID = Hex.text(keyID)
        let email = "tidecast@\(project.id).iam.gserviceaccount.com"
        var out = JSONWriter(capacity: 4096)
        out.beginObject()
        out.field("type", "service_account")
        out.field("project_id", project.id)
        out.field("private_key_id", keyID)
        out.field("private_key", key.secret)
        out.field("client_email", email)
        out.field("client_id", "\(project.number.rawValue)")
        out.field("auth_uri", "https://accounts.google.com/o/oauth2/auth")
        out.field("token_uri", tokenURI)
        out.field("universe_domain", "googleapis.com")
        out.endObject()
        return ServiceAccountFile(
            keyID: keyID, email: email, publicKey: key.open, json: String(decoding: out.bytes, as: UTF8.self))
    }
}
