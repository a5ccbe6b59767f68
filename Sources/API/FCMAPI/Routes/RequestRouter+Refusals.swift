import Credentials
import HTTPMessages

/// A refused request of an operator, for the audit log.
public struct RefusedOperator: Hashable, Sendable {
    /// The name of the sender: an operator, a project, or "unknown token". Not the token: a client that
    /// invents tokens would have a name, and entries, for each.
    public var name: String
    /// The request, and why it was refused.
    public var subject: String
}

extension RequestRouter {
    /// Bytes of a path that the log shows. The log leaves the query out, because it may contain a key.
    private static let pathBytesMax = 100

    /// The attempt to act as an operator, if the refused request was one: a token below /admin that is not
    /// enough there, or an operator's token elsewhere. A request without a token is no attempt.
    func refused(_ error: APIError) -> RefusedOperator? {
        guard !isAdmin, error.status == .unauthenticated || error.status == .permissionDenied,
            let field = request.fields["authorization"]
        else { return nil }
        let isOperator: Bool
        if case .operator = shown { isOperator = true } else { isOperator = false }
        guard target.matches(0, "admin") || isOperator else { return nil }
        var (name, hash) = (api.author(of: request, now: now), "")
        if shown == nil {
            let token = Authenticator.bearer(field).map { Array($0) } ?? []
            (name, hash) = ("unknown token", " (\(KeyHash.of(token).prefix(16)))")
        }
        let word = "\(request.method)".prefix { $0 != "(" }.uppercased()
        let path = request.target.prefix { $0 != UInt8(ascii: "?") }.prefix(RequestRouter.pathBytesMax)
        return RefusedOperator(
            name: name,
            subject: "\(word) \(String(decoding: path, as: UTF8.self))\(hash): \(error.message)")
    }
}
