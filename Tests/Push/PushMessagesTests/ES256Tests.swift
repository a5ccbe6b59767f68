import PushMessages
import Testing

@Suite("Signatures of senders (ES256)")
struct ES256Tests {
    private let message = Array("header.claims".utf8)

    @Test("count for their message and their key alone")
    func verified() throws {
        let key = try P256Key.generate()
        let signature = try key.sign(message)
        #expect(ES256.verifies(signature, of: message, by: key.publicBytes))
        #expect(!ES256.verifies(signature, of: message + [0], by: key.publicBytes))
        #expect(!ES256.verifies(signature, of: message, by: try P256Key.generate().publicBytes))
        for place in signature.indices {
            var changed = signature
            changed[place] ^= 1
            #expect(!ES256.verifies(changed, of: message, by: key.publicBytes))
        }
    }

    @Test("have 64 bytes, and keys are points on the curve")
    func malformed() throws {
        let key = try P256Key.generate()
        let signature = try key.sign(message)
        for bad in [[], Array(signature.dropLast()), signature + [0], [UInt8](repeating: 0, count: 64)] {
            #expect(!ES256.verifies(bad, of: message, by: key.publicBytes))
        }
        #expect(ES256.isKey(key.publicBytes))
        for bad in [
            [], Array(key.publicBytes.dropLast()), key.publicBytes + [0], [2] + key.publicBytes.dropFirst(),
            [4] + [UInt8](repeating: 1, count: 64),
        ] {
            #expect(!ES256.isKey(bad))
            #expect(!ES256.verifies(signature, of: message, by: bad))
        }
    }
}
