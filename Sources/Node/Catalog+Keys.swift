import Credentials
import Journal
import Model

// The server's own keys: those that sign access tokens, and those that registrations are made under. When
// each is used from stands in settings that a former build passes over.

extension Catalog {
    private static let signingPlace = "signing-keys"
    /// The newest one, as a former build reads it at its start.
    private static let newestPlace = "token-signing-key"
    private static let usePlace = "registration-key:"

    struct KeySettings {
        var signing: SigningKeys?
        var uses: [UInt8: WallTime] = [:]

        /// Whether the entry was one of these.
        mutating func take(_ entry: CatalogEntry) throws -> Bool {
            if entry.key == signingPlace {
                signing = try SigningKeys(decoding: entry.value)
                return true
            }
            guard entry.key.hasPrefix(usePlace) else { return false }
            guard let number = UInt8(entry.key.dropFirst(usePlace.count)),
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
        // What stands first is its state, and would be another one for another form.
        guard value[0] <= 1 else {
            throw EngineError.refused(
                "registration key \(number) has state \(value[0]): it is from a newer tidecast")
        }
        return RegistrationKey(number: number, material: Array(value[1...]), isRetired: value[0] == 1)
    }

    /// What is made once and never changes: as it stands, whoever made it.
    static func made(
        _ table: CatalogTable, _ key: String, _ count: Int, _ engine: any Engine
    ) throws -> [UInt8] {
        try engine.get(table, key: key)
            ?? engine.putIfAbsent(table, key: key, value: try random(count))
    }

    /// The key that signs where no other was made since.
    static func firstSigningKey(_ engine: any Engine) throws -> [UInt8] {
        let key = try made(.setting, newestPlace, SigningKeys.materialBytes, engine)
        guard key.count == SigningKeys.materialBytes else {
            throw EngineError.refused(
                "the key that signs tokens has another length: it is from a newer tidecast, or damaged")
        }
        return key
    }

    static func put(_ keys: SigningKeys, to writes: inout CatalogWrites) {
        writes.put(.setting, key: signingPlace, value: keys.encoded)
        if let newest = keys.all.last { writes.put(.setting, key: newestPlace, value: newest.material) }
    }

    static func put(_ key: RegistrationKey, to writes: inout CatalogWrites) {
        writes.put(.key, key: "\(key.number)", value: [key.isRetired ? 1 : 0] + key.material)
        guard let from = key.from else { return }
        let value = (0..<8).map { UInt8(truncatingIfNeeded: from.milliseconds >> Int64(56 - 8 * $0)) }
        writes.put(.setting, key: usePlace + "\(key.number)", value: value)
    }
}

extension Catalog.Contents {
    mutating func adopt(_ settings: Catalog.KeySettings, _ engine: any Engine) throws {
        if registrationKeys.isEmpty {
            let value = try engine.putIfAbsent(
                .key, key: "1", value: [0] + (try Catalog.random(RegistrationKey.materialBytes)))
            registrationKeys = [try Catalog.registrationKey("1", value)]
        }
        for place in registrationKeys.indices {
            registrationKeys[place].from = settings.uses[registrationKeys[place].number]
        }
        let first = try Catalog.firstSigningKey(engine)
        signingKeys = settings.signing ?? SigningKeys(first)
    }
}
