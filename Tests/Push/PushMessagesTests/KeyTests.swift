import COpenSSL
import Model
import Testing

@testable import PushMessages

@Suite("A key on P-256")
struct KeyTests {
    /// RFC 6979, appendix A.2.5.
    private static let scalar: [UInt8] = [
        0xC9, 0xAF, 0xA9, 0xD8, 0x45, 0xBA, 0x75, 0x16, 0x6B, 0x5C, 0x21, 0x57, 0x67, 0xB1, 0xD6, 0x93, 0x4E,
        0x50, 0xC3, 0xDB, 0x36, 0xE8, 0x9B, 0x12, 0x7B, 0x8A, 0x62, 0x2B, 0x12, 0x0F, 0x67, 0x21,
    ]

    @Test("comes back from its 32 bytes")
    func roundTrip() throws {
        let made = try P256Key.generate()
        let again = try P256Key(privateBytes: made.privateBytes)
        #expect(made.privateBytes.count == 32)
        #expect(again.publicBytes == made.publicBytes && again.privateBytes == made.privateBytes)
        #expect(try P256Key.generate().publicBytes != made.publicBytes)
    }

    @Test("has the public key of RFC 6979's example")
    func publicKey() throws {
        let hex =
            "0460FED4BA255A9D31C961EB74C6356D68C049B8923B61FA6CE669622E60F29FB67903FE1008B8BC99A41AE9E95628BC"
            + "64F2F1B20C2D7E9F5177A3C294D4462299"
        #expect(try P256Key(privateBytes: KeyTests.scalar).publicBytes == Hex.bytes(hex))
    }

    @Test("signs so that the public half verifies, and nothing else does")
    func signature() throws {
        let key = try P256Key(privateBytes: KeyTests.scalar)
        let message = Array("sample".utf8)
        for _ in 0..<300 {
            let signature = try key.sign(message)
            #expect(signature.count == 64)
            #expect(verifies(message, signature: signature, publicBytes: key.publicBytes))
            #expect(!verifies(message + [0], signature: signature, publicBytes: key.publicBytes))
        }
        let other = try P256Key.generate()
        #expect(!verifies(message, signature: try key.sign(message), publicBytes: other.publicBytes))
    }

    /// libcrypto before 3.2 takes a random nonce.
    @Test("signs as RFC 6979 says where libcrypto can", .enabled(if: P256Key.isDeterministic))
    func deterministic() throws {
        let hex =
            "EFD48B2AACB6A8FD1140DD9CD45E81D69D2C877B56AAF991C34D0EA84EAF3716"
            + "F7CB1C942D657C41D436C7A1B6E29F65F3E900DBB9AFF4064DC4AB2F843ACDA8"
        #expect(try P256Key(privateBytes: KeyTests.scalar).sign(Array("sample".utf8)) == Hex.bytes(hex))
    }

    @Test("refuses 0, the curve's order and more, and other lengths")
    func malformed() throws {
        let order: [UInt8] =
            try #require(Hex.bytes("FFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551"))
        let range = PushCryptoError.privateKey("the number is 0 or not below the order of P-256")
        for bytes in [[UInt8](repeating: 0, count: 32), order, [UInt8](repeating: 0xFF, count: 32)] {
            #expect(throws: range) { try P256Key(privateBytes: bytes) }
        }
        for count in [0, 31, 33] {
            #expect(throws: PushCryptoError.privateKey("\(count) bytes, 32 are wanted")) {
                try P256Key(privateBytes: [UInt8](repeating: 1, count: count))
            }
        }
        var last = order
        last[31] -= 1
        #expect(try P256Key(privateBytes: last).privateBytes == last)
        let one = [UInt8](repeating: 0, count: 31) + [1]
        #expect(try P256Key(privateBytes: one).privateBytes == one)
    }

    @Test("is read from PEM: PKCS #8, as Apple gives it, or the older form")
    func pem() throws {
        let key = try P256Key.generate()
        let text = try pemText { PEM_write_bio_PKCS8PrivateKey($0, key.pair, nil, nil, 0, nil, nil) }
        #expect(text.hasPrefix("-----BEGIN PRIVATE KEY-----"))
        #expect(try P256Key(pem: text).privateBytes == key.privateBytes)
        #expect(try P256Key(pem: "\r\nsome text\n" + text).publicBytes == key.publicBytes)
        let older = try pemText {
            PEM_write_bio_PrivateKey_traditional($0, key.pair, nil, nil, 0, nil, nil)
        }
        #expect(older.hasPrefix("-----BEGIN EC PRIVATE KEY-----"))
        #expect(try P256Key(pem: older).privateBytes == key.privateBytes)
    }

    @Test("is not read from another kind of key, a locked key, a public key, or no key")
    func malformedPEM() throws {
        let key = try P256Key.generate()
        let whole = try pemText { PEM_write_bio_PKCS8PrivateKey($0, key.pair, nil, nil, 0, nil, nil) }
        let locked = try pemText {
            PEM_write_bio_PKCS8PrivateKey($0, key.pair, EVP_aes_256_cbc(), "secret", 6, nil, nil)
        }
        let other = try #require(otherCurve())
        defer { EVP_PKEY_free(other) }
        let refusal = PushCryptoError.privateKey("the text holds no private key on P-256 in PEM")
        for text in [
            "", "-----BEGIN PRIVATE KEY-----", String(whole.dropLast(60)), locked,
            try pemText { PEM_write_bio_PUBKEY($0, key.pair) },
            try pemText { PEM_write_bio_PKCS8PrivateKey($0, other, nil, nil, 0, nil, nil) },
        ] {
            #expect(throws: refusal) { try P256Key(pem: text) }
        }
    }
}
