import Bytes
import Journal

// The small tables. Each value comes behind a checksum, seeded with table and key; every read verifies it.

extension SQLiteEngine {
    public func put(_ table: CatalogTable, key: String, value: [UInt8]) throws(EngineError) {
        try EngineRules.check(key: key, value: value)
        try database.transaction { () throws(EngineError) in try store(table, key, value: value) }
    }

    /// Inside a transaction only.
    private func store(_ table: CatalogTable, _ key: String, value: [UInt8]) throws(EngineError) {
        var stored = ByteWriter(capacity: 8 + value.count)
        stored.u64(SQLiteEngine.checksum(table, key, value: value[...]))
        stored.raw(value)
        try database.statement("INSERT OR REPLACE INTO \"\(table.rawValue)\" (key, value) VALUES (?1, ?2)")
            .bind(1, key).bind(2, stored.bytes).run()
    }

    /// Inside a transaction only.
    private func erase(_ table: CatalogTable, _ key: String) throws(EngineError) {
        try database.statement("DELETE FROM \"\(table.rawValue)\" WHERE key = ?1").bind(1, key).run()
    }

    public func putIfAbsent(
        _ table: CatalogTable, key: String, value: [UInt8]
    ) throws(EngineError) -> [UInt8] {
        try EngineRules.check(key: key, value: value)
        return try database.transaction { () throws(EngineError) in
            if let known = try get(table, key: key) { return known }
            try store(table, key, value: value)
            return value
        }
    }

    public func change(_ step: CatalogStep, _ writes: CatalogWrites) throws(EngineError) -> Bool {
        try EngineRules.check(step, writes)
        return try database.transaction { () throws(EngineError) in
            let standing = try get(.setting, key: step.key)
            guard standing == step.from || standing == step.to else { return false }
            try store(.setting, step.key, value: step.to)
            for table in CatalogTable.allCases {
                for entry in writes.puts(table) { try store(table, entry.key, value: entry.value) }
                for key in writes.removals(table) { try erase(table, key) }
            }
            return true
        }
    }

    public func get(_ table: CatalogTable, key: String) throws(EngineError) -> [UInt8]? {
        let statement = try database.statement("SELECT value FROM \"\(table.rawValue)\" WHERE key = ?1")
        statement.bind(1, key)
        defer { statement.reset() }
        guard try statement.step() else { return nil }
        return try SQLiteEngine.open(table, key, stored: statement.bytes(0))
    }

    public func remove(_ table: CatalogTable, key: String) throws(EngineError) {
        try database.transaction { () throws(EngineError) in try erase(table, key) }
    }

    public func all(_ table: CatalogTable) throws(EngineError) -> [CatalogEntry] {
        let statement = try database.statement("SELECT key, value FROM \"\(table.rawValue)\" ORDER BY key")
        defer { statement.reset() }
        var entries: [CatalogEntry] = []
        while try statement.step() {
            let key = statement.text(0)
            entries.append(
                CatalogEntry(key: key, value: try SQLiteEngine.open(table, key, stored: statement.bytes(1))))
        }
        return entries
    }

    private static func open(_ table: CatalogTable, _ key: String, stored: [UInt8]) throws(EngineError)
        -> [UInt8]
    {
        var reader = ByteReader(stored)
        guard let sum = try? reader.u64(), sum == checksum(table, key, value: stored[8...]) else {
            throw .corrupt("the \(table.rawValue) \(key) is damaged")
        }
        return Array(stored[8...])
    }

    private static func checksum(_ table: CatalogTable, _ key: String, value: ArraySlice<UInt8>) -> UInt64 {
        let seed = Checksum.of(Array("\(table.rawValue)/\(key)".utf8))
        return value.withUnsafeBytes { Checksum.of($0, seed: seed) }
    }
}
