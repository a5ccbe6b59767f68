import Bytes
import Credentials
import Journal
import Model

// A credential is one row: its terms, and of a service account's key that is not revoked what verifies its
// assertions.

extension Catalog {
    private static let usePrefix = "used:"

    /// When credentials were used.
    struct CredentialUses {
        var all: [String: WallTime] = [:]

        /// Whether the entry was one of these settings.
        mutating func read(_ entry: CatalogEntry) -> Bool {
            guard entry.key.hasPrefix(usePrefix) else { return false }
            // A time of use matters little: a time that cannot be read counts as none.
            if let time = Catalog.time(entry.value) {
                all[String(entry.key.dropFirst(usePrefix.count))] = time
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

    /// Writes down when credentials were used, unless a later time is stored. Leaves the catalog's version as
    /// it is, so no node reads the catalog again for a use.
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

    package static func put(
        _ name: String, _ credential: Credential, account: Directory.ServiceAccount?,
        to writes: inout CatalogWrites
    ) {
        var out = ByteWriter()
        out.u8(version)
        out.string(credential.encoded)
        if let account, credential.revoked == nil {
            for text in [account.email, account.publicKey, account.tokenURI] { out.string(text.utf8) }
        }
        writes.put(.credential, key: name, value: out.bytes)
    }

    static func removeAll(_ name: String, from writes: inout CatalogWrites) {
        writes.remove(.credential, key: name)
        writes.remove(.setting, key: usePrefix + name)
    }

    static func decodeCredential(_ entry: CatalogEntry, into contents: inout Contents) throws {
        var reader = ByteReader(entry.value)
        _ = try reader.version(of: "a credential", version...version)
        let credential = try Credential(decoding: try reader.string(max: 1024))
        var account: Directory.ServiceAccount?
        if credential.kind == .serviceAccount, credential.revoked == nil, let project = credential.project {
            account = Directory.ServiceAccount(
                project: project, email: String(decoding: try reader.string(max: 512), as: UTF8.self),
                publicKey: String(decoding: try reader.string(max: 8192), as: UTF8.self),
                tokenURI: String(decoding: try reader.string(max: 2048), as: UTF8.self))
        }
        try reader.expectEnd()
        contents.insert(entry.key, credential, account: account)
    }
}

extension Catalog.Contents {
    mutating func insert(_ name: String, _ credential: Credential, account: Directory.ServiceAccount?) {
        if let account {
            directory.accounts[name] = account
            tokenURIs.insert(account.tokenURI)
        }
        credentials.insert(name, credential)
        directory.apply(name, credential)
    }
}

extension CatalogDraft {
    /// Writes a credential as the book has it now.
    package mutating func record(_ name: String) {
        guard let credential = contents.credentials.all[name] else { return }
        Catalog.put(name, credential, account: contents.directory.accounts[name], to: &writes)
        contents.directory.apply(name, credential)
    }

    /// Adds a new key. The catalog keeps only the key's hash.
    package mutating func add(key: String, _ credential: Credential, now: WallTime) throws {
        try add(KeyHash.of(key.utf8), credential, account: nil, now: now)
    }

    /// Adds a key of a service account, by its id.
    package mutating func add(
        _ keyID: String, _ account: Directory.ServiceAccount, credential: Credential, now: WallTime
    ) throws {
        try add(keyID, credential, account: account, now: now)
    }

    private mutating func add(
        _ name: String, _ credential: Credential, account: Directory.ServiceAccount?, now: WallTime
    ) throws {
        try contents.credentials.add(name, credential, now: now)
        contents.insert(name, credential, account: account)
        record(name)
        forget(contents.credentials.sweep(credential.project, now: now))
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
