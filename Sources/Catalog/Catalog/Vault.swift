import Bytes
import Journal
import Model
import RegistrationIDs

/// Seals the secrets of the small tables with AES-256-GCM (NIST SP 800-38D) and opens them.
///
/// A sealed value is `E5`, the form's version, the key's id (8 bytes), a nonce (12), the ciphertext, and the
/// tag (16). The tag also covers the first ten bytes and the name of the row, so that a value that was moved
/// to another row does not open. A plain value is shorter, or begins with another byte.
package struct Vault: Sendable {
    private static let mark: UInt8 = 0xE5
    private static let version: UInt8 = 1
    private static let nonceBytes = 12
    private static let headBytes = 2 + SecretsKeys.Key.idBytes
    private static let bytesMin = headBytes + nonceBytes + GCM.tagBytes

    private let keys: SecretsKeys

    package init(_ keys: SecretsKeys) { self.keys = keys }

    /// Seals nothing, and opens nothing that is sealed.
    package static let plain = Vault(.none)

    /// For the audit log.
    package var description: String {
        keys.sealing.map { "under secrets key \($0.name)" } ?? "not sealed any more"
    }
    package var ids: [UInt64] { keys.all.map(\.number) }

    /// Why this vault must not seal: running nodes, each with the ids of its keys, could not open what it
    /// seals. `nil` if each of them can.
    package func refusal(beside nodes: [String: [UInt64]]) -> String? {
        guard let key = keys.sealing else { return nil }
        let without = nodes.filter { !$0.value.contains(key.number) }.keys.sorted()
        guard !without.isEmpty else { return nil }
        return "\(without.joined(separator: ", ")) would stop: this node would seal the cluster's keys under"
            + " the secrets key \(key.name), which is not given there. Give \"\(SecretsKeys.plain)\" and the"
            + " key to every node first"
    }

    package var hasKeys: Bool { !keys.all.isEmpty }

    static func isSealed(_ value: [UInt8]) -> Bool { value.count > bytesMin && value[0] == mark }

    /// Whether the stored value has the form in which this vault would write it.
    package func isCurrent(_ value: [UInt8]) -> Bool {
        guard Vault.isSealed(value) else { return keys.sealing == nil }
        return keys.sealing?.id == Array(value[2..<Vault.headBytes])
    }

    /// The value as the row must hold it.
    package func seal(_ value: [UInt8], _ table: CatalogTable, row: String) throws -> [UInt8] {
        guard let key = keys.sealing else { return value }
        let head = [Vault.mark, Vault.version] + key.id
        let nonce = try Catalog.random(Vault.nonceBytes)
        let sealed = GCM.seal(value, key: key.material, nonce: nonce, with: head + Vault.name(table, row))
        guard let sealed else { throw EngineError.ioFailure("libcrypto cannot seal with AES-256-GCM") }
        return head + nonce + sealed
    }

    /// The plain value of the row, which may be sealed or not.
    package func open(_ value: [UInt8], _ table: CatalogTable, row: String) throws -> [UInt8] {
        guard Vault.isSealed(value) else { return value }
        guard value[1] == Vault.version else {
            throw NodeError(
                FormatVersion.sentence(
                    "a sealed \(table.rawValue)", UInt64(value[1]),
                    known: UInt64(Vault.version)...UInt64(Vault.version)))
        }
        let head = Array(value[..<Vault.headBytes])
        guard let key = keys.all.first(where: { $0.id == Array(head[2...]) }) else {
            throw NodeError(missing(Hex.text(head[2...])))
        }
        let nonceEnd = Vault.headBytes + Vault.nonceBytes
        let opened = GCM.open(
            Array(value[nonceEnd...]), key: key.material, nonce: Array(value[Vault.headBytes..<nonceEnd]),
            with: head + Vault.name(table, row))
        guard let opened else {
            throw EngineError.corrupt(
                "the sealed \(table.rawValue) \(row) is damaged: it does not open under its key")
        }
        return opened
    }

    private func missing(_ name: String) -> String {
        let how = "give that key to every node, by --secrets-key-file or TIDECAST_SECRETS_KEY"
        return keys.all.isEmpty
            ? "the server's own keys are sealed under the secrets key \(name), and this server was given"
                + " none: \(how)"
            : "the server's own keys are sealed under the secrets key \(name), and this server was given only"
                + " \(keys.all.map(\.name).joined(separator: ", ")): \(how)"
    }

    private static func name(_ table: CatalogTable, _ row: String) -> [UInt8] {
        Array("\(table.rawValue)/\(row)".utf8)
    }
}
