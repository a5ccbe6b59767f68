import HTTPMessages

/// What a handler says of a request whose header block is whole, before its body is read.
public enum BodyAdmission: Sendable {
    /// The body may have so many bytes.
    case upTo(Int)
    /// The request is answered at once; its body is not read.
    case refused(HTTPResponse)
}

/// What the edge itself answers, in FCM's envelope (`google.rpc.Status` with an `FcmError`), since SDKs read
/// nothing else. The texts have nothing in them that JSON escapes.
enum EdgeAnswer {
    static let tooLong = error(413, "INVALID_ARGUMENT", "The body is longer than this path takes.")
    static let tooManyBodies = error(503, "UNAVAILABLE", "Too many bytes of unfinished bodies.")
    static let tooManyRequests = error(503, "UNAVAILABLE", "Too many requests wait to be begun.")
    static let waitedTooLong = error(503, "UNAVAILABLE", "The request waited too long to be begun.")
    static let tooManyAnswers = error(503, "UNAVAILABLE", "Too many bytes of answers that are not read.")

    private static func error(_ code: Int, _ word: String, _ message: String) -> HTTPResponse {
        let detail =
            #"{"@type":"type.googleapis.com/google.firebase.fcm.v1.FcmError","errorCode":"\#(word)"}"#
        let body =
            #"{"error":{"code":\#(code),"message":"\#(message)","status":"\#(word)","details":[\#(detail)]}}"#
        var fields = [(name: "content-type", value: "application/json; charset=UTF-8")]
        // SDKs that repeat a 503 wait so many seconds before.
        if code == 503 { fields.append((name: "retry-after", value: "1")) }
        return HTTPResponse(status: code, fields: fields, body: Array(body.utf8))
    }

    /// The answer to a method that no path has (RFC 9110 §9.1), if it is one.
    static func refusal(of method: HTTPMethod) -> HTTPResponse? {
        guard case .other(let name) = method else { return nil }
        guard name == "TRACE" || name == "CONNECT" else { return HTTPResponse(status: 501) }
        return HTTPResponse(
            status: 405, fields: [("allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")])
    }
}

extension BodyAdmission {
    /// How many bytes the body may have, of which `bytes` are announced or there; or why it may not.
    func check(_ bytes: Int) -> BodyAdmission {
        guard case .upTo(let most) = self, bytes > most else { return self }
        return .refused(EdgeAnswer.tooLong)
    }
}
