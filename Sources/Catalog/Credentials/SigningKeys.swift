import Bytes
import Model
import RegistrationIDs

/// The keys that sign access tokens, the oldest first. There is always one.
///
/// A new key is known for a while before any node signs with it, so that no node meets a token under an
/// unknown key. The key before verifies until the tokens that it signed have run out.
public struct SigningKeys: Hashable, Sendable {
    public struct Key: Hashable, Sendable {
        public var material: [UInt8]
        /// From this time on the key signs.
        public var from: WallTime
    }
    public static let materialBytes = 32
    /// Milliseconds between creating a key and signing with it: the time in which all nodes learn of it.
    public static let announcement: Int64 = 60_000
    /// Milliseconds for which a key still verifies after the next key has begun to sign: the life of an
    /// access token, and the most by which nodes' clocks may differ.
    public static let afterlife: Int64 = 3_600_000 + 300_000
    /// Keys that verify at the same time, at most.
    public static let countMax = 8

    public private(set) var all: [Key]

    /// The first key, which signs immediately.
    public init(_ material: [UInt8]) {
        precondition(material.count == SigningKeys.materialBytes, "a signing key has 32 bytes")
        all = [Key(material: material, from: WallTime(milliseconds: 0))]
    }

    public func signing(now: WallTime) -> Key { all.last { $0.from <= now } ?? all[0] }

    /// The key created last, whether it signs yet or not.
    public var newest: [UInt8] { all[all.count - 1].material }

    /// The newest first: most tokens are signed with the newest key, or with the key before.
    public func verifying(now: WallTime) -> [Key] {
        all.indices.reversed().filter { end(at: $0).map { now < $0 } ?? true }.map { all[$0] }
    }

    /// Until when the key at an index verifies; `nil` for the newest.
    public func end(at index: Int) -> WallTime? {
        guard index + 1 < all.count else { return nil }
        return WallTime(milliseconds: all[index + 1].from.milliseconds + SigningKeys.afterlife)
    }

    /// Adds a key. `atOnce`: all earlier keys end now, and the new one signs immediately.
    public mutating func rotate(
        _ material: [UInt8], atOnce: Bool, now: WallTime
    ) throws(ChangeRefusal) {
        precondition(material.count == SigningKeys.materialBytes, "a signing key has 32 bytes")
        if atOnce {
            all = [Key(material: material, from: WallTime(milliseconds: 0))]
            return
        }
        let kept = Array(verifying(now: now).reversed())
        guard kept.count < SigningKeys.countMax else {
            throw ChangeRefusal(
                .precondition, "There are \(kept.count) signing keys in use: wait until some end.")
        }
        // Behind the key before, even if a clock that is ahead created that key.
        let from = max(now.milliseconds, kept.last?.from.milliseconds ?? 0) + SigningKeys.announcement
        all = kept + [Key(material: material, from: WallTime(milliseconds: from))]
    }
}

extension SigningKeys {
    private static let version: UInt8 = 1

    public var encoded: [UInt8] {
        var out = ByteWriter(capacity: 2 + all.count * 40)
        out.u8(SigningKeys.version)
        out.varint(all.count)
        for key in all {
            out.u64(UInt64(max(0, key.from.milliseconds)))
            out.raw(key.material)
        }
        return out.bytes
    }

    public init(decoding bytes: [UInt8]) throws(DecodeError) {
        var reader = ByteReader(bytes)
        _ = try reader.version(of: "the keys that sign", SigningKeys.version...SigningKeys.version)
        var all: [Key] = []
        for _ in 0..<(try reader.count(max: SigningKeys.countMax, elementBytesMin: 40)) {
            let from = try reader.time("when a key signs")
            guard from >= all.last?.from ?? from else { throw reader.fail("when a key signs") }
            all.append(Key(material: try reader.raw(SigningKeys.materialBytes), from: from))
        }
        guard !all.isEmpty else { throw reader.fail("no key that signs") }
        try reader.expectEnd()
        self.all = all
    }
}

/// Rules for changes of the registration keys.
public enum RegistrationKeyRules {
    /// Milliseconds between creating a key and creating registrations under it.
    public static let announcement: Int64 = 60_000

    public static func next(
        to keys: [RegistrationKey], _ material: [UInt8], now: WallTime
    ) throws(ChangeRefusal) -> RegistrationKey {
        let last = keys.map(\.number).max() ?? 0
        guard last < UInt8.max else {
            throw ChangeRefusal(.precondition, "No registration key is left: there were 255.")
        }
        return RegistrationKey(
            number: last + 1, material: material,
            from: WallTime(milliseconds: now.milliseconds + announcement))
    }

    /// Retires a key: from then on its registrations get the answer "unregistered".
    public static func retired(
        _ number: UInt8, of keys: [RegistrationKey], now: WallTime
    ) throws(ChangeRefusal) -> RegistrationKey {
        guard var key = keys.first(where: { $0.number == number }) else {
            throw ChangeRefusal(.unknown, "There is no registration key \(number).")
        }
        guard RegistrationKeys.current(of: keys, now: now)?.number != number else {
            throw ChangeRefusal(
                .wrong(field: "credential"),
                "Devices are registered under key \(number): rotate first, and wait a minute.")
        }
        key.isRetired = true
        return key
    }
}
