import Bytes
import Journal

/// A row of the small tables that makes no sense, and that nodes pass over (rule: damage-stays-in-its-row).
package struct DamagedRow: Hashable, Sendable {
    package var table: CatalogTable
    package var key: String
    /// A sentence, or the part of one that says what is wrong.
    package var reason: String

    /// As operators read it.
    package var text: String { "\(table.rawValue) \(key): \(reason)" }
}

extension Catalog.Contents {
    /// Reads a row on which only a part of the settings depends. Damage is noted, and the row counts as none.
    /// Throws for a row of a newer build, and if the secrets key is missing.
    mutating func passOver(
        _ table: CatalogTable, row key: String, _ read: (inout Catalog.Contents) throws -> Void
    ) throws {
        do { try read(&self) } catch let error as DecodeError {
            if case .version = error.reason { throw error }
            damaged.append(DamagedRow(table: table, key: key, reason: "\(error)"))
        } catch EngineError.corrupt(let reason) {
            damaged.append(DamagedRow(table: table, key: key, reason: reason))
        }
    }

    func isDamaged(_ table: CatalogTable, _ key: String) -> Bool {
        damaged.contains { $0.table == table && $0.key == key }
    }
}
