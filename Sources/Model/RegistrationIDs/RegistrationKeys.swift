import COpenSSL
import Model

/// One of the cluster's keys for registration ids. All nodes know a key before any node uses it.
public struct RegistrationKey: Hashable, Sendable {
    public static let materialBytes = 32
    public var number: UInt8
    /// 32 random bytes: 16 for ids, 16 for the proofs that are derived from devices' secrets.
    public var material: [UInt8]
    /// A retired key still deciphers, so that its ids get the answer "unregistered", not "malformed".
    public var isRetired: Bool
    /// From this time on new ids are created under the key; all nodes learn of the key before.
    public var from: WallTime?

    public init(number: UInt8, material: [UInt8], isRetired: Bool = false, from: WallTime? = nil) {
        precondition(material.count == RegistrationKey.materialBytes, "a registration key has 32 bytes")
        self.number = number
        self.material = material
        self.isRetired = isRetired
        self.from = from
    }
}

public enum RegistrationError: Error, Hashable, Sendable {
    /// Not of the form of an id: no key of this cluster created it.
    case malformed
    /// Of the form, but no known key fits. If the table of keys is current, this cluster never created the
    /// id; if the table is older, nobody can know.
    case unknownKey
    /// Created here, under a key that has since been retired.
    case retiredKey
}

/// Creates and reads registration ids, and the proofs that devices show.
///
/// A FID is 22 base64url characters, 132 bits: four fixed bits and one AES-128 block that holds partition (12
/// bits), index (28), project (24), nonce (24) and 40 zeros. A token is a FID, a colon and 22 characters
/// derived from the device's secret; 22 more may bind it to a login. A credential is derived from the same
/// secret for another use, so that a token reveals nothing of the credential.
///
/// Confined to one loop: it reuses its cipher contexts.
public final class RegistrationKeys {
    public static let fidLength = 22
    public static let tokenLength = 45
    public static let credentialLength = 22

    struct Key {
        var key: RegistrationKey
        let encipher: OpaquePointer
        let decipher: OpaquePointer
        let proofs: OpaquePointer
        /// See `loginKey`.
        let logins: [UInt8]
        let channels: ChannelKeys
    }
    /// The newest first, because most ids were created under it.
    private(set) var keys: [Key]
    /// The key under which new ids are created.
    private(set) var newest: Key
    /// Memory in which a batch is deciphered; kept, so that the next batch needs no more.
    var scratch = BatchScratch()

    /// `keys` must hold at least one key that is not retired.
    public init(_ keys: [RegistrationKey], now: WallTime = WallTime(milliseconds: .max)) {
        self.keys = keys.sorted { $0.number > $1.number }.map { RegistrationKeys.ready($0) }
        newest = RegistrationKeys.current(of: self.keys, now: now)
    }

    /// Adds the keys that are known by now. No key ever goes: a missing one was only not read.
    public func update(_ known: [RegistrationKey], now: WallTime) {
        for key in known {
            if let index = keys.firstIndex(where: { $0.key.number == key.number }) {
                guard keys[index].key.material == key.material else { continue }
                keys[index].key = key
            } else {
                keys.append(RegistrationKeys.ready(key))
            }
        }
        keys.sort { $0.key.number > $1.key.number }
        newest = RegistrationKeys.current(of: keys, now: now)
    }

    /// The key under which new ids are created: the highest number among the keys whose time has come.
    public static func current(of keys: [RegistrationKey], now: WallTime) -> RegistrationKey? {
        let usable = keys.filter { !$0.isRetired }
        return usable.filter { $0.from.map { $0 <= now } ?? true }.max { $0.number < $1.number }
            // The clock is behind the time of every key.
            ?? usable.min { $0.number < $1.number }
    }

    private static func current(of keys: [Key], now: WallTime) -> Key {
        let number = current(of: keys.map(\.key), now: now)?.number
        guard let newest = keys.first(where: { $0.key.number == number }) else {
            preconditionFailure("a cluster has a registration key that is not retired")
        }
        return newest
    }

    private static func ready(_ key: RegistrationKey) -> Key {
        let ids = Array(key.material[0..<16])
        return Key(
            key: key, encipher: context(ids, encrypt: 1), decipher: context(ids, encrypt: 0),
            proofs: context(Array(key.material[16..<32]), encrypt: 1), logins: loginKey(key.material),
            channels: ChannelKeys(key.material))
    }

    deinit {
        for key in keys {
            EVP_CIPHER_CTX_free(key.encipher)
            EVP_CIPHER_CTX_free(key.decipher)
            EVP_CIPHER_CTX_free(key.proofs)
        }
    }

    private static func context(_ key: [UInt8], encrypt: Int32) -> OpaquePointer {
        guard let context = EVP_CIPHER_CTX_new(),
            EVP_CipherInit_ex(context, EVP_aes_128_ecb(), nil, key, nil, encrypt) == 1
        else { fatalError("libcrypto has no AES-128") }
        EVP_CIPHER_CTX_set_padding(context, 0)
        return context
    }

    static func block(_ context: OpaquePointer, _ high: UInt64, low: UInt64) -> (
        high: UInt64, low: UInt64
    ) {
        var input = (high.bigEndian, low.bigEndian)
        var output: (UInt64, UInt64) = (0, 0)
        withUnsafeBytes(of: &input) { source in
            withUnsafeMutableBytes(of: &output) { target in
                var count: Int32 = 0
                _ = EVP_CipherUpdate(
                    context, target.bindMemory(to: UInt8.self).baseAddress, &count,
                    source.bindMemory(to: UInt8.self).baseAddress, 16)
            }
        }
        return (UInt64(bigEndian: output.0), UInt64(bigEndian: output.1))
    }

    // MARK: Making

    /// The FID of a device, under the key for new ids.
    public func fid(_ registration: Registration) -> [UInt8] {
        let (high, low) = RegistrationKeys.words(of: registration)
        let block = RegistrationKeys.block(newest.encipher, high, low: low)
        var out: [UInt8] = []
        out.reserveCapacity(RegistrationKeys.fidLength)
        RegistrationKeys.append132(0b0111, block.high, low: block.low, to: &out)
        return out
    }

    /// What a key enciphers of a device.
    static func words(of registration: Registration) -> (high: UInt64, low: UInt64) {
        let high =
            UInt64(registration.partition.rawValue) << 52 | UInt64(registration.index.rawValue) << 24
            | UInt64(registration.project.rawValue)
        return (high, UInt64(registration.nonce & 0xFF_FFFF) << 40)
    }

    /// The token of a device whose secret is known.
    public func token(_ registration: Registration, secret: UInt64) -> [UInt8] {
        var out = fid(registration)
        out.append(UInt8(ascii: ":"))
        if let proof = tokenProof(secret: secret, key: newest.key.number) {
            RegistrationKeys.append132(0, proof.high, low: proof.low, to: &out)
        }
        return out
    }

    /// The text of the device's credential.
    public func credential(secret: UInt64) -> [UInt8] {
        var out: [UInt8] = []
        if let proof = credentialProof(secret: secret, key: newest.key.number) {
            RegistrationKeys.append132(0, proof.high, low: proof.low, to: &out)
        }
        return out
    }

    /// The key under which new ids are created.
    public var newestKey: UInt8 { newest.key.number }

    private static let tokenUse: UInt64 = 0x746F_6B65_6E00_0001
    private static let credentialUse: UInt64 = 0x6372_6564_0000_0001

    public func tokenProof(secret: UInt64, key: UInt8) -> DeviceMAC? {
        proof(secret, RegistrationKeys.tokenUse, number: key)
    }

    public func credentialProof(secret: UInt64, key: UInt8) -> DeviceMAC? {
        proof(secret, RegistrationKeys.credentialUse, number: key)
    }

    private func proof(_ secret: UInt64, _ use: UInt64, number: UInt8) -> DeviceMAC? {
        guard let key = keys.first(where: { $0.key.number == number }) else { return nil }
        let block = RegistrationKeys.block(key.proofs, secret, low: use)
        return DeviceMAC(high: block.high, low: block.low)
    }

    // MARK: 132 bits

    /// Writes 132 bits as 22 characters: 4 bits of head, then 128.
    static func append132(_ head: UInt8, _ high: UInt64, low: UInt64, to out: inout [UInt8]) {
        out.append(Base64URL.character(head << 2 | UInt8(high >> 62)))
        var rest = (high << 2 | low >> 62, low << 2)
        for _ in 0..<21 {
            out.append(Base64URL.character(UInt8(rest.0 >> 58)))
            rest = (rest.0 << 6 | rest.1 >> 58, rest.1 << 6)
        }
    }

    /// Reads the 22 characters from `start` on; `nil` if they are missing or one is outside the alphabet.
    static func read132(
        _ text: UnsafeBufferPointer<UInt8>, from start: Int = 0
    ) -> (head: UInt8, high: UInt64, low: UInt64)? {
        guard start >= 0, text.count >= start + 22 else { return nil }
        let first = Base64URL.value(text[start])
        var high: UInt64 = 0
        var low = UInt64(first & 3)
        // A value outside the alphabet has bits that no other value has; one look at the end finds them.
        var seen = first
        for index in start + 1..<start + 22 {
            let value = Base64URL.value(text[index])
            seen |= value
            high = high << 6 | low >> 58
            low = low << 6 | UInt64(value & 63)
        }
        return seen & 0xC0 == 0 ? (first >> 2, high, low) : nil
    }
}
