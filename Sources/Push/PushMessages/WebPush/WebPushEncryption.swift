/// Encrypts the body of a Web Push message: RFC 8291 with the coding `aes128gcm` of RFC 8188, one record.
public enum WebPushEncryption {
    /// Each service takes bodies of 4096 bytes (RFC 8030 §7.2); header, delimiter and tag take 103 of these
    /// (RFC 8291 §4).
    public static let plaintextBytesMax = 3993
    public static let saltCount = 16
    static let tagCount = 16
    static let recordSize: UInt32 = 4096
    static let headerCount = saltCount + 4 + 1 + P256Key.publicCount

    /// Returns the body, `plaintext.count` + 103 bytes and the padding. `key` and `salt` (16 random bytes)
    /// must be fresh: with one pair of them, two texts would share key and nonce.
    ///
    /// `padTo`: the padding fills the plaintext to a multiple of so many bytes, at most to 3993 bytes, so
    /// that a push service sees less of a message's length. 0 adds none. Throws `.tooLong` above 3993 bytes.
    public static func encrypt(
        _ plaintext: [UInt8], to receiver: WebPushKeys, padTo: Int = 0, key: P256Key, salt: [UInt8]
    ) throws(PushCryptoError) -> [UInt8] {
        guard plaintext.count <= plaintextBytesMax else {
            throw .tooLong(bytes: plaintext.count, limit: plaintextBytesMax)
        }
        precondition(salt.count == saltCount, "a salt has 16 bytes")
        let keys = try RecordKeys(
            shared: try key.agree(with: receiver.point), auth: receiver.auth, receiver: receiver.p256dh,
            sender: key.publicBytes, salt: salt)
        var record = plaintext
        // 2 ends the last record (RFC 8188 §2), and zeros pad.
        record.append(2)
        record.append(contentsOf: repeatElement(0, count: padding(plaintext.count, to: padTo)))

        var body: [UInt8] = []
        body.reserveCapacity(headerCount + record.count + tagCount)
        body += salt
        withUnsafeBytes(of: recordSize.bigEndian) { body.append(contentsOf: $0) }
        body.append(UInt8(P256Key.publicCount))
        body += key.publicBytes
        try AESGCM.seal(record, key: keys.contentKey, nonce: keys.nonce, into: &body)
        return body
    }

    private static func padding(_ count: Int, to multiple: Int) -> Int {
        guard multiple > 1, count < plaintextBytesMax else { return 0 }
        let over = count % multiple
        let wanted = over == 0 && count > 0 ? 0 : multiple - over
        return min(wanted, plaintextBytesMax - count)
    }
}

/// Key and nonce of a message's only record (RFC 8291 §3.4, RFC 8188 §2.2 and §2.3).
struct RecordKeys {
    /// 16 bytes.
    var contentKey: [UInt8]
    /// 12 bytes.
    var nonce: [UInt8]

    private static let keyInfo = Array("WebPush: info".utf8) + [0]
    private static let contentKeyInfo = Array("Content-Encoding: aes128gcm".utf8) + [0, 1]
    private static let nonceInfo = Array("Content-Encoding: nonce".utf8) + [0, 1]

    init(
        shared: [UInt8], auth: [UInt8], receiver: [UInt8], sender: [UInt8], salt: [UInt8]
    ) throws(PushCryptoError) {
        let combined = try MAC.hmacSHA256(auth, shared)
        let input = try MAC.hmacSHA256(combined, RecordKeys.keyInfo + receiver + sender + [1])
        try self.init(random: try MAC.hmacSHA256(salt, input))
    }

    /// `random`: HKDF's pseudorandom key, 32 bytes.
    init(random: [UInt8]) throws(PushCryptoError) {
        contentKey = Array(try MAC.hmacSHA256(random, RecordKeys.contentKeyInfo)[..<16])
        nonce = Array(try MAC.hmacSHA256(random, RecordKeys.nonceInfo)[..<12])
    }
}
