import Bytes
import Model

public enum CredentialKind: UInt8, CaseIterable, Sendable {
    /// A key pair of a project's service account.
    case serviceAccount = 0
    /// A key for registering devices (`x-goog-api-key`).
    case device = 1
    /// A bearer token of a backend.
    case bearer = 2
    /// A token of an operator, for every project.
    case operatorToken = 3

    public var word: String {
        switch self {
        case .serviceAccount: "service-account"
        case .device: "device"
        case .bearer: "bearer"
        case .operatorToken: "operator"
        }
    }

    public init?(word: String) {
        guard let kind = CredentialKind.allCases.first(where: { $0.word == word }) else { return nil }
        self = kind
    }
}

/// What an operator's token may do; each role includes the lower ones.
public enum OperatorRole: UInt8, CaseIterable, Comparable, Sendable {
    /// Read everything, and change nothing.
    case read = 1
    /// Send, subscribe, set quotas, take nodes out: everything but the rights of `admin`.
    case `operate` = 2
    /// Create and end projects and credentials.
    case admin = 3

    public var word: String {
        switch self {
        case .read: "read"
        case .operate: "operate"
        case .admin: "admin"
        }
    }

    public init?(word: String) {
        guard let role = OperatorRole.allCases.first(where: { $0.word == word }) else { return nil }
        self = role
    }

    public static func < (one: OperatorRole, other: OperatorRole) -> Bool { one.rawValue < other.rawValue }
}

/// The terms of a credential: everything but its secret, which nobody keeps.
///
/// Its name says nothing of the secret: the SHA-256 of a key in hexadecimal, or the id of a service account's
/// key.
public struct Credential: Hashable, Sendable {
    public enum State: String, Sendable { case active, expired, revoked }

    public var kind: CredentialKind
    /// `nil` for an operator's token.
    public var project: ProjectNumber?
    /// The label that its maker gave it; may be empty.
    public var label: String
    /// Only for an operator's token.
    public var role: OperatorRole?
    /// `nil`: created before the server kept the dates of credentials.
    public var created: WallTime?
    public var expires: WallTime?
    public var revoked: WallTime?

    public init(
        kind: CredentialKind, project: ProjectNumber?, label: String = "", role: OperatorRole? = nil,
        created: WallTime? = nil, expires: WallTime? = nil
    ) {
        self.kind = kind
        self.project = project
        self.label = label
        self.role = role
        self.created = created
        self.expires = expires
    }

    /// No time of a credential is past the year 9999.
    public static let endMax = WallTime(milliseconds: 253_402_300_800_000)

    /// When the credential ended, or will end; `nil` for never.
    var end: WallTime? {
        switch (expires, revoked) {
        case (let expires?, let revoked?): min(expires, revoked)
        default: expires ?? revoked
        }
    }

    public func state(now: WallTime) -> State {
        if revoked != nil { return .revoked }
        if let expires, expires <= now { return .expired }
        return .active
    }

    /// In bytes of UTF-8.
    public static let labelBytesMax = 64

    /// A label is shown on terminals, so nothing in it may steer one.
    public static func isLabel(_ text: String) -> Bool {
        text.utf8.count <= labelBytesMax
            && text.unicodeScalars.allSatisfy { isShown($0) }
    }

    static func isShown(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .privateUse, .unassigned: false
        default: true
        }
    }

    /// Digits of the name that show a credential and name it in commands.
    public static let idLength = 16
    public static func id(of name: String) -> String { String(name.prefix(idLength)) }
}

extension Credential {
    private static let version: UInt8 = 1
    private static let noProject: UInt32 = .max

    public var encoded: [UInt8] {
        var out = ByteWriter(capacity: 40 + label.utf8.count)
        out.u8(Credential.version)
        out.u8(kind.rawValue)
        out.u8(role?.rawValue ?? 0)
        out.u32(project?.rawValue ?? Credential.noProject)
        for time in [created, expires, revoked] { out.u64(UInt64(max(0, time?.milliseconds ?? 0))) }
        out.string(label.utf8)
        return out.bytes
    }

    public init(decoding bytes: [UInt8]) throws(DecodeError) {
        var reader = ByteReader(bytes)
        _ = try reader.version(of: "the terms of a credential", Credential.version...Credential.version)
        guard let kind = CredentialKind(rawValue: try reader.u8()) else {
            throw reader.fail("a credential of unknown kind")
        }
        let rank = try reader.u8()
        let role = OperatorRole(rawValue: rank)
        guard (role != nil) == (kind == .operatorToken), role != nil || rank == 0 else {
            throw reader.fail("a credential with role \(rank)")
        }
        let number = try reader.u32()
        guard (number == Credential.noProject) == (kind == .operatorToken),
            number == Credential.noProject || number < ProjectNumber.limit
        else { throw reader.fail("a credential of no project") }
        self.init(
            kind: kind, project: number == Credential.noProject ? nil : ProjectNumber(number), role: role)
        created = try Credential.time(&reader)
        expires = try Credential.time(&reader)
        revoked = try Credential.time(&reader)
        label = String(decoding: try reader.stringSlice(max: Credential.labelBytesMax), as: UTF8.self)
        guard Credential.isLabel(label) else { throw reader.fail("a credential's label") }
        try reader.expectEnd()
    }

    /// 0 means none.
    private static func time(_ reader: inout ByteReader) throws(DecodeError) -> WallTime? {
        let time = try reader.time("a credential's time")
        return time.milliseconds == 0 ? nil : time
    }
}

extension ByteReader {
    /// A stored time. `what`: the value, in the error of a time beyond all times.
    mutating func time(_ what: String) throws(DecodeError) -> WallTime {
        let value = try u64()
        guard value < UInt64(Credential.endMax.milliseconds) else { throw fail(what) }
        return WallTime(milliseconds: Int64(value))
    }
}
