// Changes of the small tables beside the journals.

/// The condition of a change of the small tables. A setting must still have the value from which the change
/// was computed, and the change gives that setting a new value. So of two writers that compute from the same
/// value, the later one fails.
public struct CatalogStep: Hashable, Sendable {
    /// The key of a setting.
    public var key: String
    /// The value that was read; `nil` if there was none.
    public var from: [UInt8]?
    /// A value that no other change ever writes, so that a repeat after a lost answer is recognised.
    public var to: [UInt8]

    public init(key: String, from: [UInt8]?, to: [UInt8]) {
        self.key = key
        self.from = from
        self.to = to
    }
}

/// Entries of the small tables to write together. For each entry the last call counts.
public struct CatalogWrites: Hashable, Sendable {
    /// By table and key; `nil` removes the entry.
    private var values: [CatalogTable: [String: [UInt8]?]] = [:]

    public init() {}

    public mutating func put(_ table: CatalogTable, key: String, value: [UInt8]) {
        values[table, default: [:]].updateValue(value, forKey: key)
    }

    public mutating func remove(_ table: CatalogTable, key: String) {
        values[table, default: [:]].updateValue(nil, forKey: key)
    }

    public var isEmpty: Bool { values.isEmpty }

    /// By rising key.
    public func puts(_ table: CatalogTable) -> [CatalogEntry] {
        (values[table] ?? [:]).compactMap { key, value in value.map { CatalogEntry(key: key, value: $0) } }
            .sorted { $0.key < $1.key }
    }

    public func removals(_ table: CatalogTable) -> [String] {
        (values[table] ?? [:]).filter { $0.value == nil }.keys.sorted()
    }
}

extension EngineRules {
    /// Checks a change of the small tables.
    public static func check(_ step: CatalogStep, _ writes: CatalogWrites) throws(EngineError) {
        try check(key: step.key, value: step.to)
        guard step.from != step.to else { throw .refused("a change must lead to another value") }
        for table in CatalogTable.allCases {
            let entries = writes.puts(table)
            for entry in entries { try check(key: entry.key, value: entry.value) }
            guard table == .setting else { continue }
            guard !entries.contains(where: { $0.key == step.key }), !writes.removals(table).contains(step.key)
            else { throw .refused("a change must not write the setting that it compares") }
        }
    }
}
