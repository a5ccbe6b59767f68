import Credentials
import Journal
import Model
import RegistrationIDs

// The server's own keys: those that sign access tokens, and those that encipher registration ids. The time
// from which each registration key is used is in a setting.

extension Catalog {
    static let signingSetting = "signing-keys"
    private static let keyUsePrefix = "registration-key:"

    struct KeySettings {
        var signing: SigningKeys?
        var uses: [UInt8: WallTime] = [:]

        /// Whether the entry was one of these settings.
        mutating func read(_ entry: CatalogEntry) throws -> Bool {
            if entry.key == signingSetting {
                signing = try SigningKeys(decoding: entry.value)
                return true
            }
            guard entry.key.hasPrefix(keyUsePrefix) else { return false }
            guard let number = UInt8(entry.key.dropFirst(keyUsePrefix.count)),
                let time = Catalog.time(entry.value)
            else { throw EngineError.refused("\(entry.key) is from a newer tidecast, or damaged") }
            uses[number] = time
            return true
        }
    }

    static func registrationKey(_ key: String, _ value: [UInt8]) throws -> RegistrationKey {
        guard let number = UInt8(key), value.count == RegistrationKey.materialBytes + 1 else {
            throw EngineError.corrupt("a registration key cannot be read")
        }
        // The first byte is the key's state. A key in another form must have another state.
        guard value[0] <= 1 else {
            throw EngineError.refused(
                "registration key \(number) has state \(value[0]): it is from a newer tidecast")
        }
        return RegistrationKey(number: number, material: Array(value[1...]), isRetired: value[0] == 1)
    }

    /// Creates a value that never changes afterwards, or finds it. Returns the stored value, whichever node
    /// created it.
    package static func made(
        _ table: CatalogTable, _ key: String, engine: any Engine, vault: Vault,
        make: () throws -> [UInt8]
    ) throws -> [UInt8] {
        if let standing = try engine.get(table, key: key) {
            return try opened(CatalogEntry(key: key, value: standing), table, vault: vault)
        }
        let value = try make()
        let written = isSecret(table, key) ? try vault.seal(value, table, row: key) : value
        let standing = try engine.putIfAbsent(table, key: key, value: written)
        return try opened(CatalogEntry(key: key, value: standing), table, vault: vault)
    }

    package static func put(_ keys: SigningKeys, _ vault: Vault, to writes: inout CatalogWrites) throws {
        writes.put(
            .setting, key: signingSetting,
            value: try vault.seal(keys.encoded, .setting, row: signingSetting))
    }

    package static func put(_ key: RegistrationKey, _ vault: Vault, to writes: inout CatalogWrites) throws {
        let row = "\(key.number)"
        let state: UInt8 = key.isRetired ? 1 : 0
        writes.put(.key, key: row, value: try vault.seal([state] + key.material, .key, row: row))
        guard let from = key.from else { return }
        let value = (0..<8).map { UInt8(truncatingIfNeeded: from.milliseconds >> Int64(56 - 8 * $0)) }
        writes.put(.setting, key: keyUsePrefix + "\(key.number)", value: value)
    }
}

extension Catalog.Contents {
    mutating func merge(_ settings: Catalog.KeySettings, _ engine: any Engine) throws {
        if registrationKeys.isEmpty {
            let value = try Catalog.made(.key, "1", engine: engine, vault: vault) {
                [0] + (try Catalog.random(RegistrationKey.materialBytes))
            }
            registrationKeys = [try Catalog.registrationKey("1", value)]
        }
        for index in registrationKeys.indices {
            registrationKeys[index].from = settings.uses[registrationKeys[index].number]
        }
        signingKeys =
            try settings.signing
            ?? SigningKeys(
                decoding: try Catalog.made(.setting, Catalog.signingSetting, engine: engine, vault: vault) {
                    SigningKeys(try Catalog.random(SigningKeys.materialBytes)).encoded
                })
    }
}
