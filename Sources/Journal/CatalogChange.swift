// Changes of the small tables beside the journals.

/// What a change of the small tables rests on: a setting that must still be as it was read when the change
/// was computed, and is another one with it. So of two who compute from the same, one finds that it came too
/// late.
public struct CatalogStep: Hashable, Sendable {
    /// Of a setting.
    public var key: String
    /// As it was read; `nil` where it was not there.
    public var from: [UInt8]?
    /// A value that nobody else ever writes, so that a change whose answer was lost is known again.
    public var to: [UInt8]

    public init(key: String, from: [UInt8]?, to: [UInt8]) {
        self.key = key
        self.from = from
        self.to = to
    }
}

/// Entries of the small tables that are written together; of one entry the last word counts.
public struct CatalogWrites: Hashable, Sendable {
    /// By table and key; `nil` is removed.
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
        guard step.from != step.to else { throw .refused("a change leads to another value") }
        for table in CatalogTable.allCases {
            let entries = writes.puts(table)
            for entry in entries { try check(key: entry.key, value: entry.value) }
            guard table == .setting else { continue }
            guard !entries.contains(where: { $0.key == step.key }), !writes.removals(table).contains(step.key)
            else { throw .refused("a change rests on a setting that it writes besides") }
        }
    }
}
