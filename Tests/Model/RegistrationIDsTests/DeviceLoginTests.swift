import Model
import RegistrationIDs
import Testing

/// rule: logins-are-bound.
@Suite("Logins of phones")
struct DeviceLoginTests {
    private let old = RegistrationKey(number: 1, material: Array(1...32))
    private let new = RegistrationKey(number: 2, material: Array(33...64))
    private let device = Registration(
        project: ProjectNumber(5), partition: PartitionID(3), index: DeviceIndex(9), nonce: 77, key: 1)

    @Test("are positive numbers of 63 bits, another one for each seed")
    func range() {
        let keys = RegistrationKeys([old])
        var ids: Set<UInt64> = []
        for seed in 0..<2000 as Range<UInt64> {
            let login = keys.newLogin(seed: MessageID(time: seed / 2, random: seed % 2))
            for number in [login.id, login.secret] { #expect((1...UInt64(Int64.max)).contains(number)) }
            #expect(keys.isGenuine(login))
            ids.insert(login.id)
        }
        #expect(ids.count == 2000)
    }

    @Test("are read from decimal digits in their shortest form")
    func text() {
        #expect(DeviceLogin(Array("12:34".utf8)) == DeviceLogin(id: 12, secret: 34))
        #expect(DeviceLogin(Array("9223372036854775807:1".utf8))?.id == UInt64(Int64.max))
        for bad in [
            "", ":", "1", "1:", ":1", "0:1", "1:0", "01:1", "1:01", "+1:1", "-1:1", "1:1:1", "1: 1", "1.0:1",
            "9223372036854775808:1", "1:18446744073709551617", "1:99999999999999999999", "a:b",
        ] { #expect(DeviceLogin(Array(bad.utf8)) == nil, "\(bad)") }
    }

    @Test("are genuine at every node that has the key, and only with the right secret")
    func genuine() {
        let login = RegistrationKeys([old]).newLogin(seed: MessageID(time: 1, random: 2))
        let elsewhere = RegistrationKeys([old, new])
        #expect(elsewhere.isGenuine(login))
        for bit in 0..<63 as Range<UInt64> {
            #expect(!elsewhere.isGenuine(DeviceLogin(id: login.id, secret: login.secret ^ 1 << bit)))
            #expect(!elsewhere.isGenuine(DeviceLogin(id: login.id ^ 1 << bit, secret: login.secret)))
        }
        #expect(!RegistrationKeys([new]).isGenuine(login))
        var retired = old
        retired.isRetired = true
        #expect(!RegistrationKeys([retired, new]).isGenuine(login))
    }

    @Test("own the tokens that are bound to them, and no others")
    func bound() throws {
        let keys = RegistrationKeys([old])
        let login = keys.newLogin(seed: MessageID(time: 1, random: 2))
        let token = keys.token(device, secret: 99)
        let text = try #require(keys.bind(token, to: login))
        #expect(text.starts(with: token) && text.count == RegistrationKeys.boundTokenLength)
        #expect(!text.contains(UInt8(ascii: "=")))
        #expect(try keys.decipher(text).get() == keys.decipher(token).get())
        #expect(keys.isBound(text, to: login))
        #expect(!keys.isBound(token, to: login))
        #expect(!keys.isBound(text, to: keys.newLogin(seed: MessageID(time: 1, random: 3))))
        let other = try #require(keys.bind(keys.token(device, secret: 98), to: login))
        #expect(!keys.isBound(text.prefix(45) + other.suffix(22), to: login))
        #expect(keys.bind(text, to: login) == nil && keys.bind(Array(token.prefix(22)), to: login) == nil)
        for index in text.indices {
            var wrong = text
            wrong[index] = wrong[index] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
            #expect(!keys.isBound(wrong, to: login), "\(index)")
        }
    }

    @Test("a bound token is malformed where its binding has not the form of one")
    func form() throws {
        let keys = RegistrationKeys([old])
        let token = keys.token(device, secret: 99)
        let binding = String(repeating: "A", count: 21)
        func read(_ tail: String) -> Result<Registration, RegistrationError> {
            keys.decipher(token + Array(tail.utf8))
        }
        #expect(read("E" + binding) == keys.decipher(token))
        for bad in ["A" + binding, "E" + binding + "A", binding, "E" + binding.dropLast() + "=", "x"] {
            #expect(read(bad) == .failure(.malformed), "\(bad)")
        }
    }

    @Test("and their tokens end with the key under which the token was made")
    func rotation() throws {
        let before = RegistrationKeys([old])
        let login = before.newLogin(seed: MessageID(time: 1, random: 2))
        let text = try #require(before.bind(before.token(device, secret: 99), to: login))
        let during = RegistrationKeys([old, new])
        #expect(during.isBound(text, to: login))
        var retired = old
        retired.isRetired = true
        #expect(!RegistrationKeys([retired, new]).isBound(text, to: login))
    }
}
