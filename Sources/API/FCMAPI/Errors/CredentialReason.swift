import HTTPMessages

/// Why a bearer does not count, as Google's front end says it. Some libraries fetch a new access token on
/// `ACCESS_TOKEN_EXPIRED` alone.
///
/// Source: `google.api.ErrorReason` (googleapis/google/api/error_reason.proto).
enum CredentialReason: String, Sendable {
    case missing = "CREDENTIALS_MISSING"
    case expired = "ACCESS_TOKEN_EXPIRED"
    case unsupported = "ACCESS_TOKEN_TYPE_UNSUPPORTED"

    /// An access token of this server that does not count has ended, or its key or account has.
    init(_ request: HTTPRequest) {
        guard let field = request.fields["authorization"] else {
            self = .missing
            return
        }
        let isOurs = Authenticator.bearer(field).map { AccessToken.isMarked($0) } ?? false
        self = isOurs ? .expired : .unsupported
    }

    func write(_ out: inout JSONWriter) {
        out.beginObject()
        out.field("@type", "type.googleapis.com/google.rpc.ErrorInfo")
        out.field("reason", rawValue)
        out.field("domain", "googleapis.com")
        out.key("metadata")
        out.beginObject()
        out.field("service", "fcm.googleapis.com")
        out.field("method", "google.firebase.fcm.v1.FcmService.SendMessage")
        out.endObject()
        out.endObject()
    }
}

extension APIError {
    /// The 401 of a request whose bearer does not count.
    static func unauthenticated(_ request: HTTPRequest) -> APIError {
        var error = unauthenticated
        error.credentialReason = CredentialReason(request)
        return error
    }

    /// FCM's answer to a path that it does not have. SDKs that find no JSON look at the status alone, and
    /// none takes it for the end of a device.
    static let unknownPage: HTTPResponse = HTTPResponse(
        status: 404, fields: [("content-type", "text/html; charset=UTF-8")],
        body: Array(
            ("<!DOCTYPE html><html lang=en><meta charset=utf-8><title>Error 404 (Not Found)</title>"
                + "<p><b>404.</b> The requested URL was not found on this server.</html>\n").utf8))
}
