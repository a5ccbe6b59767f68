import Model
import Testing

@testable import PushMessages

@Suite("Web Push encryption")
struct EncryptionTests {
    private func vectorReceiver() throws -> Receiver {
        Receiver(
            key: try P256Key(privateBytes: try base64("q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94")),
            auth: try base64("BTBZMqHH6r4Tts7J_aSIgg"))
    }
    private func vectorSender() throws -> P256Key {
        try P256Key(privateBytes: try base64("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"))
    }
    private let text = Array("When I grow up, I want to be a watermelon".utf8)

    @Test("makes the body of RFC 8291, appendix A")
    func vector() throws {
        let receiver = try vectorReceiver()
        let sender = try vectorSender()
        let receiverText =
            "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
        let senderText =
            "BP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A8"
        #expect(receiver.key.publicBytes == (try base64(receiverText)))
        #expect(sender.publicBytes == (try base64(senderText)))
        let body = try WebPushEncryption.encrypt(
            text, to: try receiver.keys, padTo: 0, key: sender, salt: try base64("DGv6ra1nlYgDCS1FRnbzlw"))
        let header =
            "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLoc"
            + "InmYWAmS6TlzAC8wEqKK6PBru3jl7A8"
        let sealed = "8pfeW0KbunFT06SuDKoJH9Ql87S1QUrdirN6GcG7sFz1y1sqLgVi1VhjVkHsUoEsbI_0LpXMuGvnzQ"
        #expect(body == (try base64(header) + base64(sealed)))
        #expect(body.count == 144)
        #expect(try receiver.open(body) == text)
    }

    @Test("comes to the intermediate values of RFC 8291, appendix A")
    func intermediate() throws {
        let receiver = try vectorReceiver()
        let sender = try vectorSender()
        let shared = try base64("kyrL1jIIOHEzg3sM2ZWRHDRB62YACZhhSlknJ672kSs")
        #expect(try sender.agree(with: P256Point(receiver.key.publicBytes)) == shared)
        #expect(try receiver.key.agree(with: P256Point(sender.publicBytes)) == shared)
        let keys = try RecordKeys(
            shared: shared, auth: receiver.auth, receiver: receiver.key.publicBytes,
            sender: sender.publicBytes, salt: try base64("DGv6ra1nlYgDCS1FRnbzlw"))
        #expect(keys.contentKey == (try base64("oIhVW04MRdy2XN9CiKLxTg")))
        #expect(keys.nonce == (try base64("4h_95klXJ5E_qnoN")))
    }

    /// The coding of RFC 8188 §3.1, where the key is given: the derivation below Web Push's own.
    @Test("derives key and nonce so that RFC 8188's example can be read")
    func coding() throws {
        let body = try base64("I1BsxtFttlv3u_Oo94xnmwAAEAAA-NAVub2qFgBEuQKRapoZu-IxkIva3MEB1PD-ly8Thjg")
        let random = try MAC.hmacSHA256(Array(body[..<16]), try base64("yqdlZ-tYemfogSmv7Ws5PQ"))
        let keys = try RecordKeys(random: random)
        let record = AESGCM.opened(Array(body[21...]), key: keys.contentKey, nonce: keys.nonce)
        #expect(record == Array("I am the walrus".utf8) + [2])
    }

    @Test("is opened by the receiver at all lengths of a seeded choice, and at both ends")
    func lengths() throws {
        var generator = SeededGenerator(seed: 8291)
        let receiver = try Receiver(seed: 1)
        let keys = try receiver.keys
        let some = (0..<200).map { _ in Int.random(in: 1...3993, using: &generator) }
        for count in [0, 1, 2, 15, 16, 17, 3992, 3993] + some {
            let text = (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
            let body = try WebPushEncryption.encrypt(text, to: keys)
            #expect(body.count == count + 103)
            #expect(try receiver.open(body) == text, "\(count) bytes")
        }
    }

    @Test("makes 4096 bytes of the longest text, and refuses a longer one")
    func bound() throws {
        let keys = try Receiver(seed: 2).keys
        #expect(try WebPushEncryption.encrypt([UInt8](repeating: 0, count: 3993), to: keys).count == 4096)
        #expect(throws: PushCryptoError.tooLong(bytes: 3994, limit: 3993)) {
            try WebPushEncryption.encrypt([UInt8](repeating: 0, count: 3994), to: keys)
        }
    }

    @Test(
        "pads to a multiple, and no further than the longest text",
        arguments: [
            (0, 128), (1, 128), (127, 128), (128, 128), (129, 256), (3967, 3968), (3969, 3993), (3993, 3993),
        ])
    func padding(count: Int, padded: Int) throws {
        let receiver = try Receiver(seed: 3)
        let text = [UInt8](repeating: 7, count: count)
        let body = try WebPushEncryption.encrypt(text, to: try receiver.keys, padTo: 128)
        #expect(body.count == padded + 103)
        #expect(try receiver.open(body) == text)
    }

    @Test("leaves nothing that another browser, or a changed body, could be opened with")
    func sealed() throws {
        let receiver = try Receiver(seed: 5)
        var body = try WebPushEncryption.encrypt(text, to: try receiver.keys)
        #expect(try Receiver(seed: 6).open(body) == nil)
        #expect(try Receiver(key: receiver.key, auth: Array(repeating: 0, count: 16)).open(body) == nil)
        body[body.count - 20] ^= 1
        #expect(try receiver.open(body) == nil)
    }

    @Test("refuses keys that are no point, no uncompressed point, or of a wrong length, and names the field")
    func malformedKeys() throws {
        let good = try Receiver(seed: 7)
        var off = good.key.publicBytes
        off[64] ^= 1
        let compressed = [2 + (good.key.publicBytes[64] & 1)] + good.key.publicBytes[1..<33]
        var hybrid = good.key.publicBytes
        hybrid[0] = 6 + (hybrid[64] & 1)
        // X and Y of a whole field's bytes and more: not below the prime.
        let large = [4] + [UInt8](repeating: 0xFF, count: 64)
        for (p256dh, reason) in [
            (off, "the point is not on P-256"), (large, "the point is not on P-256"),
            ([4] + [UInt8](repeating: 0, count: 64), "the point is not on P-256"),
            (hybrid, "the first byte must be 4: an uncompressed point"),
            ([0], "1 bytes, 65 are wanted"), ([], "0 bytes, 65 are wanted"),
            (compressed, "33 bytes, 65 are wanted"), (off + [0], "66 bytes, 65 are wanted"),
            (off.dropLast(), "64 bytes, 65 are wanted"),
        ] {
            #expect(throws: PushCryptoError.p256dh(reason)) {
                try WebPushKeys(p256dh: p256dh, auth: good.auth)
            }
        }
        for count in [0, 15, 17, 32] {
            #expect(throws: PushCryptoError.auth("\(count) bytes, 16 are wanted")) {
                try WebPushKeys(p256dh: good.key.publicBytes, auth: [UInt8](repeating: 1, count: count))
            }
        }
    }
}
