import Journal
import Model

// The small tables. A value is stored behind a checksum that its table and key seed, verified on every read.

extension PostgresEngine {
    public func put(_ table: CatalogTable, key: String, value: [UInt8]) throws(EngineError) {
        try PostgresEngine.check(key: key, value: value)
        try ask { connection throws(Fault) in try put(table, key, value, connection) }
    }

    func put(
        _ table: CatalogTable, _ key: String, _ value: [UInt8], _ connection: Connection
    ) throws(Fault) {
        let sealed = PostgresEngine.seal(table.rawValue, key, value)
        _ = try connection.run(
            "INSERT INTO tidecast.\(table.rawValue) (key, value) VALUES ($1::text, $2::bytea)"
                + " ON CONFLICT (key) DO UPDATE SET value = excluded.value", [.text(key), .bytes(sealed)])
    }

    public func get(_ table: CatalogTable, key: String) throws(EngineError) -> [UInt8]? {
        guard !key.utf8.contains(0) else { return nil }
        return try ask { connection throws(Fault) in try get(table, key, connection) }
    }

    func get(_ table: CatalogTable, _ key: String, _ connection: Connection) throws(Fault) -> [UInt8]? {
        let reply = try connection.run(
            "SELECT value FROM tidecast.\(table.rawValue) WHERE key = $1::text", [.text(key)])
        guard reply.count == 1 else { return nil }
        return try PostgresEngine.unseal(table.rawValue, key, try reply.bytes(0, 0))
    }

    public func remove(_ table: CatalogTable, key: String) throws(EngineError) {
        guard !key.utf8.contains(0) else { return }
        _ = try ask { connection throws(Fault) in
            try connection.run(
                "DELETE FROM tidecast.\(table.rawValue) WHERE key = $1::text", [.text(key)])
        }
    }

    public func all(_ table: CatalogTable) throws(EngineError) -> [CatalogEntry] {
        try ask { connection throws(Fault) in
            let reply = try connection.run("SELECT key, value FROM tidecast.\(table.rawValue) ORDER BY key")
            var entries: [CatalogEntry] = []
            for index in reply.rows {
                let key = try reply.text(index, 0)
                let value = try PostgresEngine.unseal(table.rawValue, key, try reply.bytes(index, 1))
                entries.append(CatalogEntry(key: key, value: value))
            }
            return entries
        }
    }

    static func seal(_ table: String, _ key: String, _ value: [UInt8]) -> [UInt8] {
        var sealed = ByteWriter(capacity: 8 + value.count)
        sealed.u64(checksum(table, key, value[...]))
        sealed.raw(value)
        return sealed.bytes
    }

    static func unseal(_ table: String, _ key: String, _ sealed: [UInt8]) throws(Fault) -> [UInt8] {
        var reader = ByteReader(sealed)
        guard let sum = try? reader.u64(), sum == checksum(table, key, sealed[8...]) else {
            throw .engine(.corrupt("the \(table) \(key) is damaged"))
        }
        return Array(sealed[8...])
    }

    private static func checksum(_ table: String, _ key: String, _ value: ArraySlice<UInt8>) -> UInt64 {
        let seed = Checksum.of(Array("\(table)/\(key)".utf8))
        return value.withUnsafeBytes { Checksum.of($0, seed: seed) }
    }
}
