import Bytes
import COpenSSL
import Credentials
import Journal
import Model
import RegistrationIDs

/// The contents of the engine's small tables: projects, credentials, keys and settings. Runs on the engine's
/// thread.
package enum Catalog {
    static let version: UInt8 = 1
    /// Changes with each change of the catalog, so that the other nodes of a cluster notice.
    package static let versionKey = "catalog-version"

    package static func number(of version: [UInt8]) -> UInt64 {
        version.prefix(8).reversed().reduce(0) { $0 << 8 | UInt64($1) }
    }

    /// A rising number and 8 random bytes, so that no two changes write the same version.
    package static func version(after former: [UInt8]?) throws -> [UInt8] {
        let next = number(of: former ?? []) &+ 1
        return (0..<8).map { UInt8(truncatingIfNeeded: next >> ($0 * 8)) } + (try random(8))
    }

    /// The whole catalog. `load` also creates what every cluster needs and does not have yet.
    package struct Contents: Sendable {
        /// The version from before the other contents were read: these are at least as new.
        package var version: [UInt8]?
        /// Seals the secrets that are written next.
        package var vault = Vault.plain
        package var directory = Directory()
        package var credentials = CredentialBook()
        package var limits: [ProjectNumber: [String: UInt64]] = [:]
        package var registrationKeys: [RegistrationKey] = []
        package var signingKeys = SigningKeys([UInt8](repeating: 0, count: SigningKeys.materialBytes))
        package var tokenURIs: Set<String> = []
        /// By project; a project without an entry has no Web Push.
        package var webPush: [ProjectNumber: WebPushSettings] = [:]
        package var apns: [ProjectNumber: APNsSettings] = [:]
        package var relays: [ProjectNumber: RelaySettings] = [:]
        package var pushServices: [ProjectNumber: PushServiceSettings] = [:]
        /// In a cluster: the epoch of each project's home partition when the project was created. While the
        /// partition still has that epoch, no earlier owner has granted anything of the project's quotas.
        package var births: [ProjectNumber: Epoch] = [:]
        /// The numbers of the audit log's entries, rising.
        package var audit: [UInt64] = []
        /// Names of nodes that an operator has taken out of the cluster, by `cluster drain`.
        package var cordoned: Set<String> = []
        /// Certificates of nodes that an operator has refused, by `cluster refuse`.
        package var refusedCertificates: Set<CertificateFingerprint> = []
        /// The rows that `load` passed over.
        package var damaged: [DamagedRow] = []
    }

    package static func load(_ engine: any Engine, _ vault: Vault) throws -> Contents {
        var contents = Contents()
        contents.vault = vault
        contents.version = try engine.get(.setting, key: versionKey)
        for entry in try engine.all(.project) {
            let (project, limits) = try decodeProject(entry)
            contents.directory.add(project)
            contents.limits[project.number] = limits
        }
        for entry in try engine.all(.credential) {
            try contents.passOver(.credential, row: entry.key) { try decodeCredential(entry, into: &$0) }
        }
        for entry in try engine.all(.key) {
            let value = try opened(entry, .key, vault: vault)
            contents.registrationKeys.append(try registrationKey(entry.key, value))
        }
        var uses = CredentialUses()
        var keySettings = KeySettings()
        for entry in try engine.all(.setting) {
            if let number = auditNumber(entry) {
                contents.audit.append(number)
                continue
            }
            if isPush(entry.key) {
                try contents.passOver(.setting, row: entry.key) {
                    let value = try opened(entry, .setting, vault: vault)
                    try $0.readPush(CatalogEntry(key: entry.key, value: value))
                }
                continue
            }
            let value = try opened(entry, .setting, vault: vault)
            if try keySettings.read(CatalogEntry(key: entry.key, value: value)) { continue }
            if uses.read(entry) { continue }
            // The key alone counts, whatever the value is: a cordoned node stays out.
            if entry.key.hasPrefix(cordonPrefix) {
                contents.cordoned.insert(String(entry.key.dropFirst(cordonPrefix.count)))
            }
            try contents.passOver(.setting, row: entry.key) { contents in
                if let certificate = try refusedCertificate(entry.key) {
                    contents.refusedCertificates.insert(certificate)
                }
            }
            if entry.key == lastNumberKey { contents.directory.noteNumber(projectNumber(entry.value)) }
            try contents.passOver(.setting, row: entry.key) { try readBirth(entry, into: &$0) }
        }
        // Otherwise the next change would take a damaged credential for one that is gone, and delete its row.
        contents.credentials.used = uses.all.filter { !contents.isDamaged(.credential, $0.key) }
        contents.mergePush()
        try contents.merge(keySettings, engine)
        return contents
    }

    private static let birthPrefix = "birth:"

    private static func readBirth(_ entry: CatalogEntry, into contents: inout Contents) throws {
        guard entry.key.hasPrefix(birthPrefix),
            let number = UInt32(entry.key.dropFirst(birthPrefix.count)), number < ProjectNumber.limit
        else { return }
        // A project without a birth waits until an earlier owner's grants are over.
        guard entry.value.count == 8 else {
            throw EngineError.corrupt(
                "the birth of project \(number) has \(entry.value.count) bytes, not 8: it is from a newer"
                    + " tidecast, or damaged")
        }
        contents.births[ProjectNumber(number)] = Epoch(entry.value.reduce(0) { $0 << 8 | UInt64($1) })
    }

    /// The key of the last number that a project got.
    package static let lastNumberKey = "last-project-number"

    package static func projectNumber(_ value: [UInt8]) -> UInt32 { value.reduce(0) { $0 << 8 | UInt32($1) } }

    package static func putBirth(_ project: ProjectNumber, _ epoch: Epoch, to writes: inout CatalogWrites) {
        let value = (0..<8).map { UInt8(truncatingIfNeeded: epoch.rawValue >> UInt64(56 - 8 * $0)) }
        writes.put(.setting, key: "\(birthPrefix)\(project.rawValue)", value: value)
    }

    // MARK: Cordons

    private static let cordonPrefix = "cordon:"

    /// Keeps the node of this name out of the cluster, whatever restarts it, until `uncordon`.
    package static func cordon(_ node: String, to writes: inout CatalogWrites) {
        writes.put(.setting, key: cordonPrefix + node, value: [version])
    }

    package static func uncordon(_ node: String, from writes: inout CatalogWrites) {
        writes.remove(.setting, key: cordonPrefix + node)
    }

    package static func isCordoned(_ node: String, _ engine: any Engine) throws -> Bool {
        try engine.get(.setting, key: cordonPrefix + node) != nil
    }

    package static func random(_ count: Int) throws -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        guard RAND_bytes(&bytes, Int32(count)) == 1 else {
            throw EngineError.ioFailure("libcrypto gives no random bytes")
        }
        return bytes
    }

    // MARK: Projects

    package static func put(_ project: Project, _ limits: [String: UInt64], to writes: inout CatalogWrites) {
        var out = ByteWriter()
        out.u8(version)
        out.u32(project.number.rawValue)
        out.varint(limits.count)
        for (name, value) in limits.sorted(by: { $0.key < $1.key }) {
            out.string(name.utf8)
            out.varint(value)
        }
        writes.put(.project, key: project.id, value: out.bytes)
    }

    private static func decodeProject(_ entry: CatalogEntry) throws -> (Project, [String: UInt64]) {
        var reader = ByteReader(entry.value)
        _ = try reader.version(of: "a project", version...version)
        let number = try reader.u32()
        guard number < ProjectNumber.limit else { throw reader.fail("a project's number") }
        var limits: [String: UInt64] = [:]
        for _ in 0..<(try reader.count(max: 64)) {
            let name = String(decoding: try reader.string(max: 64), as: UTF8.self)
            limits[name] = try reader.varint()
        }
        try reader.expectEnd()
        return (Project(id: entry.key, number: ProjectNumber(number)), limits)
    }
}
