import Model

/// All credentials and their lives, by name. The book decides what may become of them; the caller stores what
/// the book returns.
public struct CredentialBook: Sendable {
    /// Active keys of one project's service account: an assertion that names no key is tried against each of
    /// them.
    public static let accountKeysMax = 10
    /// Other active credentials of one project, or active tokens of operators.
    public static let keysMax = 1000
    /// Revoked and expired credentials of one project, or of the operators, that are still listed.
    public static let endedMax = 100

    public private(set) var all: [String: Credential] = [:]
    /// When each credential was last used; a few minutes late.
    public var used: [String: WallTime] = [:]

    public init() {}

    /// Puts a credential in as it was read from the engine.
    public mutating func insert(_ name: String, _ credential: Credential) { all[name] = credential }

    /// The credentials of a project, or all of them and the operators': by kind, then by age.
    public func list(_ project: ProjectNumber?) -> [(name: String, credential: Credential)] {
        all.filter { project == nil || $0.value.project == project }
            .map { (name: $0.key, credential: $0.value) }
            .sorted { one, other in
                let (left, right) = (one.credential, other.credential)
                if left.project != right.project {
                    return (left.project?.rawValue ?? 0) < (right.project?.rawValue ?? 0)
                }
                if left.kind != right.kind { return left.kind.rawValue < right.kind.rawValue }
                let (born, later) = (left.created?.milliseconds ?? 0, right.created?.milliseconds ?? 0)
                return born != later ? born < later : one.name < other.name
            }
    }

    /// The name of the credential with this id: the id as it is shown, or longer, as in a service account's
    /// file.
    public func name(of id: String) throws(ChangeRefusal) -> String {
        guard id.utf8.count >= Credential.idLength else {
            throw ChangeRefusal(
                .wrong(field: "credential"), "An id has at least \(Credential.idLength) digits.")
        }
        let found = all.keys.filter { $0.hasPrefix(id) }
        guard let name = found.first, found.count == 1 else {
            throw ChangeRefusal(.unknown, "There is no credential \(Credential.id(of: id)).")
        }
        return name
    }

    // MARK: Changes

    /// Adds a new credential, under a name that no other has.
    public mutating func add(
        _ name: String, _ credential: Credential, now: WallTime
    ) throws(ChangeRefusal) {
        guard Credential.isLabel(credential.label) else {
            throw ChangeRefusal(
                .wrong(field: "credential"),
                "A name has at most \(Credential.labelBytesMax) bytes and no control characters.")
        }
        try CredentialBook.check(credential.expires, now)
        let isAccount = credential.kind == .serviceAccount
        let most = isAccount ? CredentialBook.accountKeysMax : CredentialBook.keysMax
        let activeCount = all.values.count {
            $0.project == credential.project && ($0.kind == .serviceAccount) == isAccount
                && $0.state(now: now) == .active
        }
        guard activeCount < most else {
            throw ChangeRefusal(
                .precondition, "There are \(activeCount) credentials, the most that may be: revoke some.")
        }
        all[name] = credential
    }

    /// Ends the credential. A second call changes nothing.
    public mutating func revoke(_ id: String, now: WallTime) throws(ChangeRefusal) -> String {
        let name = try name(of: id)
        if all[name]?.revoked == nil { all[name]?.revoked = now }
        return name
    }

    /// Gives the credential an end, or removes its end.
    public mutating func expire(
        _ id: String, at end: WallTime?, now: WallTime
    ) throws(ChangeRefusal) -> String {
        let name = try name(of: id)
        guard all[name]?.revoked == nil else {
            throw ChangeRefusal(
                .wrong(field: "credential"), "The credential \(Credential.id(of: name)) is revoked.")
        }
        try CredentialBook.check(end, now)
        all[name]?.expires = end
        return name
    }

    /// Creates the successor of a credential. The old one counts until `overlap` milliseconds from now, if it
    /// does not end sooner.
    public mutating func rotate(
        _ id: String, overlap: Int64, now: WallTime
    ) throws(ChangeRefusal) -> (former: String, next: Credential) {
        let name = try name(of: id)
        guard let former = all[name], former.state(now: now) == .active else {
            throw ChangeRefusal(
                .wrong(field: "credential"), "The credential \(Credential.id(of: id)) is not valid any more.")
        }
        guard (1...CredentialBook.overlapMax).contains(overlap) else {
            throw ChangeRefusal(
                .wrong(field: "credential"), "The overlap must be from one second to 365 days.")
        }
        let end = WallTime(milliseconds: now.milliseconds + overlap)
        all[name]?.expires = former.expires.map { min($0, end) } ?? end
        var next = Credential(
            kind: former.kind, project: former.project, label: former.label, role: former.role, created: now)
        // A credential that was created for 90 days gets a successor for 90 days.
        if let created = former.created, let expires = former.expires {
            next.expires = WallTime(
                milliseconds: now.milliseconds + max(1, expires.milliseconds - created.milliseconds))
        }
        return (name, next)
    }

    public static let overlapMax: Int64 = 365 * 86_400_000

    private static func check(_ end: WallTime?, _ now: WallTime) throws(ChangeRefusal) {
        guard let end else { return }
        guard end > now else {
            throw ChangeRefusal(
                .wrong(field: "credential"), "The end is in the past: to end the credential now, revoke it.")
        }
        guard end < Credential.endMax else {
            throw ChangeRefusal(.wrong(field: "credential"), "The end is beyond the year 9999.")
        }
    }

    /// Takes out the credentials of a project that is deleted, and returns their names.
    public mutating func removeAll(of project: ProjectNumber) -> [String] {
        let names = all.filter { $0.value.project == project }.keys.sorted()
        for name in names { forget(name) }
        return names
    }

    /// How long an access token from a key counts, in milliseconds.
    public static let accessTokenLifetime: Int64 = 3_600_000

    /// Takes out the ended credentials of one owner beyond `endedMax`, the oldest first, and returns their
    /// names.
    public mutating func sweep(_ owner: ProjectNumber?, now: WallTime) -> [String] {
        let ended = all.filter { $0.value.project == owner && $0.value.state(now: now) != .active }
            .sorted {
                let (one, other) = ($0.value.end?.milliseconds ?? 0, $1.value.end?.milliseconds ?? 0)
                return one != other ? one < other : $0.key < $1.key
            }
        let doomed = ended.dropLast(CredentialBook.endedMax).map(\.key)
        for name in doomed { forget(name) }
        return doomed
    }

    private mutating func forget(_ name: String) {
        all[name] = nil
        used[name] = nil
    }
}
