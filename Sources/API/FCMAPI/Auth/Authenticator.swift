import Credentials
import HTTPMessages
import Model
import Routing

/// The party for which a request speaks.
public enum Principal: Hashable, Sendable {
    /// An operator on the admin socket, or the development server's `owner`: every project.
    case owner
    case project(ProjectNumber)
    /// An operator's token, with the rights of its role. The token's name begins with these bits.
    case `operator`(OperatorRole, name: UInt64)
}

/// Decides for which principal a request's bearer token speaks.
///
/// The server signs access tokens, so it checks them without a look-up. It looks other tokens up by their
/// hash. A verified token is kept for at most a minute, because a backend sends the same token with every
/// message. Confined to one loop.
final class Authenticator {
    /// Verified tokens that are kept. Only a handful of backends speak to one loop at a time.
    static let cacheMax = 16

    var signingKeys: SigningKeys
    private let isDev: Bool
    private struct Verified {
        var token: [UInt8]
        var principal: Principal
        var until: Int64
    }
    private var verified: [Verified] = []
    private var nextSlot = 0
    /// The last token that did not count, and until when the answer holds, in milliseconds. The server asks
    /// three times about one request: for its body's bound, for its share of the loop, and for its route.
    private var refused: (token: [UInt8], until: Int64) = ([], 0)
    private static let refusedMilliseconds: Int64 = 1000
    var uses = UseNotes()
    /// The principal of the request that is being routed; `nil` before `principal` has looked, or if it found
    /// none.
    private(set) var shown: Principal?

    init(_ signingKeys: SigningKeys, isDev: Bool) {
        self.signingKeys = signingKeys
        self.isDev = isDev
    }

    /// The directory changed, so tokens that were verified under the old one do not count any more.
    func forget() {
        verified.removeAll(keepingCapacity: true)
        refused.until = 0
    }

    /// Another request is being routed, and `principal` has not looked at it.
    func reset() { shown = nil }

    /// `nil` if the request has no bearer token that counts.
    /// `directory` is read only for a token that was not verified yet, since each copy of it counts.
    func principal(
        _ request: HTTPRequest, _ directory: @autoclosure () -> Directory, now: WallTime
    ) -> Principal? {
        shown = find(request, directory, now: now)
        return shown
    }

    private func find(_ request: HTTPRequest, _ directory: () -> Directory, now: WallTime) -> Principal? {
        guard let field = request.fields["authorization"], let token = Authenticator.bearer(field) else {
            return nil
        }
        let known = verified.first {
            $0.until > now.milliseconds && Crypto.equal($0.token.span, token.span)
        }
        if let known { return known.principal }
        if refused.until > now.milliseconds, refused.token.elementsEqual(token) { return nil }
        guard let (principal, until) = verify(token, directory(), now: now) else {
            refused.token.removeAll(keepingCapacity: true)
            refused.token.append(contentsOf: token)
            refused.until = now.milliseconds + Authenticator.refusedMilliseconds
            return nil
        }
        let entry = Verified(token: Array(token), principal: principal, until: until)
        if verified.count < Authenticator.cacheMax {
            verified.append(entry)
        } else {
            verified[nextSlot] = entry
            nextSlot = (nextSlot + 1) % Authenticator.cacheMax
        }
        return principal
    }

    /// The token of `Bearer TOKEN`. The scheme may be in any case, with blanks behind it (RFC 9110 §11.4).
    static func bearer(_ field: ArraySlice<UInt8>) -> ArraySlice<UInt8>? {
        let scheme: StaticString = "bearer "
        let count = scheme.utf8CodeUnitCount
        guard field.count > count else { return nil }
        for index in 0..<count where field[field.startIndex + index] | 0x20 != scheme.utf8Start[index] {
            return nil
        }
        return field.dropFirst(count).drop { $0 == 0x20 }
    }

    private func verify(
        _ token: ArraySlice<UInt8>, _ directory: Directory, now: WallTime
    ) -> (principal: Principal, until: Int64)? {
        let soon = now.milliseconds + 60_000
        if isDev, token.elementsEqual("owner".utf8) { return (.owner, soon) }
        let read = signingKeys.verifying(now: now).lazy.compactMap {
            AccessToken(token, signedWith: $0.material)
        }.first
        if let read {
            guard now < read.end, directory.byNumber[read.project] != nil,
                read.isTaken(directory, now: now)
            else { return nil }
            uses.note(read.key, now: now)
            let end = min(read.end.milliseconds, soon)
            return (
                .project(read.project), min(end, directory.accounts[read.key]?.end?.milliseconds ?? end)
            )
        }
        let name = KeyHash.of(token)
        if let key = directory.keys[name], key.kind == .bearer, now.isBefore(key.end) {
            uses.note(name, now: now)
            return (.project(key.project), min(key.end?.milliseconds ?? soon, soon))
        }
        if let found = directory.operators[name], now.isBefore(found.end) {
            uses.note(name, now: now)
            let bits = UInt64(name.prefix(Credential.idLength), radix: 16) ?? 0
            return (.operator(found.role, name: bits), min(found.end?.milliseconds ?? soon, soon))
        }
        return nil
    }

    /// Why a bearer that does not count may count soon: it is an access token of this cluster, and its
    /// project was created on another node a moment ago. `nil` for every other bearer.
    func newness(of request: HTTPRequest, _ directory: Directory, now: WallTime) -> APIError? {
        guard let field = request.fields["authorization"], let token = Authenticator.bearer(field),
            let read = signingKeys.verifying(now: now).lazy.compactMap({
                AccessToken(token, signedWith: $0.material)
            }).first,
            now < read.end, read.project.rawValue > directory.lastNumber
        else { return nil }
        return APIError(.unavailable(Directory.unknownYet), project: "", field: "")
    }

    /// Creates a token for a backend that has proved to have a key of a service account. `expiresIn`:
    /// seconds.
    func makeAccessToken(
        _ project: ProjectNumber, key: String, now: WallTime
    ) -> (token: [UInt8], expiresIn: Int64) {
        let token = AccessToken(
            project: project, key: key,
            end: WallTime(milliseconds: now.milliseconds + AccessToken.lifetime * 1000))
        return (token.signed(with: signingKeys.signing(now: now).material), AccessToken.lifetime - 1)
    }
}

extension Directory {
    static let unknownYet = "its project is not known here yet"

    /// The project of a registration that a key of this cluster has created. A project with a number beyond
    /// all known ones was created on another node a moment ago.
    func owner(of registration: Registration) -> Result<Project, Refusal> {
        if let project = byNumber[registration.project] { return .success(project) }
        let isNew = registration.project.rawValue > lastNumber
        return .failure(isNew ? .unavailable(Directory.unknownYet) : .unregistered)
    }

    /// The refusal of a registration in a request for another project. A new project may have the name of one
    /// that this node still knows.
    func refusal(ofForeign registration: Registration) -> Refusal {
        if case .failure(.unavailable(let reason)) = owner(of: registration) { return .unavailable(reason) }
        return .senderMismatch
    }
}
