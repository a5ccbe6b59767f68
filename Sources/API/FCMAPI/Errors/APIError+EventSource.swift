import HTTPMessages
import Routing

// Answers to an `EventSource`. A browser gives it up with any answer but 200 (WHATWG HTML §9.2.3). So a
// refusal that passes is a stream that ends immediately and says when to come back.

extension RequestRouter {
    /// The answer to a request that is refused before it has begun.
    func answer(_ error: APIError) -> HTTPResponse {
        if error.isUnknownPath, !isAdmin, !isForOperators {
            var page = APIError.unknownPage
            if target.isForPages { page.fields += HTTPResponse.forPages }
            return page
        }
        if target.matches(0, "iid") { return error.iidResponse() }
        if request.wantsOnlyEvents, error.isPassing { return error.endedStream }
        var response = error.response(retryAfter: error.quota != nil)
        if target.isForPages { response.fields += HTTPResponse.forPages }
        return response
    }

    private var isForOperators: Bool { target.matches(0, "admin") || target.matches(0, "emulator") }
}

extension APIError {
    var isPassing: Bool { code == 429 || code == 503 }

    /// A stream that begins and ends with this refusal.
    var endedStream: HTTPResponse {
        EventStream.refusal(wait: quota.map { Int($0.refusal.retryDelay.milliseconds) } ?? 0)
    }
}

extension API {
    /// The answer to a stream that is refused before it begins.
    public func refuseStream(_ refusal: Refusal, isEventSource: Bool) -> HTTPResponse {
        let error = APIError(refusal, project: "", field: "name")
        if isEventSource, error.isPassing { return error.endedStream }
        var response = error.response(retryAfter: true)
        response.fields += HTTPResponse.forPages
        return response
    }
}
