import Model
import RegistrationIDs
import Testing

@Suite("Registration ids")
struct RegistrationKeyTests {
    private let keys = RegistrationKeys([
        RegistrationKey(number: 1, material: Array(1...32), isRetired: true),
        RegistrationKey(number: 2, material: Array(33...64)),
    ])

    /// Ids show no counts (rule: ids-leak-nothing): ids of devices that follow each other have no more in
    /// common than any two ids.
    @Test("look unrelated for devices that follow each other")
    func unrelated() {
        var last: [UInt8] = []
        var shared = 0
        for index in 0..<500 as Range<UInt32> {
            let device = Registration(
                project: ProjectNumber(3), partition: PartitionID(4), index: DeviceIndex(index), nonce: 5,
                key: 1)
            let text = keys.fid(device)
            // The first character has the form's fixed bits.
            for (one, other) in zip(text.dropFirst(), last.dropFirst()) where one == other { shared += 1 }
            last = text
        }
        // Random ids share one in 64 of 499 times 21 characters, that is 164.
        #expect(shared < 300, "\(shared)")
    }

    private func random(_ generator: inout SeededGenerator) -> Registration {
        Registration(
            project: ProjectNumber(UInt32(generator.next() % UInt64(ProjectNumber.limit))),
            partition: PartitionID(UInt16(generator.next() % 4096)),
            index: DeviceIndex(UInt32(generator.next() % UInt64(DeviceIndex.limit))),
            nonce: UInt32(generator.next() & 0xFF_FFFF), key: 2)
    }

    @Test("come back as they were made, and a token with the proof of its secret")
    func roundTrip() throws {
        var generator = SeededGenerator(seed: 5)
        for _ in 0..<2000 {
            let made = random(&generator)
            let secret = generator.next()
            let fid = keys.fid(made)
            #expect(
                fid.count == 22
                    && [UInt8(ascii: "c"), UInt8(ascii: "d"), UInt8(ascii: "e"), UInt8(ascii: "f")].contains(
                        fid[0])
            )
            #expect(try keys.decipher(fid).get() == made)
            let read = try keys.decipher(keys.token(made, secret: secret)).get()
            #expect(read.suffix == keys.tokenProof(secret: secret, key: 2))
            #expect(
                keys.parseProof(keys.credential(secret: secret))
                    == keys.credentialProof(secret: secret, key: 2))
            #expect(keys.tokenProof(secret: secret, key: 2) != keys.credentialProof(secret: secret, key: 2))
        }
    }

    @Test("are malformed after any change of a character, and when they are of no form")
    func malformed() {
        var generator = SeededGenerator(seed: 6)
        let fid = keys.fid(random(&generator))
        for index in fid.indices {
            for byte in [UInt8(ascii: "A"), UInt8(ascii: "z"), UInt8(ascii: "-"), UInt8(ascii: "+"), 0, 0xFF]
            where byte != fid[index] {
                var changed = fid
                changed[index] = byte
                guard case .failure(let error) = keys.decipher(changed) else {
                    Issue.record("read after a change at \(index)")
                    continue
                }
                // The fixed bits are in the first character. Another character of the alphabet at another
                // place gives an id under no key.
                let isForm = index > 0 && Base64URL.value(byte) != 0xFF
                #expect(error == (isForm ? .unknownKey : .malformed), "\(index): \(byte)")
            }
        }
        let token = keys.token(random(&generator), secret: 1)
        for text in [
            [], Array("nonsense".utf8), Array(fid.dropLast()), fid + [65], fid + [UInt8(ascii: ":")],
            Array(token.dropLast()), token + [65],
        ] {
            #expect(keys.decipher(text) == .failure(.malformed))
        }
    }

    @Test("are read by the thousand as one by one, under any key, in any mixture")
    func batches() {
        let former = RegistrationKeys([RegistrationKey(number: 1, material: Array(1...32))])
        let foreign = RegistrationKeys([RegistrationKey(number: 2, material: Array(100...131))])
        var results: [Result<Registration, RegistrationError>] = []
        for seed in UInt64(1)...20 {
            var generator = SeededGenerator(seed: seed)
            let texts: [[UInt8]] = (0..<Int(generator.next() % 200)).map { _ in
                let made = random(&generator)
                switch generator.next() % 6 {
                case 0: return keys.fid(made)
                case 1: return former.token(made, secret: 3)
                case 2: return foreign.fid(made)
                case 3: return Array("nonsense".utf8)
                case 4: return []
                default: return keys.token(made, secret: generator.next())
                }
            }
            let held = texts.flatMap { $0 }
            held.withUnsafeBufferPointer { all in
                var start = 0
                let slices = texts.map { text in
                    defer { start += text.count }
                    return UnsafeBufferPointer(rebasing: all[start..<start + text.count])
                }
                keys.decipher(slices, into: &results)
            }
            #expect(results == texts.map { keys.decipher($0) }, "seed \(seed)")
        }
    }

    @Test("of a retired key are known as such")
    func retired() {
        let former = RegistrationKeys([RegistrationKey(number: 1, material: Array(1...32))])
        var generator = SeededGenerator(seed: 7)
        #expect(keys.decipher(former.fid(random(&generator))) == .failure(.retiredKey))
    }
}
