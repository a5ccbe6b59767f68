import COpenSSL
import Credentials
import Model

extension ServiceAccountKey {
    /// Creates an RSA-2048 key with libcrypto's own randomness. Returns it only after the public half has
    /// verified a signature of the private half. `nil` if libcrypto fails. Takes a while.
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

extension ServiceAccountFile {
    /// The whole file, with the private key in PKCS #8.
    public var json: String {
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
        return String(decoding: out.bytes, as: UTF8.self)
    }
}
