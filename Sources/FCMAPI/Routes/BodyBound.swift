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
    /// A token URI and `POST /iid/register`: an assertion, or a token and a few names.
    static let form = 32 << 10
    /// A message of 4,096 bytes with every byte escaped, and the JSON around it.
    static let send = 64 << 10
    /// A thousand tokens.
    static let batch = 256 << 10

    /// `isSigned`: whether the request has a bearer token that counts; asked only where a larger bound needs
    /// one (rule: bounds-before-work).
    static func of(_ request: HTTPRequest, isAdmin: Bool, isSigned: () -> Bool) -> BodyBound {
        if isAdmin { return .bytes(batch) }
        guard request.method == .post else { return .bytes(small) }
        let target = Target(request.target)
        if target.isTokenURI { return .bytes(form) }
        if target.count == 2, target.matches(0, "iid") {
            if target.matches(1, "register") { return .bytes(form) }
            if target.says(1, "v1:batchAdd") || target.says(1, "v1:batchRemove") {
                return isSigned() ? .bytes(batch) : .answer(APIError.unauthenticated.iidResponse(), nil)
            }
        }
        if target.isLargeOfAdmin {
            if isSigned() { return .bytes(batch) }
            // Callers without a token must not learn which paths exist.
            return request.fields["authorization"] == nil
                ? .bytes(small) : .answer(RequestRouter.operatorWanted.response(), nil)
        }
        if target.count == 4, target.matches(0, "v1"), target.matches(1, "projects"),
            target.says(3, "messages:send")
        {
            return isSigned() ? .bytes(send) : .answer(APIError.unauthenticated(request).response(), nil)
        }
        return .bytes(small)
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

extension Target {
    /// Whether the decoded segment is this text.
    fileprivate func says(_ index: Int, _ text: StaticString) -> Bool {
        matches(index, text)
            || decoded(index)?.elementsEqual(
                UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount)) ?? false
    }

    /// Whether a large body belongs to this path below /admin: a batch, or the settings of Web Push, which
    /// may have certificates of 64 KiB.
    fileprivate var isLargeOfAdmin: Bool {
        guard matches(0, "admin"), matches(1, "projects") else { return false }
        if count == 4 { return matches(3, "subscribe") || matches(3, "unsubscribe") }
        return count == 5 && matches(3, "push")
            && (says(4, "web") || says(4, "apns") || says(4, "fcm"))
    }
}
