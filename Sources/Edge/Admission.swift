import HTTPMessages

/// What a handler says of a request whose header block is whole, before its body is read.
public enum BodyAdmission: Sendable {
    /// The body may have so many bytes.
    case upTo(Int)
    /// The request is answered at once; its body is not read.
    case refused(HTTPResponse)
}

/// What the edge itself answers.
enum EdgeAnswer {
    static let tooLong = text(413, "The body is longer than this path takes.")
    static let tooManyBodies = text(503, "Too many bytes of unfinished bodies.")
    static let tooManyRequests = text(503, "Too many requests wait to be begun.")
    static let waitedTooLong = text(503, "The request waited too long to be begun.")
    static let tooManyAnswers = text(503, "Too many bytes of answers that are not read.")

    private static func text(_ status: Int, _ line: String) -> HTTPResponse {
        HTTPResponse(
            status: status, fields: [("content-type", "text/plain; charset=utf-8")],
            body: Array("\(line)\n".utf8))
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
