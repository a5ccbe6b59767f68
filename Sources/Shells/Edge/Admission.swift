import HTTPMessages

/// A handler's decision about a request whose header block is whole, before the edge reads the body.
public enum BodyAdmission: Sendable {
    /// The body may have at most so many bytes.
    case upTo(Int)
    /// The edge answers the request immediately, and does not read its body.
    case refused(HTTPResponse)
}

/// The answers that the edge gives by itself. They have FCM's envelope (`google.rpc.Status` with an
/// `FcmError`), because SDKs read nothing else. The texts need no escaping in JSON.
enum EdgeAnswer {
    static let tooLong = error(413, "INVALID_ARGUMENT", message: "The body is longer than this path takes.")
    static let tooManyBodies = error(503, "UNAVAILABLE", message: "Too many bytes of unfinished bodies.")
    private static let tooManyRequests = error(
        503, "UNAVAILABLE", message: "Too many requests wait to be begun.")
    private static let waitedTooLong = error(
        503, "UNAVAILABLE", message: "The request waited too long to be begun.")
    static let tooManyAnswers = error(
        503, "UNAVAILABLE", message: "Too many bytes of answers that are not read.")

    /// The answer to a request for which there is no turn, or was none in time.
    static func noTurn(for request: HTTPRequest?, waited: Bool) -> HTTPResponse {
        if request?.wantsOnlyEvents ?? false { return EventStream.refusal() }
        return waited ? waitedTooLong : tooManyRequests
    }

    private static func error(_ code: Int, _ word: String, message: String) -> HTTPResponse {
        let detail =
            #"{"@type":"type.googleapis.com/google.firebase.fcm.v1.FcmError","errorCode":"\#(word)"}"#
        let body =
            #"{"error":{"code":\#(code),"message":"\#(message)","status":"\#(word)","details":[\#(detail)]}}"#
        var fields =
            [(name: "content-type", value: "application/json; charset=UTF-8")] + HTTPResponse.forPages
        // SDKs wait so many seconds before they repeat a request that was answered 503.
        if code == 503 { fields.append((name: "retry-after", value: "1")) }
        return HTTPResponse(status: code, fields: fields, body: Array(body.utf8))
    }

    /// The refusal of a method that no path takes (RFC 9110 §9.1): 405 for TRACE and CONNECT, else 501. `nil`
    /// for any method that some path takes.
    static func refusal(of method: HTTPMethod) -> HTTPResponse? {
        guard case .other(let name) = method else { return nil }
        guard name == "TRACE" || name == "CONNECT" else { return HTTPResponse(status: 501) }
        return HTTPResponse(
            status: 405, fields: [("allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")])
    }
}

extension BodyAdmission {
    /// The same decision, or 413 if `bytes` are too many. `bytes`: announced, or received so far.
    func check(_ bytes: Int) -> BodyAdmission {
        guard case .upTo(let most) = self, bytes > most else { return self }
        return .refused(EdgeAnswer.tooLong)
    }
}
