import Bytes
import Model
import RegistrationIDs
import Testing

@testable import Credentials

private func at(_ milliseconds: Int64) -> WallTime { WallTime(milliseconds: milliseconds) }
private func material(_ byte: UInt8) -> [UInt8] { [UInt8](repeating: byte, count: 32) }
private let start: Int64 = 1_800_000_000_000

@Suite("The keys that sign") struct SigningKeysTests {
    private func rotated() throws -> SigningKeys {
        var keys = SigningKeys(material(1))
        try keys.rotate(material(2), atOnce: false, now: at(start))
        return keys
    }

    @Test("verify from the moment they are made, and sign only after their announcement")
    func announced() throws {
        let keys = try rotated()
        let from = start + SigningKeys.announcement
        for (time, signs) in [(start, 1), (from - 1, 1), (from, 2), (from + 1, 2)] as [(Int64, UInt8)] {
            #expect(keys.signing(now: at(time)).material == material(signs))
            #expect(Set(keys.verifying(now: at(time)).map(\.material)) == [material(1), material(2)])
        }
        #expect(keys.verifying(now: at(from)).first?.material == material(2))
    }

    /// A token must verify for its whole life, also after its key has signed for the last time.
    @Test("verify until what they signed has run out")
    func runOut() throws {
        let keys = try rotated()
        let end = start + SigningKeys.announcement + SigningKeys.afterlife
        #expect(keys.verifying(now: at(end - 1)).count == 2)
        #expect(keys.verifying(now: at(end)).map(\.material) == [material(2)])
        #expect(keys.end(at: 0) == at(end) && keys.end(at: 1) == nil)
    }

    @Test("are thrown away by the next rotation once they verify no more")
    func thrownAway() throws {
        var keys = try rotated()
        try keys.rotate(material(3), atOnce: false, now: at(start + 2 * SigningKeys.afterlife))
        #expect(keys.all.map(\.material) == [material(2), material(3)])
    }

    @Test("verify alone where an operator rotates them at once")
    func atOnceNothingElseVerifies() throws {
        var keys = try rotated()
        try keys.rotate(material(3), atOnce: true, now: at(start))
        #expect(keys.signing(now: at(start)).material == material(3))
        #expect(keys.verifying(now: at(start)).map(\.material) == [material(3)])
    }

    @Test("have a bound, and begin to sign one after the other")
    func thereIsABound() throws {
        var keys = SigningKeys(material(0))
        for number in 1..<UInt8(SigningKeys.countMax) {
            try keys.rotate(material(number), atOnce: false, now: at(start))
        }
        let refusal = #expect(throws: ChangeRefusal.self) {
            try keys.rotate(material(99), atOnce: false, now: at(start))
        }
        #expect(refusal?.reason == .precondition && keys.all.count == SigningKeys.countMax)
        // Keys begin to sign one after the other, however fast an operator makes them.
        #expect(zip(keys.all, keys.all.dropFirst()).allSatisfy { $0.from < $1.from })
        try keys.rotate(material(99), atOnce: true, now: at(start))
    }

    @Test("are read as they were written, and refused where they are damaged or out of order")
    func areReadAsTheyWereWritten() throws {
        let keys = try rotated()
        #expect(try SigningKeys(decoding: keys.encoded) == keys)
        let good = keys.encoded
        #expect(good[..<3] == [1, 2, 0])
        for count in good.indices {
            #expect(throws: DecodeError.self) { try SigningKeys(decoding: Array(good[..<count])) }
        }
        let wrong: [[UInt8]] = [
            good + [0], [2] + good.dropFirst(), [1, 0], [1, 9] + [UInt8](repeating: 0, count: 360),
        ]
        for bad in wrong {
            #expect(throws: DecodeError.self) { try SigningKeys(decoding: bad) }
        }
        // The first key begins after the second, then at a time past all bounds.
        var bad = good
        bad.replaceSubrange(2..<10, with: [UInt8](repeating: 0x11, count: 5) + [0x70, 0, 0])
        #expect(throws: DecodeError.self) { try SigningKeys(decoding: bad) }
        bad.replaceSubrange(2..<10, with: [UInt8](repeating: 255, count: 8))
        #expect(throws: DecodeError.self) { try SigningKeys(decoding: bad) }
    }
}

@Suite("The keys that registrations are made under") struct RegistrationKeyRulesTests {
    private let first = RegistrationKey(number: 1, material: material(1))
    private let device = Registration(
        project: ProjectNumber(5), partition: PartitionID(3), index: DeviceIndex(9), nonce: 77, key: 1)

    /// The number of the key under which registrations are made.
    private func newest(_ keys: RegistrationKeys) throws -> UInt8 {
        try keys.decipher(keys.fid(device)).get().key
    }

    @Test("are read by all nodes before registrations are made under them")
    func announced() throws {
        let next = try RegistrationKeyRules.next(to: [first], material(2), now: at(start))
        #expect(next.number == 2 && next.from == at(start + RegistrationKeyRules.announcement))
        let keys = RegistrationKeys([first], now: at(start))
        let old = keys.fid(device)
        keys.update([first, next], now: at(start))
        #expect(try newest(keys) == 1 && keys.fid(device) == old)
        let ahead = RegistrationKeys([first, next], now: at(start + RegistrationKeyRules.announcement))
        #expect(try newest(ahead) == 2)
        let new = ahead.fid(device)
        #expect(new != old)
        #expect(try keys.decipher(new).get().key == 2 && keys.decipher(old).get().key == 1)
        keys.update([], now: at(start + RegistrationKeyRules.announcement))
        #expect(try newest(keys) == 2 && keys.fid(device) == new)
    }

    @Test("only let their registrations unregister once they are retired")
    func aRetiredOneUnregisters() throws {
        let next = try RegistrationKeyRules.next(to: [first], material(2), now: at(start))
        let later = at(start + RegistrationKeyRules.announcement)
        for (number, now) in [(1, at(start)), (2, later)] as [(UInt8, WallTime)] {
            #expect(throws: ChangeRefusal.self) {
                try RegistrationKeyRules.retired(number, of: [first, next], now: now)
            }
        }
        #expect(throws: ChangeRefusal.self) {
            try RegistrationKeyRules.retired(3, of: [first, next], now: later)
        }
        let retired = try RegistrationKeyRules.retired(1, of: [first, next], now: later)
        let keys = RegistrationKeys([first], now: at(start))
        let old = keys.fid(device)
        keys.update([next, retired], now: later)
        #expect(try keys.decipher(old) == .failure(.retiredKey) && newest(keys) == 2)
    }

    @Test("serve a clock that is behind them, unless they are retired")
    func aClockThatIsBehindHasAKey() throws {
        let next = try RegistrationKeyRules.next(to: [first], material(2), now: at(start))
        var old = first
        old.isRetired = true
        #expect(RegistrationKeys.current(of: [old, next], now: at(0))?.number == 2)
        #expect(RegistrationKeys.current(of: [old], now: at(0)) == nil)
    }

    /// A key's number keeps its material: other material under the number is of another cluster.
    @Test("keep their material: other material under the same number is ignored")
    func materialNeverChanges() {
        let keys = RegistrationKeys([first], now: at(start))
        let old = keys.fid(device)
        keys.update([RegistrationKey(number: 1, material: material(9))], now: at(start))
        #expect(keys.fid(device) == old)
    }

    @Test("have a last number, after which no key can be made")
    func thereIsALastNumber() {
        let last = RegistrationKey(number: 255, material: material(1))
        #expect(throws: ChangeRefusal.self) {
            try RegistrationKeyRules.next(to: [last], material(2), now: at(start))
        }
    }
}
