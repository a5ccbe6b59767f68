import Credentials
import Model
import Routing

/// A project as the API knows it.
public struct Project: Hashable, Sendable {
    public var id: String
    public var number: ProjectNumber
    public init(id: String, number: ProjectNumber) {
        self.id = id
        self.number = number
    }

    /// 1...63 of `[a-z0-9-]`, not beginning or ending with a hyphen: Google's rule without its minimum of
    /// six.
    public static func isValid(_ id: some Collection<UInt8>) -> Bool {
        guard (1...63).contains(id.count), id.first != UInt8(ascii: "-") else { return false }
        var last: UInt8 = 0
        for byte in id {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
                UInt8(ascii: "-"):
                last = byte
            default: return false
            }
        }
        return last != UInt8(ascii: "-")
    }
}

/// Who may do what: projects, keys of devices, tokens of backends. A value that is replaced whole when
/// something changes, so that every loop reads its own without a lock.
public struct Directory: Sendable {
    public enum KeyKind: String, Sendable {
        /// For registering devices (`x-goog-api-key`).
        case device
        /// A bearer token of a backend.
        case bearer
    }
    public struct Key: Sendable {
        public var kind: KeyKind
        public var project: ProjectNumber
        /// When it ends.
        public var end: WallTime?
        public init(_ kind: KeyKind, _ project: ProjectNumber, end: WallTime? = nil) {
            self.kind = kind
            self.project = project
            self.end = end
        }
    }
    /// One key of a project's service account.
    public struct ServiceAccount: Sendable {
        public var project: ProjectNumber
        public var email: String
        /// SubjectPublicKeyInfo in PEM.
        public var publicKey: String
        /// When the key ends.
        public var end: WallTime?
        /// Whether its access tokens do not say which key they were got with, so that a former build takes
        /// them.
        public var isPlain: Bool
        public init(
            project: ProjectNumber, email: String, publicKey: String, end: WallTime? = nil,
            isPlain: Bool = false
        ) {
            self.project = project
            self.email = email
            self.publicKey = publicKey
            self.end = end
            self.isPlain = isPlain
        }
    }

    public struct Operator: Sendable {
        public var label: String
        public var role: OperatorRole
        /// When the token ends.
        public var end: WallTime?
    }

    public private(set) var byID: [String: Project] = [:]
    public private(set) var byNumber: [ProjectNumber: Project] = [:]
    /// The highest number that any project had, also one that is gone: numbers rise and are never used twice.
    public private(set) var lastNumber: UInt32 = 0
    /// By the SHA-256 of the key, in hexadecimal: the keys themselves are kept nowhere.
    public var keys: [String: Key] = [:]
    /// By the SHA-256 of the token.
    public private(set) var operators: [String: Operator] = [:]
    /// By key id.
    public var accounts: [String: ServiceAccount] = [:]
    /// Until when access tokens that do not say which key they were got with may be of one that was revoked.
    public var plainEnds: [ProjectNumber: WallTime] = [:]

    public init() {}

    public mutating func add(_ project: Project) {
        byID[project.id] = project
        byNumber[project.number] = project
        noteNumber(project.number.rawValue)
    }

    public mutating func noteNumber(_ number: UInt32) { lastNumber = max(lastNumber, number) }

    public mutating func remove(_ project: Project) {
        byID[project.id] = nil
        byNumber[project.number] = nil
        keys = keys.filter { $0.value.project != project.number }
        accounts = accounts.filter { $0.value.project != project.number }
        plainEnds[project.number] = nil
    }

    public mutating func forget(_ name: String) {
        keys[name] = nil
        accounts[name] = nil
        operators[name] = nil
    }

    /// Brings a credential to what its life says: its end, or that it counts no more.
    public mutating func apply(_ name: String, _ credential: Credential) {
        guard credential.revoked == nil else {
            forget(name)
            return
        }
        if let role = credential.role {
            operators[name] = Operator(label: credential.label, role: role, end: credential.expires)
        }
        keys[name]?.end = credential.expires
        accounts[name]?.end = credential.expires
        accounts[name]?.isPlain = credential.isPlain
    }

    public func hasAccount(_ project: ProjectNumber) -> Bool {
        accounts.values.contains { $0.project == project }
    }

    /// The project of a registration that a key of this cluster has made. One whose number is beyond all that
    /// are known was made on another node a moment ago.
    func owner(of registration: Registration) -> Result<Project, Refusal> {
        if let project = byNumber[registration.project] { return .success(project) }
        let isNew = registration.project.rawValue > lastNumber
        return .failure(isNew ? .unavailable("its project is not known here yet") : .unregistered)
    }

    /// By id, or by number without padding.
    public func project(_ name: String) -> Project? {
        if let project = byID[name] { return project }
        guard let number = UInt32(name), number < ProjectNumber.limit, String(number) == name else {
            return nil
        }
        return byNumber[ProjectNumber(number)]
    }
}

extension WallTime {
    /// Whether an end, if there is one, is still to come.
    func isBefore(_ end: WallTime?) -> Bool { end.map { self < $0 } ?? true }
}
