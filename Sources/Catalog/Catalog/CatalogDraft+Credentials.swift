import Credentials
import Model
import RegistrationIDs

// Creates and ends credentials. `CredentialBook` decides which changes of a credential are allowed.

extension CatalogDraft {
    /// A new credential: its name in the catalog, and the secret that is shown only once.
    package enum Made {
        case key(name: String, text: String)
        case account(ServiceAccountFile)

        package var name: String {
            switch self {
            case .key(let name, _): name
            case .account(let file): file.keyID
            }
        }
    }

    /// Returns the credential's name.
    package mutating func revokeCredential(_ id: String, now: WallTime) throws -> String {
        let name = try contents.credentials.revoke(id, now: now)
        record(name)
        forget(contents.credentials.sweep(contents.credentials.all[name]?.project, now: now))
        return name
    }

    /// Returns the credential's name. `end`: `nil` removes the credential's end.
    package mutating func expireCredential(_ id: String, at end: WallTime?, now: WallTime) throws -> String {
        let name = try contents.credentials.expire(id, at: end, now: now)
        record(name)
        return name
    }

    /// `key`: for a service account; a credential of another kind needs none.
    package mutating func create(
        _ credential: Credential, of project: Project?, _ key: ServiceAccountKey?, tokenURI: String,
        now: WallTime
    ) throws -> Made {
        if let project { try check(project) }
        guard credential.kind == .serviceAccount, let project, let key else {
            return try add(credential, now: now)
        }
        return .account(try add(key, credential, of: project, tokenURI: tokenURI, now: now))
    }

    /// Creates a successor. The old credential counts for `overlap` more milliseconds.
    package mutating func rotateCredential(
        _ id: String, overlap: Int64, _ key: ServiceAccountKey?, tokenURI: String, now: WallTime
    ) throws -> Made {
        let (former, next) = try contents.credentials.rotate(id, overlap: overlap, now: now)
        record(former)
        let project = next.project.flatMap { contents.directory.byNumber[$0] }
        return try create(next, of: project, key, tokenURI: tokenURI, now: now)
    }

    /// Creates a key of at least 24 random bytes behind a prefix that names its kind. The SDKs for iOS and
    /// Android refuse an app's key of another shape than an A and 38 characters of base64url.
    private mutating func add(_ credential: Credential, now: WallTime) throws -> Made {
        let prefix =
            switch credential.kind {
            case .device: "Atck_"
            case .operatorToken: "tco_"
            case .bearer, .serviceAccount: "tcb_"
            }
        let random = Base64URL.encode(try Catalog.random(credential.kind == .device ? 26 : 24))
        let length = credential.kind == .device ? 39 - prefix.utf8.count : random.count
        let key = prefix + String(decoding: random.prefix(length), as: UTF8.self)
        try add(key: key, credential, now: now)
        let name = KeyHash.of(key.utf8)
        detail = Credential.id(of: name)
        return .key(name: name, text: key)
    }

    mutating func add(
        _ key: ServiceAccountKey, _ credential: Credential, of project: Project, tokenURI: String,
        now: WallTime
    ) throws -> ServiceAccountFile {
        let file = ServiceAccountFile(
            project: project, tokenURI: tokenURI, key: key,
            keyID: try Catalog.random(ServiceAccountFile.keyIDCount))
        try add(file.keyID, file.account, credential: credential, now: now)
        detail = Credential.id(of: file.keyID)
        return file
    }

    // MARK: The server's own keys

    /// `atOnce`: every access token ends immediately.
    package mutating func rotateSigningKey(atOnce: Bool, now: WallTime) throws {
        let material = try Catalog.random(SigningKeys.materialBytes)
        try contents.signingKeys.rotate(material, atOnce: atOnce, now: now)
        try Catalog.put(contents.signingKeys, contents.vault, to: &writes)
    }

    package mutating func rotateRegistrationKey(now: WallTime) throws {
        let key = try RegistrationKeyRules.next(
            to: contents.registrationKeys, try Catalog.random(RegistrationKey.materialBytes), now: now)
        try Catalog.put(key, contents.vault, to: &writes)
        contents.registrationKeys.append(key)
    }

    /// The devices that were registered under the key of this number become unregistered.
    package mutating func retireRegistrationKey(_ number: UInt8, now: WallTime) throws {
        let key = try RegistrationKeyRules.retired(number, of: contents.registrationKeys, now: now)
        try Catalog.put(key, contents.vault, to: &writes)
        contents.registrationKeys.removeAll { $0.number == number }
        contents.registrationKeys.append(key)
    }
}
