import Credentials
import Glibc
import Journal
import Model
import NodeCore

// Which entries of the small tables are secrets, and when a node seals them: at each write, and at the start
// of a node that would write them in another form than they are stored.

extension Catalog {
    package static let gossipSetting = "gossip-key"

    package static func isSecret(_ table: CatalogTable, _ key: String) -> Bool {
        switch table {
        case .key: true
        case .setting:
            [signingSetting, gossipSetting].contains(key) || isPush(key)
        case .project, .credential: false
        }
    }

    /// Opens a sealed value, and returns any other value as it is.
    package static func opened(_ entry: CatalogEntry, _ table: CatalogTable, vault: Vault) throws -> [UInt8] {
        isSecret(table, entry.key) ? try vault.open(entry.value, table, row: entry.key) : entry.value
    }

    /// Writes again, as this node does, the secrets that are stored in another form, or sealed under another
    /// key. Other nodes may change the catalog meanwhile, or do the same.
    ///
    /// - Returns: How many secrets were written.
    @discardableResult
    package static func sealAnew(
        _ engine: any Engine, _ vault: Vault, by author: AuditEntry.Author, now: WallTime
    ) throws -> Int {
        var tries = ChangeTries()
        var random = SystemRandomNumberGenerator()
        while true {
            var draft = try CatalogDraft(engine, vault)
            var count = 0
            for table in [CatalogTable.key, .setting] {
                for entry in try engine.all(table)
                where isSecret(table, entry.key) && !vault.isCurrent(entry.value)
                    && !draft.contents.isDamaged(table, entry.key)
                {
                    let value = try vault.open(entry.value, table, row: entry.key)
                    draft.writes.put(
                        table, key: entry.key, value: try vault.seal(value, table, row: entry.key))
                    count += 1
                }
            }
            guard count > 0 else { return 0 }
            draft.tell(
                AuditEntry(time: now, author: author, action: "secrets.seal", subject: vault.description))
            if try engine.erasing({ try draft.commit() != nil }) { return count }
            guard let pause = tries.pause(using: &random) else { throw CatalogDraft.overtaken }
            usleep(UInt32(clamping: pause.microseconds))
        }
    }
}
