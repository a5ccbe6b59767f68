import COpenSSL
import Model
import Testing

@testable import PushMessages

func base64(_ text: String) throws -> [UInt8] { try #require(Base64URL.decode(Array(text.utf8))) }

/// A browser's side: opens what a server sealed for its key.
struct Receiver {
    let key: P256Key
    let auth: [UInt8]

    var keys: WebPushKeys { get throws { try WebPushKeys(p256dh: key.publicBytes, auth: auth) } }

    init(key: P256Key, auth: [UInt8]) {
        self.key = key
        self.auth = auth
    }

    init(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        // The first byte is 1, so that the number is below the curve's order.
        key = try P256Key(
            privateBytes: [1] + (1..<32).map { _ in UInt8.random(in: 0...255, using: &generator) })
        auth = (0..<16).map { _ in UInt8.random(in: 0...255, using: &generator) }
    }

    /// The record's plaintext with delimiter and padding; `nil` where the tag is wrong.
    func record(_ body: [UInt8]) throws -> [UInt8]? {
        try #require(body.count >= 86 + 17 && Array(body[16..<21]) == [0, 0, 16, 0, 65])
        let sender = Array(body[21..<86])
        let keys = try RecordKeys(
            shared: try key.agree(with: P256Point(sender)), auth: auth, receiver: key.publicBytes,
            sender: sender,
            salt: Array(body[..<16]))
        return AESGCM.opened(Array(body[86...]), key: keys.contentKey, nonce: keys.nonce)
    }

    func open(_ body: [UInt8]) throws -> [UInt8]? {
        guard let record = try record(body), let end = record.lastIndex(where: { $0 != 0 }) else {
            return nil
        }
        return record[end] == 2 ? Array(record[..<end]) : nil
    }
}

extension AESGCM {
    static func opened(_ sealed: [UInt8], key: [UInt8], nonce: [UInt8]) -> [UInt8]? {
        guard sealed.count >= 16, let context = EVP_CIPHER_CTX_new() else { return nil }
        defer { EVP_CIPHER_CTX_free(context) }
        let text = Array(sealed.dropLast(16))
        var tag = Array(sealed.suffix(16))
        var out = [UInt8](repeating: 0, count: text.count + 16)
        var count: Int32 = 0
        var rest: Int32 = 0
        guard EVP_DecryptInit_ex(context, EVP_aes_128_gcm(), nil, key, nonce) == 1,
            EVP_DecryptUpdate(context, &out, &count, text, Int32(text.count)) == 1,
            EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, 16, &tag) == 1,
            EVP_DecryptFinal_ex(context, &tag, &rest) == 1
        else { return nil }
        return Array(out[..<Int(count)])
    }
}

/// Whether `signature`, r and s, is that of the key with `publicBytes` over `message`.
func verifies(_ message: [UInt8], signature: [UInt8], publicBytes: [UInt8]) -> Bool {
    guard signature.count == 64, let key = tidecast_P256_public(publicBytes, publicBytes.count) else {
        return false
    }
    defer { EVP_PKEY_free(key) }
    guard let parts = ECDSA_SIG_new() else { return false }
    defer { ECDSA_SIG_free(parts) }
    let r = BN_bin2bn(Array(signature[..<32]), 32, nil)
    let s = BN_bin2bn(Array(signature[32...]), 32, nil)
    guard ECDSA_SIG_set0(parts, r, s) == 1 else { return false }
    var der = [UInt8](repeating: 0, count: 80)
    let count = der.withUnsafeMutableBufferPointer { bytes in
        var start = bytes.baseAddress
        return i2d_ECDSA_SIG(parts, &start)
    }
    guard let context = EVP_MD_CTX_new() else { return false }
    defer { EVP_MD_CTX_free(context) }
    return EVP_DigestVerifyInit(context, nil, EVP_sha256(), nil, key) == 1
        && EVP_DigestVerify(context, der, Int(count), message, message.count) == 1
}

/// What `write` writes into a BIO.
func pemText(_ write: (OpaquePointer) -> Int32) throws -> String {
    let bio = try #require(BIO_new(BIO_s_mem()))
    defer { BIO_free(bio) }
    try #require(write(bio) == 1)
    var buffer = [UInt8](repeating: 0, count: 4096)
    let count = BIO_read(bio, &buffer, Int32(buffer.count))
    return String(decoding: buffer[..<Int(max(count, 0))], as: UTF8.self)
}

/// A key on P-384. The caller frees it.
func otherCurve() -> OpaquePointer? {
    guard let context = EVP_PKEY_CTX_new_from_name(nil, "EC", nil) else { return nil }
    defer { EVP_PKEY_CTX_free(context) }
    var key: OpaquePointer?
    guard EVP_PKEY_keygen_init(context) == 1, EVP_PKEY_CTX_set_group_name(context, "P-384") == 1,
        EVP_PKEY_generate(context, &key) == 1
    else { return nil }
    return key
}

extension WebPushEncryption {
    /// Encrypts under a new key, and a salt that follows from the key.
    static func encrypt(
        _ plaintext: [UInt8], to receiver: WebPushKeys, padTo: Int = 0
    ) throws -> [UInt8] {
        let key = try P256Key.generate()
        let salt = Array(key.publicBytes[1...saltCount])
        return try encrypt(plaintext, to: receiver, padTo: padTo, key: key, salt: salt)
    }
}
