import Credentials
import HTTPMessages
import Model
import RegistrationIDs

/// An operator's request about credentials.
public enum CredentialRequest: Sendable {
    /// The credentials of one project; `nil`: of all projects and operators.
    case list(Project?)
    case create(NewCredential)
    case revoke(id: String)
    /// Sets the time from which the credential does not count any more; `nil` removes it.
    case expire(id: String, WallTime?)
    /// Creates a successor. The old credential counts for `overlap` more milliseconds.
    case rotate(id: String, overlap: Int64, tokenURI: String?)
}

/// An operator's request about the server's own keys.
public enum ServerKeyRequest: Sendable {
    case list
    /// `atOnce`: every access token ends immediately.
    case rotateSigning(atOnce: Bool)
    case rotateRegistration
    /// The devices that were registered under the key of this number become unregistered.
    case retireRegistration(UInt8)
}

public struct NewCredential: Sendable {
    public var kind: CredentialKind
    /// `nil` for an operator's token.
    public var project: Project?
    public var label: String
    public var expires: WallTime?
    public var role: OperatorRole?
    /// The `token_uri` of a service account's file; `nil` for the server's own.
    public var tokenURI: String?
}

// /admin/keys, and /admin/projects/{project}/keys to create a credential.

extension RequestRouter {
    /// Milliseconds for which a rotated credential still counts, unless the request says otherwise.
    private static let overlap: Int64 = 86_400_000

    func listedCredentials() throws(APIError) -> CredentialRequest {
        guard let name = target.parameter("project") else { return .list(nil) }
        return .list(try known(name))
    }

    func createdCredential() throws(APIError) -> CredentialRequest {
        let fields = try texts()
        if fields["kind"] == CredentialKind.operatorToken.word { return try newOperator(fields) }
        guard let name = fields["project"] else {
            throw .invalid("project", "The project's id is missing.")
        }
        return try newCredential(in: try known(name))
    }

    /// The credential's id in the path.
    func credentialID() throws(APIError) -> String { String(decoding: try segment(2), as: UTF8.self) }

    func expiredCredential() throws(APIError) -> CredentialRequest {
        let id = try credentialID()
        let fields = try texts()
        if fields["never"] == "true" { return .expire(id: id, nil) }
        guard let end = try end(fields) else {
            throw .invalid(
                "expireSeconds", "The end is missing: give expireSeconds, ttlSeconds or never.")
        }
        return .expire(id: id, end)
    }

    func rotatedCredential() throws(APIError) -> CredentialRequest {
        let id = try credentialID()
        let fields = try texts()
        let overlap = try seconds("overlapSeconds", fields).map { $0 * 1000 }
        return .rotate(id: id, overlap: overlap ?? RequestRouter.overlap, tokenURI: fields["tokenUri"])
    }

    func retiredKey() throws(APIError) -> ServerKeyRequest {
        guard let number = UInt8(try texts()["number"] ?? "") else {
            throw .invalid("number", "The number of the registration key is missing, or is not a number.")
        }
        return .retireRegistration(number)
    }

    func newCredential(in project: Project) throws(APIError) -> CredentialRequest {
        let fields = try texts()
        guard let kind = CredentialKind(word: fields["kind"] ?? ""), kind != .operatorToken else {
            throw .invalid("kind", "The kind must be device, bearer or service-account.")
        }
        return .create(
            NewCredential(
                kind: kind, project: project, label: fields["name"] ?? "", expires: try end(fields),
                tokenURI: fields["tokenUri"]))
    }

    private func newOperator(_ fields: [String: String]) throws(APIError) -> CredentialRequest {
        guard fields["project"] == nil else {
            throw .invalid("project", "An operator's token is for all projects: leave out the project.")
        }
        guard let role = OperatorRole(word: fields["role"] ?? "") else {
            throw .invalid("role", "The role must be read, operate or admin.")
        }
        return .create(
            NewCredential(
                kind: .operatorToken, label: fields["name"] ?? "", expires: try end(fields), role: role))
    }

    /// The end of a credential: `expireSeconds` count from 1970, `ttlSeconds` from now.
    private func end(_ fields: [String: String]) throws(APIError) -> WallTime? {
        if let at = try seconds("expireSeconds", fields) { return WallTime(milliseconds: at * 1000) }
        return try seconds("ttlSeconds", fields).map { WallTime(milliseconds: now.milliseconds + $0 * 1000) }
    }

    private func seconds(_ name: String, _ fields: [String: String]) throws(APIError) -> Int64? {
        guard let text = fields[name] else { return nil }
        // At most the year 9999, so that no computation with the time overflows.
        guard let seconds = Int64(text), (0..<253_402_300_800).contains(seconds) else {
            throw .invalid(name, "The value must be a whole number of seconds.")
        }
        return seconds
    }
}

/// The server's own keys as the API shows them: their state and times, and never the keys themselves.
public enum ServerKeyView {
    public static func answer(
        _ signing: SigningKeys, _ registration: [RegistrationKey], now: WallTime
    ) -> HTTPResponse {
        func key(
            _ state: String, _ times: (String, WallTime?)..., number: UInt8? = nil
        ) -> APIAnswer.Value {
            var fields: [(name: String, value: APIAnswer.Value)] = [("state", .text(state))]
            if let number { fields.insert(("number", .number(UInt64(number))), at: 0) }
            for case (let field, let time?) in times where time.milliseconds > 0 {
                fields.append((field, .text(Timestamp.text(time.milliseconds))))
            }
            return .object(fields)
        }
        let current = signing.signing(now: now)
        let made = RegistrationKeys.current(of: registration, now: now)?.number
        return APIAnswer.object([
            (
                "signing",
                .list(
                    signing.all.indices.filter { signing.end(at: $0).map { now < $0 } ?? true }.map {
                        let one = signing.all[$0]
                        let state = one == current ? "signs" : one.from > now ? "announced" : "verifies"
                        return key(state, ("useTime", one.from), ("expireTime", signing.end(at: $0)))
                    })
            ),
            (
                "registration",
                .list(
                    registration.sorted { $0.number < $1.number }.map { one in
                        let isAhead = one.from.map { $0 > now } ?? false
                        let state =
                            one.isRetired
                            ? "retired" : one.number == made ? "makes" : isAhead ? "announced" : "reads"
                        return key(state, ("useTime", one.from), number: one.number)
                    })
            ),
        ])
    }
}

/// A credential as the API shows it. Only the answer to its creation has its secret.
public enum CredentialView {
    public static func fields(
        _ name: String, _ credential: Credential, project: String?, used: WallTime?, now: WallTime
    ) -> [(name: String, value: APIAnswer.Value)] {
        var fields: [(name: String, value: APIAnswer.Value)] = [
            ("id", .text(Credential.id(of: name))), ("kind", .text(credential.kind.word)),
        ]
        if let project { fields.append(("project", .text(project))) }
        if let role = credential.role { fields.append(("role", .text(role.word))) }
        fields.append(("name", .text(credential.label)))
        fields.append(("state", .text(credential.state(now: now).rawValue)))
        for (field, time) in [
            ("createTime", credential.created), ("expireTime", credential.expires),
            ("revokeTime", credential.revoked), ("lastUseTime", used),
        ] {
            if let time { fields.append((field, .text(Timestamp.text(time.milliseconds)))) }
        }
        return fields
    }
}
