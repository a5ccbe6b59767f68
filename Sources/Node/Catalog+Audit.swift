import Credentials
import Journal
import Model

// The audit log: entries in settings of their own, written together with the change that they tell of, under
// the number of the version that the catalog has with it. A former build passes over them.

extension Catalog {
    private static let auditPrefix = "audit:"

    fileprivate static func auditKey(_ number: UInt64) -> String {
        var digits: [UInt8] = []
        Hex.append(number, digits: 16, to: &digits)
        return auditPrefix + String(decoding: digits, as: UTF8.self)
    }

    /// The number of the entry; `nil` where it is none of the audit log's.
    static func auditNumber(_ entry: CatalogEntry) -> UInt64? {
        entry.key.hasPrefix(auditPrefix)
            ? UInt64(entry.key.dropFirst(auditPrefix.count), radix: 16) : nil
    }

    /// The newest first, changes in their order and what was refused between them. One that a newer build
    /// wrote in another form is passed over.
    static func audit(_ engine: any Engine, limit: Int) throws -> [AuditEntry] {
        let entries = try engine.all(.setting)
        func newest(_ isWanted: (CatalogEntry) -> Bool) -> ArraySlice<AuditEntry> {
            entries.filter(isWanted).suffix(limit).reversed()
                .compactMap { try? AuditEntry(decoding: $0.value) }[...]
        }
        var changes = newest { auditNumber($0) != nil }
        var refused = newest { $0.key.hasPrefix(refusedPrefix) }
        var all: [AuditEntry] = []
        while all.count < limit {
            guard let change = changes.first else { return all + refused.prefix(limit - all.count) }
            if let other = refused.first, other.time > change.time {
                all.append(refused.removeFirst())
            } else {
                all.append(changes.removeFirst())
            }
        }
        return all
    }

    /// In settings of their own, so that they push no change out; nobody reads the catalog anew for them.
    private static let refusedPrefix = "refused:"

    /// Writes the entries, under their time and something of their own, and throws the oldest away.
    static func putRefused(_ entries: [AuditEntry], to engine: any Engine) throws {
        for entry in entries {
            var digits: [UInt8] = []
            Hex.append(UInt64(max(0, entry.time.milliseconds)), digits: 16, to: &digits)
            let key = refusedPrefix + String(decoding: digits, as: UTF8.self) + Hex.text(try random(4))
            try engine.put(.setting, key: key, value: entry.encoded)
        }
        let all = try engine.all(.setting).filter { $0.key.hasPrefix(refusedPrefix) }
        for old in all.dropLast(RefusedAttempts.entriesMax) { try engine.remove(.setting, key: old.key) }
    }
}

extension CatalogDraft {
    /// Tells of the change, and throws the oldest entries away.
    mutating func tell(_ entry: AuditEntry) {
        let number = Catalog.number(of: contents.version ?? []) &+ 1
        writes.put(.setting, key: Catalog.auditKey(number), value: entry.encoded)
        contents.audit.append(number)
        let beyond = contents.audit.count - AuditEntry.countMax
        guard beyond > 0 else { return }
        for old in contents.audit.prefix(beyond) { writes.remove(.setting, key: Catalog.auditKey(old)) }
        contents.audit.removeFirst(beyond)
    }
}
