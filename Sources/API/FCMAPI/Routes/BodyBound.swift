import HTTPMessages
import Model

/// A decision from a request's method, path and fields, before its body is read: how long the body may be, or
/// a refusal that does not depend on the body (rule: bounds-before-work).
public enum BodyBound: Sendable {
    case bytes(Int)
    /// The refused attempt is that of an unknown sender to act as an operator, for the audit log.
    case answer(HTTPResponse, RefusedOperator?)

    /// For paths that want no body, or a small object.
    static let small = 4 << 10
    /// A thousand tokens.
    static let batch = 256 << 10

    /// `isSigned`: whether the request has a bearer token that counts; asked only if a larger bound needs one
    /// (rule: bounds-before-work).
    static func of(_ request: HTTPRequest, isAdmin: Bool, isSigned: () -> Bool) -> BodyBound {
        if isAdmin { return .bytes(batch) }
        let target = Target(request.target)
        guard
            let route = Route.tree.find(target, request.method)?.route
                ?? target.withPlainColon.flatMap({ Route.tree.find($0, request.method)?.route })
        else { return .bytes(small) }
        switch route.body {
        case .none, .json, .form, .shortForm, .encrypted: return .bytes(route.body.bytesMax)
        case .message, .batch, .settings: break
        }
        if isSigned() { return .bytes(route.body.bytesMax) }
        if route.role != nil {
            // Callers without a token must not learn which paths exist.
            return request.fields["authorization"] == nil
                ? .bytes(small) : .answer(RequestRouter.operatorWanted.response(), nil)
        }
        let refusal = APIError.unauthenticated(request)
        return .answer(target.matches(0, "iid") ? refusal.iidResponse() : refusal.response(), nil)
    }
}

extension API {
    /// How long the body of this request may be. The server looks at the bearer before it reads the body, so
    /// that only its principals may send a large one.
    public func bodyBound(of request: HTTPRequest, isAdmin: Bool, now: WallTime) -> BodyBound {
        let bound = BodyBound.of(request, isAdmin: isAdmin) {
            authenticator.principal(request, directory, now: now) != nil
        }
        guard !isAdmin, case .answer(let response, _) = bound else { return bound }
        if let later = authenticator.newness(of: request, directory, now: now) {
            let isIID = Target(request.target).matches(0, "iid")
            return .answer(isIID ? later.iidResponse() : later.response(), nil)
        }
        return .answer(response, refusedOperator(request, now: now))
    }

    /// The most bytes that the content of a body with a content coding may have: as many as the body itself
    /// of a sender whose bearer counts. A path that wants one checks it before it reads the content.
    public static func contentMax(of request: HTTPRequest, isAdmin: Bool) -> Int {
        switch BodyBound.of(request, isAdmin: isAdmin, isSigned: { true }) {
        case .bytes(let most): most
        case .answer: 0
        }
    }

    /// A refused attempt to act as an operator counts for the audit log, although its body was not read.
    private func refusedOperator(_ request: HTTPRequest, now: WallTime) -> RefusedOperator? {
        let router = RequestRouter(
            api: self, request: request, isAdmin: false, now: now, id: MessageID(time: 0, random: 0))
        return router.refused(RequestRouter.operatorWanted)
    }
}
