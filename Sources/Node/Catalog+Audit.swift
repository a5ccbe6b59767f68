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

    /// The newest first. One that a newer build wrote in another form is passed over.
    static func audit(_ engine: any Engine, limit: Int) throws -> [AuditEntry] {
        let entries = try engine.all(.setting).filter { auditNumber($0) != nil }
        return entries.suffix(limit).reversed().compactMap { try? AuditEntry(decoding: $0.value) }
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
