import Bytes
import Journal

// The small tables. Each value comes behind a checksum, seeded with table and key; every read verifies it.

extension PostgresEngine {
    public func put(_ table: CatalogTable, key: String, value: [UInt8]) throws(EngineError) {
        try PostgresEngine.check(key: key, value: value)
        try ask { connection throws(Fault) in try put(table, key, value: value, connection: connection) }
    }

    func put(
        _ table: CatalogTable, _ key: String, value: [UInt8], connection: PostgresConnection
    ) throws(Fault) {
        let sealed = PostgresEngine.seal(table.rawValue, key, value: value)
        _ = try connection.run(
            "INSERT INTO tidecast.\(table.rawValue) (key, value) VALUES ($1::text, $2::bytea)"
                + " ON CONFLICT (key) DO UPDATE SET value = excluded.value", [.text(key), .bytes(sealed)])
    }

    /// One statement, which also writes if there is another value. So it commits behind what it saw (see
    /// `PostgresEngine`), and no failover forgets the value that it returns.
    public func putIfAbsent(
        _ table: CatalogTable, key: String, value: [UInt8]
    ) throws(EngineError) -> [UInt8] {
        try PostgresEngine.check(key: key, value: value)
        let sealed = PostgresEngine.seal(table.rawValue, key, value: value)
        return try ask { connection throws(Fault) in
            let reply = try connection.run(
                "INSERT INTO tidecast.\(table.rawValue) AS t (key, value) VALUES ($1::text, $2::bytea)"
                    + " ON CONFLICT (key) DO UPDATE SET value = t.value RETURNING t.value",
                [.text(key), .bytes(sealed)])
            guard reply.count == 1 else { throw .engine(.corrupt("the \(table.rawValue) \(key) vanished")) }
            return try PostgresEngine.unseal(table.rawValue, key, sealed: try reply.bytes(0, 0))
        }
    }

    public func change(_ step: CatalogStep, _ writes: CatalogWrites) throws(EngineError) -> Bool {
        try EngineRules.check(step, writes)
        func sealed(_ key: String, _ value: [UInt8]) -> [UInt8] {
            PostgresEngine.seal(CatalogTable.setting.rawValue, key, value: value)
        }
        var parameters = [
            Parameter.text(step.key), step.from.map { .bytes(sealed(step.key, $0)) } ?? .null,
            .bytes(sealed(step.key, step.to)),
        ]
        for table in CatalogTable.allCases {
            let puts = writes.puts(table)
            for entry in puts { try PostgresEngine.check(key: entry.key, value: entry.value) }
            parameters += [
                .texts(puts.map(\.key)),
                .byteStrings(puts.map { PostgresEngine.seal(table.rawValue, $0.key, value: $0.value) }),
                .texts(writes.removals(table).filter { !$0.utf8.contains(0) }),
            ]
        }
        let statement = step.from == nil ? CatalogStatement.first : CatalogStatement.next
        var isRepeat = false
        return try ask { connection throws(Fault) in
            defer { isRepeat = true }
            if try connection.run(statement, parameters).int(0, 0) == 1 { return true }
            guard isRepeat else { return false }
            // The lost try may have gone in, and another process may have changed the setting after it.
            throw .engine(
                .refused(
                    "the connection to the database was lost during a change, and another change was made"
                        + " since: look whether the first change was made before you repeat it"
                ))
        }
    }

    public func get(_ table: CatalogTable, key: String) throws(EngineError) -> [UInt8]? {
        guard !key.utf8.contains(0) else { return nil }
        return try ask { connection throws(Fault) in try get(table, key, connection: connection) }
    }

    func get(_ table: CatalogTable, _ key: String, connection: PostgresConnection) throws(Fault) -> [UInt8]? {
        let reply = try connection.run(
            "SELECT value FROM tidecast.\(table.rawValue) WHERE key = $1::text", [.text(key)])
        guard reply.count == 1 else { return nil }
        return try PostgresEngine.unseal(table.rawValue, key, sealed: try reply.bytes(0, 0))
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
                let value = try PostgresEngine.unseal(table.rawValue, key, sealed: try reply.bytes(index, 1))
                entries.append(CatalogEntry(key: key, value: value))
            }
            return entries
        }
    }

    static func seal(_ table: String, _ key: String, value: [UInt8]) -> [UInt8] {
        var sealed = ByteWriter(capacity: 8 + value.count)
        sealed.u64(checksum(table, key, value: value[...]))
        sealed.raw(value)
        return sealed.bytes
    }

    static func unseal(_ table: String, _ key: String, sealed: [UInt8]) throws(Fault) -> [UInt8] {
        var reader = ByteReader(sealed)
        guard let sum = try? reader.u64(), sum == checksum(table, key, value: sealed[8...]) else {
            throw .engine(.corrupt("the \(table) \(key) is damaged"))
        }
        return Array(sealed[8...])
    }

    private static func checksum(_ table: String, _ key: String, value: ArraySlice<UInt8>) -> UInt64 {
        let seed = Checksum.of(Array("\(table)/\(key)".utf8))
        return value.withUnsafeBytes { Checksum.of($0, seed: seed) }
    }
}

/// The one statement that changes the small tables. The process that takes the step holds the setting's row
/// until the statement is over, and all writes depend on that step. A process that waited for the row finds
/// another value. The statement also accepts the step's own new value: that is the repeat of a try whose
/// answer was lost.
private enum CatalogStatement {
    static let next = statement(
        "UPDATE tidecast.setting SET value = $3::bytea WHERE key = $1::text AND value IN ($2::bytea, $3)"
            + " RETURNING key")
    static let first = statement(
        "INSERT INTO tidecast.setting AS s (key, value) SELECT $1::text, $3::bytea WHERE $2::bytea IS NULL"
            + " ON CONFLICT (key) DO UPDATE SET value = excluded.value WHERE s.value = excluded.value"
            + " RETURNING s.key")

    private static func statement(_ step: String) -> String {
        var parts = ["step AS (\(step))"]
        for (index, table) in CatalogTable.allCases.enumerated() {
            let (name, first) = (table.rawValue, 4 + 3 * index)
            parts += [
                """
                put_\(name) AS (
                    INSERT INTO tidecast.\(name) (key, value) SELECT e.key, e.value
                    FROM step, unnest($\(first)::text[], $\(first + 1)::bytea[]) AS e (key, value)
                    ON CONFLICT (key) DO UPDATE SET value = excluded.value)
                """,
                """
                cut_\(name) AS (
                    DELETE FROM tidecast.\(name) AS t USING step WHERE t.key = ANY ($\(first + 2)::text[]))
                """,
            ]
        }
        return "WITH " + parts.joined(separator: ", ") + " SELECT count(*) FROM step"
    }
}
