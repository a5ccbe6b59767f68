import Bytes
import Model

/// A project's settings for Apple's push service: one key for each app and environment.
public struct APNsSettings: Hashable, Sendable {
    /// A key of an Apple team, and the app for which the project uses the key.
    public struct Key: Hashable, Sendable {
        public static let privateBytesCount = 32

        /// Whether the key is for Apple's sandbox.
        public var isSandbox: Bool
        public var bundleID: String
        /// 10 characters each.
        public var keyID: String
        public var teamID: String
        /// The private key on P-256: 32 bytes, the highest first.
        public var privateBytes: [UInt8]
        /// `HOST:PORT` in place of Apple's own; empty for Apple's.
        public var host = ""
        /// Certificate authorities of that host, PEM; `nil` for the system's authorities.
        public var authority: [UInt8]?
        public var created: WallTime

        public init(
            isSandbox: Bool, bundleID: String, keyID: String, teamID: String, privateBytes: [UInt8],
            created: WallTime
        ) {
            precondition(privateBytes.count == Key.privateBytesCount, "a key on P-256 has 32 bytes")
            self.isSandbox = isSandbox
            self.bundleID = bundleID
            self.keyID = keyID
            self.teamID = teamID
            self.privateBytes = privateBytes
            self.created = created
        }

        fileprivate func isFor(_ other: Key) -> Bool {
            isSandbox == other.isSandbox && bundleID == other.bundleID
        }
    }

    /// Apps and environments of one project.
    public static let keysMax = 32
    public static let idBytesCount = 10
    public static let hostBytesMax = 300
    public static let authorityBytesMax = 64 << 10
    /// Keys with their own authorities, so that the setting stays small.
    public static let authoritiesMax = 4

    /// Whether the server pushes to Apple for the project.
    public var isOn = true
    /// In the order of `isSandbox` and `bundleID`; each pair once.
    public private(set) var keys: [Key] = []

    public init() {}

    public func key(isSandbox: Bool, bundleID: String) -> Key? {
        keys.first { $0.isSandbox == isSandbox && $0.bundleID == bundleID }
    }

    /// Takes a key in place of the old one of the same app and environment.
    public mutating func put(_ key: Key) throws(ChangeRefusal) {
        var next = keys.filter { !$0.isFor(key) }
        guard next.count < APNsSettings.keysMax else {
            throw ChangeRefusal(
                .precondition,
                "The project has \(next.count) keys for Apple's push service, the most that may be.")
        }
        next.append(key)
        guard next.count(where: { $0.authority != nil }) <= APNsSettings.authoritiesMax else {
            throw ChangeRefusal(
                .precondition,
                "At most \(APNsSettings.authoritiesMax) keys of a project may have authorities of their own.")
        }
        keys = next.sorted { ($0.isSandbox ? 1 : 0, $0.bundleID) < ($1.isSandbox ? 1 : 0, $1.bundleID) }
    }

    /// Whether there was such a key.
    public mutating func remove(isSandbox: Bool, bundleID: String) -> Bool {
        let count = keys.count
        keys.removeAll { $0.isSandbox == isSandbox && $0.bundleID == bundleID }
        return keys.count < count
    }
}

extension APNsSettings {
    private static let version: UInt8 = 1
    /// One byte for the environment, the ids, the private key, when the key was created, and four lengths.
    private static let keyBytesMin = 1 + 2 * idBytesCount + Key.privateBytesCount + 8 + 3

    public var encoded: [UInt8] {
        var out = ByteWriter(capacity: 64 + keys.count * 256)
        out.u8(APNsSettings.version)
        out.u8(isOn ? 1 : 0)
        out.varint(keys.count)
        for key in keys {
            out.u8(key.isSandbox ? 1 : 0)
            out.string(key.bundleID.utf8)
            out.raw(key.keyID.utf8)
            out.raw(key.teamID.utf8)
            out.raw(key.privateBytes)
            out.u64(UInt64(max(0, key.created.milliseconds)))
            out.string(key.host.utf8)
            out.string(key.authority ?? [])
        }
        return out.bytes
    }

    public init(decoding bytes: [UInt8]) throws(DecodeError) {
        var reader = ByteReader(bytes)
        isOn = try reader.isOn("a project's settings for Apple's push service", APNsSettings.version)
        let count = try reader.count(
            max: APNsSettings.keysMax, elementBytesMin: APNsSettings.keyBytesMin)
        for _ in 0..<count { keys.append(try reader.apnsKey()) }
        try reader.expectEnd()
    }
}

extension ByteReader {
    fileprivate mutating func apnsKey() throws(DecodeError) -> APNsSettings.Key {
        let environment = try u8()
        guard environment <= 1 else { throw fail("an environment \(environment) of Apple's push service") }
        let bundleID = String(
            decoding: try stringSlice(max: APNsAddress.bundleIDBytesMax), as: UTF8.self)
        let keyID = String(decoding: try slice(APNsSettings.idBytesCount), as: UTF8.self)
        let teamID = String(decoding: try slice(APNsSettings.idBytesCount), as: UTF8.self)
        let privateBytes = try raw(APNsSettings.Key.privateBytesCount)
        let created = try time("when a key for Apple's push service was set")
        var key = APNsSettings.Key(
            isSandbox: environment == 1, bundleID: bundleID, keyID: keyID, teamID: teamID,
            privateBytes: privateBytes, created: created)
        key.host = String(decoding: try stringSlice(max: APNsSettings.hostBytesMax), as: UTF8.self)
        let authority = try string(max: APNsSettings.authorityBytesMax)
        key.authority = authority.isEmpty ? nil : authority
        return key
    }
}
