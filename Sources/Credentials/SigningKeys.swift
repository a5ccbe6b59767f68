import Journal
import Model

/// The keys under which access tokens are signed, the oldest first. There is always one.
///
/// A new one is known for a while before anybody signs with it, so that no node meets a token under a key
/// that it has not heard of; the one before verifies until what it signed has run out.
public struct SigningKeys: Hashable, Sendable {
    public struct Key: Hashable, Sendable {
        public var material: [UInt8]
        /// From when on it signs.
        public var from: WallTime
    }
    public static let materialBytes = 32
    /// Milliseconds from when a key is made to when it signs: the time in which all nodes hear of it.
    public static let announcement: Int64 = 60_000
    /// Milliseconds for which a key verifies when the next one signs: the life of an access token, and what
    /// clocks of nodes may be apart.
    public static let afterlife: Int64 = 3_600_000 + 300_000
    /// Keys that verify at once.
    public static let countMax = 8

    public private(set) var all: [Key]

    /// The first one, which signs at once.
    public init(_ material: [UInt8]) {
        precondition(material.count == SigningKeys.materialBytes, "a signing key has 32 bytes")
        all = [Key(material: material, from: WallTime(milliseconds: 0))]
    }

    public func signing(now: WallTime) -> Key { all.last { $0.from <= now } ?? all[0] }

    /// Made last, whether it signs yet or not.
    public var newest: [UInt8] { all[all.count - 1].material }

    /// The newest first: most tokens are signed with it, or with the one before.
    public func verifying(now: WallTime) -> [Key] {
        all.indices.reversed().filter { end(at: $0).map { now < $0 } ?? true }.map { all[$0] }
    }

    /// Until when the key at a place verifies; `nil` for the newest.
    public func end(at place: Int) -> WallTime? {
        guard place + 1 < all.count else { return nil }
        return WallTime(milliseconds: all[place + 1].from.milliseconds + SigningKeys.afterlife)
    }

    /// `atOnce`: whatever was signed before ends now.
    public mutating func rotate(
        _ material: [UInt8], atOnce: Bool, now: WallTime
    ) throws(CredentialRefusal) {
        precondition(material.count == SigningKeys.materialBytes, "a signing key has 32 bytes")
        if atOnce {
            all = [Key(material: material, from: WallTime(milliseconds: 0))]
            return
        }
        let kept = Array(verifying(now: now).reversed())
        guard kept.count < SigningKeys.countMax else {
            throw CredentialRefusal(.full, "There are \(kept.count) keys that verify: wait until some end.")
        }
        // Behind the one before, also where that was made by a clock that is ahead.
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
            let from = try reader.u64()
            guard from < UInt64(Credential.endMax.milliseconds),
                from >= UInt64(all.last?.from.milliseconds ?? 0)
            else { throw reader.fail("when a key signs") }
            all.append(
                Key(
                    material: try reader.raw(SigningKeys.materialBytes),
                    from: WallTime(milliseconds: Int64(from))))
        }
        guard !all.isEmpty else { throw reader.fail("no key that signs") }
        try reader.expectEnd()
        self.all = all
    }
}

/// What may become of the keys that registrations are made under.
public enum RegistrationKeyRules {
    /// Milliseconds from when a key is made to when registrations are made under it.
    public static let announcement: Int64 = 60_000

    public static func next(
        to keys: [RegistrationKey], _ material: [UInt8], now: WallTime
    ) throws(CredentialRefusal) -> RegistrationKey {
        let last = keys.map(\.number).max() ?? 0
        guard last < UInt8.max else { throw CredentialRefusal(.full, "There were 255 registration keys.") }
        return RegistrationKey(
            number: last + 1, material: material,
            from: WallTime(milliseconds: now.milliseconds + announcement))
    }

    /// What was registered under it is told to be unregistered from then on.
    public static func retired(
        _ number: UInt8, of keys: [RegistrationKey], now: WallTime
    ) throws(CredentialRefusal) -> RegistrationKey {
        guard var key = keys.first(where: { $0.number == number }) else {
            throw CredentialRefusal(.unknown, "There is no registration key \(number).")
        }
        guard RegistrationKeys.current(of: keys, now: now)?.number != number else {
            throw CredentialRefusal(
                .wrong, "Devices are registered under key \(number): rotate first, and wait a minute.")
        }
        key.isRetired = true
        return key
    }
}
