import Credentials
import FCMAPI
import Journal
import Model

// The terms of credentials are settings of their own, which a former build ignores. They are not in the
// credentials' own rows, because a former build reads those rows. A revoked credential has no row any more,
// so a former build refuses it too.

extension Catalog {
    private static let lifePrefix = "credential:"
    private static let usePrefix = "used:"

    /// The settings about credentials.
    struct CredentialTerms {
        var all: [String: Credential] = [:]
        var used: [String: WallTime] = [:]

        /// Whether the entry was one of these settings.
        mutating func read(_ entry: CatalogEntry) throws -> Bool {
            if entry.key.hasPrefix(lifePrefix) {
                all[String(entry.key.dropFirst(lifePrefix.count))] = try Credential(decoding: entry.value)
                return true
            }
            guard entry.key.hasPrefix(usePrefix) else { return false }
            // A time of use matters little: a time that cannot be read counts as none.
            if let time = Catalog.time(entry.value) {
                used[String(entry.key.dropFirst(usePrefix.count))] = time
            }
            return true
        }
    }

    package static func time(_ value: [UInt8]) -> WallTime? {
        guard value.count == 8 else { return nil }
        let milliseconds = value.reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        return milliseconds < UInt64(Credential.endMax.milliseconds)
            ? WallTime(milliseconds: Int64(milliseconds)) : nil
    }

    /// Writes down when credentials were used, except where a later time is stored. Leaves the catalog's
    /// version as it is, so no node reads the catalog again for a use.
    package static func putUses(_ uses: [String: WallTime], to engine: any Engine) throws {
        for (name, time) in uses {
            let key = usePrefix + name
            if let known = try engine.get(.setting, key: key).flatMap({ Catalog.time($0) }), known >= time {
                continue
            }
            let value = (0..<8).map { UInt8(truncatingIfNeeded: time.milliseconds >> Int64(56 - 8 * $0)) }
            try engine.put(.setting, key: key, value: value)
        }
    }

    package static func put(_ name: String, _ credential: Credential, to writes: inout CatalogWrites) {
        writes.put(.setting, key: lifePrefix + name, value: credential.encoded)
        if credential.revoked != nil { removeRow(name, from: &writes) }
    }

    package static func removeAll(_ name: String, from writes: inout CatalogWrites) {
        writes.remove(.setting, key: lifePrefix + name)
        writes.remove(.setting, key: usePrefix + name)
        removeRow(name, from: &writes)
    }

    private static func removeRow(_ name: String, from writes: inout CatalogWrites) {
        writes.remove(.credential, key: "key:\(name)")
        writes.remove(.credential, key: "account:\(name)")
    }
}

extension Catalog.Contents {
    /// Brings the rows of credentials and their terms together. Terms without a row are of a project that
    /// a former build has deleted. A row without terms is from a build that kept no terms.
    mutating func merge(_ terms: Catalog.CredentialTerms) {
        for (name, credential) in terms.all {
            if let project = credential.project {
                let hasRow = directory.keys[name] != nil || directory.accounts[name] != nil
                guard directory.byNumber[project] != nil, hasRow || credential.revoked != nil else {
                    continue
                }
            }
            credentials.insert(name, credential)
            directory.apply(name, credential)
        }
        for (name, key) in directory.keys where credentials.all[name] == nil {
            credentials.insert(
                name, Credential(kind: key.kind == .device ? .device : .bearer, project: key.project))
        }
        for (name, account) in directory.accounts where credentials.all[name] == nil {
            let credential = Credential(kind: .serviceAccount, project: account.project, isPlain: true)
            credentials.insert(name, credential)
            directory.apply(name, credential)
        }
        directory.unnamedKeyRevocations = credentials.unnamedKeyRevocations
        credentials.used = terms.used
    }
}

extension CatalogDraft {
    /// Writes a credential's terms as the book has it now.
    package mutating func record(_ name: String) {
        guard let credential = contents.credentials.all[name] else { return }
        Catalog.put(name, credential, to: &writes)
        contents.directory.apply(name, credential)
        contents.directory.unnamedKeyRevocations = contents.credentials.unnamedKeyRevocations
    }

    /// Adds a new key. The catalog keeps only the key's hash.
    package mutating func add(key: String, _ credential: Credential, now: WallTime) throws {
        let name = KeyHash.of(key.utf8)
        try contents.credentials.add(name, credential, now: now)
        if let project = credential.project {
            let kind: Directory.KeyKind = credential.kind == .device ? .device : .bearer
            Catalog.put(keyHash: name, kind, project, to: &writes)
            contents.directory.keys[name] = .init(kind, project)
        }
        record(name)
        forget(contents.credentials.sweep(credential.project, now: now))
    }

    package mutating func add(
        _ file: ServiceAccountFile, _ tokenURI: String, credential: Credential, now: WallTime
    ) throws {
        guard let project = credential.project else { return }
        try contents.credentials.add(file.keyID, credential, now: now)
        Catalog.put(file, project, tokenURI: tokenURI, to: &writes)
        contents.directory.accounts[file.keyID] = .init(
            project: project, email: file.email, publicKey: file.publicKey)
        contents.tokenURIs.insert(tokenURI)
        record(file.keyID)
        forget(contents.credentials.sweep(project, now: now))
    }

    /// Deletes these credentials, and each use of a credential that is gone: a loop may have noted such a use
    /// late.
    package mutating func forget(_ names: [String]) {
        let strays = contents.credentials.used.keys.filter { contents.credentials.all[$0] == nil }
        for name in names + strays {
            Catalog.removeAll(name, from: &writes)
            contents.credentials.used[name] = nil
            contents.directory.forget(name)
        }
    }

    package mutating func remove(_ project: Project) {
        forget(contents.credentials.removeAll(of: project.number))
        removePush(project.number)
        writes.remove(.project, key: project.id)
        contents.directory.remove(project)
        contents.limits[project.number] = nil
    }
}
