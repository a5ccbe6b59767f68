import HTTPMessages

/// A decision from a request's method, path and fields, before its body is read: how long the body may be, or
/// a refusal that does not depend on the body (rule: bounds-before-work).
public enum BodyBound: Sendable {
    case bytes(Int)
    case answer(HTTPResponse)

    /// For paths that want no body, or a small object.
    static let small = 4 << 10
    /// `POST /token` and `POST /iid/register`: an assertion, or a token and a few names.
    static let form = 32 << 10
    /// A message of 4,096 bytes with every byte escaped, and the JSON around it.
    static let send = 64 << 10
    /// A thousand tokens.
    static let batch = 256 << 10

    public static func of(_ request: HTTPRequest, isAdmin: Bool) -> BodyBound {
        if isAdmin { return .bytes(batch) }
        guard request.method == .post else { return .bytes(small) }
        let target = Target(request.target)
        if target.count == 1, target.matches(0, "token") { return .bytes(form) }
        if target.count == 2, target.matches(0, "iid") {
            if target.matches(1, "register") { return .bytes(form) }
            if target.says(1, "v1:batchAdd") || target.says(1, "v1:batchRemove") {
                return isSigned(request)
                    ? .bytes(batch) : .answer(APIError.unauthenticated.iidResponse())
            }
        }
        if target.count == 4, target.matches(0, "admin"), target.matches(1, "projects"),
            target.matches(3, "subscribe") || target.matches(3, "unsubscribe")
        {
            return isSigned(request) ? .bytes(batch) : .bytes(small)
        }
        // The settings of push services may have certificates of 64 KiB.
        if target.count == 5, target.matches(0, "admin"), target.matches(3, "push"),
            target.says(4, "web") || target.says(4, "apns") || target.says(4, "fcm")
        {
            return isSigned(request) ? .bytes(batch) : .bytes(small)
        }
        if target.count == 4, target.matches(0, "v1"), target.matches(1, "projects"),
            target.says(3, "messages:send")
        {
            return isSigned(request) ? .bytes(send) : .answer(APIError.unauthenticated.response())
        }
        return .bytes(small)
    }

    /// Whether the request has any bearer token. The server checks the token itself when the body is there.
    private static func isSigned(_ request: HTTPRequest) -> Bool {
        request.fields["authorization"].flatMap { Authenticator.bearer($0) } != nil
    }
}

extension Target {
    /// Whether the decoded segment is this text.
    fileprivate func says(_ place: Int, _ text: StaticString) -> Bool {
        matches(place, text)
            || decoded(place)?.elementsEqual(
                UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount)) ?? false
    }
}
