import Model

/// A project as the API knows it.
public struct Project: Hashable, Sendable {
    public var id: String
    public var number: ProjectNumber
    public init(id: String, number: ProjectNumber) {
        self.id = id
        self.number = number
    }

    /// Whether the id is 1...63 of `[a-z0-9-]` and has no hyphen at either end: Google's rule without its
    /// minimum of six.
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

/// Projects and credentials: who may do what. A value that is replaced whole when something changes, so that
/// every loop reads its own copy without a lock.
public struct Directory: Sendable {
    public enum KeyKind: String, Sendable {
        /// For registering devices (`x-goog-api-key`).
        case device
        /// A bearer token of a backend.
        case bearer

        init?(_ kind: CredentialKind) {
            switch kind {
            case .device: self = .device
            case .bearer: self = .bearer
            case .serviceAccount, .operatorToken: return nil
            }
        }
    }
    public struct Key: Sendable {
        public var kind: KeyKind
        public var project: ProjectNumber
        /// When the key ends; `nil` if it does not.
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
        /// When the key ends; `nil` if it does not.
        public var end: WallTime?
        /// The address in the account's file, for which its assertions may be meant.
        public var tokenURI: String
        public init(
            project: ProjectNumber, email: String, publicKey: String, end: WallTime? = nil,
            tokenURI: String = ""
        ) {
            self.project = project
            self.email = email
            self.publicKey = publicKey
            self.end = end
            self.tokenURI = tokenURI
        }
    }

    public struct Operator: Sendable {
        public var label: String
        public var role: OperatorRole
        /// When the token ends; `nil` if it does not.
        public var end: WallTime?
    }

    public private(set) var byID: [String: Project] = [:]
    public private(set) var byNumber: [ProjectNumber: Project] = [:]
    /// The highest number of any project, deleted ones included. Numbers rise and are never used twice.
    public private(set) var lastNumber: UInt32 = 0
    /// Keys by their SHA-256 in hexadecimal. The server keeps no key itself.
    public var keys: [String: Key] = [:]
    /// Operators by the SHA-256 of their token, in hexadecimal.
    public private(set) var operators: [String: Operator] = [:]
    /// Service accounts' keys by their id.
    public var accounts: [String: ServiceAccount] = [:]
    /// Web Push of the projects that have it, also where an operator has switched it off.
    public var webPush: [ProjectNumber: WebPushProject] = [:]

    /// Projects with settings for Apple's push service, or for a relay to FCM, also if these are off.
    public var otherPush: Set<ProjectNumber> = []

    /// Projects that are push services for user agents, also if an operator has switched that off.
    public var pushServices: [ProjectNumber: PushServiceProject] = [:]

    /// Whether push services may reach devices of the project: it has settings for one, which may be off.
    @inlinable
    public func hasPush(_ project: ProjectNumber) -> Bool {
        webPush[project] != nil || otherPush.contains(project)
    }

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
        webPush[project.number] = nil
        otherPush.remove(project.number)
        pushServices[project.number] = nil
    }

    public mutating func forget(_ name: String) {
        keys[name] = nil
        accounts[name] = nil
        operators[name] = nil
    }

    /// Brings a credential up to date with its terms: adds a key, sets its end, or removes a revoked one. A
    /// service account's key must be in `accounts` before.
    public mutating func apply(_ name: String, _ credential: Credential) {
        guard credential.revoked == nil else {
            forget(name)
            return
        }
        if let role = credential.role {
            operators[name] = Operator(label: credential.label, role: role, end: credential.expires)
        }
        if let project = credential.project, let kind = KeyKind(credential.kind) {
            keys[name] = Key(kind, project, end: credential.expires)
        }
        accounts[name]?.end = credential.expires
    }

    public func hasAccount(_ project: ProjectNumber) -> Bool {
        accounts.values.contains { $0.project == project }
    }

    /// The project of this id, or of this number without padding.
    public func project(_ name: String) -> Project? {
        if let project = byID[name] { return project }
        guard let number = UInt32(name), number < ProjectNumber.limit, String(number) == name else {
            return nil
        }
        return byNumber[ProjectNumber(number)]
    }
}

extension WallTime {
    /// Whether the end, if there is one, is still to come.
    package func isBefore(_ end: WallTime?) -> Bool { end.map { self < $0 } ?? true }
}
