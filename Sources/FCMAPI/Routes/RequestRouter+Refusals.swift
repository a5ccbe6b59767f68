import HTTPMessages
import Model

/// An operator's request that was refused, for the audit log.
public struct RefusedOperator: Hashable, Sendable {
    /// Who it says to be: an operator, a backend, or the id of a token that counts for nothing.
    public var name: String
    /// What was asked for, and why it was refused.
    public var subject: String
}

extension RequestRouter {
    /// Bytes of a path that are told; a query may have a key in it and is left out.
    private static let pathBytesMax = 100

    /// Whether somebody tried to act as an operator: with a token under /admin that is not enough there, or
    /// with an operator's elsewhere. Who shows none is told that there is nothing.
    func refused(_ error: APIError) -> RefusedOperator? {
        guard !isAdmin, error.status == .unauthenticated || error.status == .permissionDenied,
            let field = request.fields["authorization"]
        else { return nil }
        let isOperator: Bool
        if case .operator = shown { isOperator = true } else { isOperator = false }
        guard target.matches(0, "admin") || isOperator else { return nil }
        var name = api.author(of: request, now: now)
        if shown == nil {
            let token = Authenticator.bearer(field).map { Array($0) } ?? []
            name = "unknown token \(KeyHash.of(token).prefix(16))"
        }
        let word = "\(request.method)".prefix { $0 != "(" }.uppercased()
        let path = request.target.prefix { $0 != UInt8(ascii: "?") }.prefix(RequestRouter.pathBytesMax)
        return RefusedOperator(
            name: name,
            subject: "\(word) \(String(decoding: path, as: UTF8.self)): \(error.message)")
    }
}
