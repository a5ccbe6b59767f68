import Credentials
import Journal
import Model

// The audit log. Each entry is a setting of its own, written together with the change that it describes.
// An entry has the number of the catalog's version after the change.

extension Catalog {
    private static let auditPrefix = "audit:"

    fileprivate static func auditKey(_ number: UInt64) -> String {
        var digits: [UInt8] = []
        Hex.append(number, digits: 16, to: &digits)
        return auditPrefix + String(decoding: digits, as: UTF8.self)
    }

    /// The number of the entry; `nil` if the setting is no entry of the audit log.
    static func auditNumber(_ entry: CatalogEntry) -> UInt64? {
        entry.key.hasPrefix(auditPrefix)
            ? UInt64(entry.key.dropFirst(auditPrefix.count), radix: 16) : nil
    }

    /// The newest entries first: changes in their order, and refused attempts between them by time. Skips an
    /// entry that a newer build wrote in another form.
    package static func audit(_ engine: any Engine, limit: Int) throws -> [AuditEntry] {
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

    /// Refused attempts have their own settings, so that they push no change out of the log. They leave the
    /// catalog's version as it is, so no node reads the catalog again for them.
    private static let refusedPrefix = "refused:"

    /// Writes the entries, each under its time and four random bytes, and deletes the oldest.
    package static func putRefused(_ entries: [AuditEntry], to engine: any Engine) throws {
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
    /// Adds the entry for this change, and deletes the oldest entries.
    package mutating func tell(_ entry: AuditEntry) {
        let number = Catalog.number(of: contents.version ?? []) &+ 1
        writes.put(.setting, key: Catalog.auditKey(number), value: entry.encoded)
        contents.audit.append(number)
        let beyond = contents.audit.count - AuditEntry.countMax
        guard beyond > 0 else { return }
        for old in contents.audit.prefix(beyond) { writes.remove(.setting, key: Catalog.auditKey(old)) }
        contents.audit.removeFirst(beyond)
    }
}
