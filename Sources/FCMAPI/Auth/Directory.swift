import Model

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
    public struct ServiceAccount: Sendable {
        public var project: ProjectNumber
        public var email: String
        /// SubjectPublicKeyInfo in PEM.
        public var publicKey: String
        public init(project: ProjectNumber, email: String, publicKey: String) {
            self.project = project
            self.email = email
            self.publicKey = publicKey
        }
    }

    public private(set) var byID: [String: Project] = [:]
    public private(set) var byNumber: [ProjectNumber: Project] = [:]
    /// By the SHA-256 of the key, in hexadecimal: the keys themselves are kept nowhere.
    public var keys: [String: (kind: KeyKind, project: ProjectNumber)] = [:]
    /// By key id.
    public var accounts: [String: ServiceAccount] = [:]

    public init() {}

    public mutating func add(_ project: Project) {
        byID[project.id] = project
        byNumber[project.number] = project
    }

    public mutating func remove(_ project: Project) {
        byID[project.id] = nil
        byNumber[project.number] = nil
        keys = keys.filter { $0.value.project != project.number }
        accounts = accounts.filter { $0.value.project != project.number }
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
