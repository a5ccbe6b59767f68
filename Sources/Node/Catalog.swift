import COpenSSL
import FCMAPI
import Journal
import Model

/// What a node keeps in the engine's small tables: projects, credentials, keys and settings. Runs on the
/// engine's thread.
enum Catalog {
    private static let version: UInt8 = 1
    /// Changes with each change of anything here, so that the nodes of a cluster notice.
    static let versionKey = "catalog-version"

    static func number(of version: [UInt8]) -> UInt64 {
        version.prefix(8).reversed().reduce(0) { $0 << 8 | UInt64($1) }
    }

    static func version(after former: [UInt8]?) -> [UInt8] {
        let next = number(of: former ?? []) &+ 1
        return (0..<8).map { UInt8(truncatingIfNeeded: next >> ($0 * 8)) }
    }

    /// Everything, as it is at start; what every cluster needs and is not there yet is made.
    struct Contents: Sendable {
        var directory = Directory()
        var limits: [ProjectNumber: [String: UInt64]] = [:]
        var registrationKeys: [RegistrationKey] = []
        var signingKey: [UInt8] = []
        var tokenURIs: Set<String> = []
        /// In a cluster: the epoch of each project's home partition when the project was made. While it is
        /// the same, nobody before has granted anything of its quotas.
        var births: [ProjectNumber: Epoch] = [:]
        /// Names of nodes that an operator has taken out of the cluster, by `cluster drain`.
        var cordoned: Set<String> = []
    }

    static func load(_ engine: any Engine) throws -> Contents {
        var contents = Contents()
        for entry in try engine.all(.project) {
            let (project, limits) = try decodeProject(entry)
            contents.directory.add(project)
            contents.limits[project.number] = limits
        }
        for entry in try engine.all(.credential) { try decodeCredential(entry, into: &contents) }
        for entry in try engine.all(.key) {
            guard let number = UInt8(entry.key), entry.value.count == RegistrationKey.materialBytes + 1 else {
                throw EngineError.corrupt("a registration key cannot be read")
            }
            contents.registrationKeys.append(
                RegistrationKey(
                    number: number, material: Array(entry.value[1...]), isRetired: entry.value[0] == 1))
        }
        for entry in try engine.all(.setting) {
            if entry.key.hasPrefix(cordonPrefix) {
                contents.cordoned.insert(String(entry.key.dropFirst(cordonPrefix.count)))
            }
            guard entry.key.hasPrefix(birthPrefix) else { continue }
            guard let number = UInt32(entry.key.dropFirst(birthPrefix.count)), number < ProjectNumber.limit
            else { continue }
            contents.births[ProjectNumber(number)] = Epoch(entry.value.reduce(0) { $0 << 8 | UInt64($1) })
        }
        if contents.registrationKeys.isEmpty {
            let key = RegistrationKey(number: 1, material: try random(RegistrationKey.materialBytes))
            try engine.put(.key, key: "1", value: [0] + key.material)
            contents.registrationKeys = [key]
        }
        if let key = try engine.get(.setting, key: "token-signing-key") {
            contents.signingKey = key
        } else {
            contents.signingKey = try random(32)
            try engine.put(.setting, key: "token-signing-key", value: contents.signingKey)
        }
        return contents
    }

    private static let birthPrefix = "birth:"

    static func putBirth(_ project: ProjectNumber, _ epoch: Epoch, to engine: any Engine) throws {
        let value = (0..<8).map { UInt8(truncatingIfNeeded: epoch.rawValue >> UInt64(56 - 8 * $0)) }
        try engine.put(.setting, key: "\(birthPrefix)\(project.rawValue)", value: value)
    }

    // MARK: Cordons

    private static let cordonPrefix = "cordon:"

    /// Keeps the node of this name out of the cluster, whatever restarts it, until that is taken back.
    static func cordon(_ node: String, to engine: any Engine) throws {
        try engine.put(.setting, key: cordonPrefix + node, value: [version])
    }

    static func uncordon(_ node: String, from engine: any Engine) throws {
        try engine.remove(.setting, key: cordonPrefix + node)
    }

    static func isCordoned(_ node: String, _ engine: any Engine) throws -> Bool {
        try engine.get(.setting, key: cordonPrefix + node) != nil
    }

    static func random(_ count: Int) throws -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        guard RAND_bytes(&bytes, Int32(count)) == 1 else {
            throw EngineError.ioFailure("libcrypto gives no random bytes")
        }
        return bytes
    }

    // MARK: Projects

    static func put(_ project: Project, _ limits: [String: UInt64], to engine: any Engine) throws {
        var out = ByteWriter()
        out.u8(version)
        out.u32(project.number.rawValue)
        out.varint(limits.count)
        for (name, value) in limits.sorted(by: { $0.key < $1.key }) {
            out.string(name.utf8)
            out.varint(value)
        }
        try engine.put(.project, key: project.id, value: out.bytes)
    }

    private static func decodeProject(_ entry: CatalogEntry) throws -> (Project, [String: UInt64]) {
        var reader = ByteReader(entry.value)
        guard try reader.u8() == version else { throw reader.fail("a project of an unknown version") }
        let number = try reader.u32()
        guard number < ProjectNumber.limit else { throw reader.fail("a project's number") }
        var limits: [String: UInt64] = [:]
        for _ in 0..<(try reader.count(max: 64)) {
            let name = String(decoding: try reader.string(max: 64), as: UTF8.self)
            limits[name] = try reader.varint()
        }
        return (Project(id: entry.key, number: ProjectNumber(number)), limits)
    }

    // MARK: Credentials

    static func put(
        _ account: ServiceAccountFile, _ project: Project, _ tokenURI: String, to engine: any Engine
    ) throws {
        var out = ByteWriter()
        out.u8(version)
        out.u8(0)
        out.u32(project.number.rawValue)
        out.string(account.email.utf8)
        out.string(account.publicKey.utf8)
        out.string(tokenURI.utf8)
        try engine.put(.credential, key: "account:\(account.keyID)", value: out.bytes)
    }

    static func put(keyHash: String, _ kind: Directory.KeyKind, _ project: Project, to engine: any Engine)
        throws
    {
        var out = ByteWriter()
        out.u8(version)
        out.u8(kind == .device ? 1 : 2)
        out.u32(project.number.rawValue)
        try engine.put(.credential, key: "key:\(keyHash)", value: out.bytes)
    }

    private static func decodeCredential(_ entry: CatalogEntry, into contents: inout Contents) throws {
        var reader = ByteReader(entry.value)
        guard try reader.u8() == version else { throw reader.fail("a credential of an unknown version") }
        let kind = try reader.u8()
        let number = ProjectNumber(try reader.u32() & (ProjectNumber.limit - 1))
        guard let colon = entry.key.firstIndex(of: ":") else {
            throw reader.fail("a credential without a kind")
        }
        let name = String(entry.key[entry.key.index(after: colon)...])
        if kind == 0 {
            let email = String(decoding: try reader.string(max: 512), as: UTF8.self)
            let key = String(decoding: try reader.string(max: 8192), as: UTF8.self)
            contents.tokenURIs.insert(String(decoding: try reader.string(max: 2048), as: UTF8.self))
            contents.directory.accounts[name] = .init(project: number, email: email, publicKey: key)
        } else {
            contents.directory.keys[name] = (kind == 1 ? .device : .bearer, number)
        }
    }

    static func remove(_ project: Project, _ directory: Directory, from engine: any Engine) throws {
        for (hash, key) in directory.keys where key.project == project.number {
            try engine.remove(.credential, key: "key:\(hash)")
        }
        for (id, account) in directory.accounts where account.project == project.number {
            try engine.remove(.credential, key: "account:\(id)")
        }
        try engine.remove(.project, key: project.id)
    }
}
