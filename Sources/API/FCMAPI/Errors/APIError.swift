import HTTPMessages
import Model
import Quotas
import Routing

/// An error in FCM's terms: a status, a message, and the details that SDKs look for.
///
/// Source: fcm.googleapis.com v1, `google.rpc.Status` and `google.firebase.fcm.v1.FcmError`. `status` is one
/// of the sixteen words that every SDK knows.
public struct APIError: Error, Sendable {
    enum Status: String, Sendable {
        case invalidArgument = "INVALID_ARGUMENT"
        case failedPrecondition = "FAILED_PRECONDITION"
        case unauthenticated = "UNAUTHENTICATED"
        case permissionDenied = "PERMISSION_DENIED"
        case notFound = "NOT_FOUND"
        case alreadyExists = "ALREADY_EXISTS"
        case resourceExhausted = "RESOURCE_EXHAUSTED"
        case internalError = "INTERNAL"
        case unavailable = "UNAVAILABLE"
        case deadlineExceeded = "DEADLINE_EXCEEDED"

        var code: Int {
            switch self {
            case .invalidArgument, .failedPrecondition: 400
            case .unauthenticated: 401
            case .permissionDenied: 403
            case .notFound: 404
            case .alreadyExists: 409
            case .resourceExhausted: 429
            case .internalError: 500
            case .unavailable: 503
            case .deadlineExceeded: 504
            }
        }
    }

    var status: Status
    var message: String
    /// `FcmError.errorCode`. The error of a send always has one if FCM has a code for it.
    var fcmCode: String?
    var violations: [(field: String, description: String)] = []
    var quota: (refusal: QuotaRefusal, project: String)?
    /// Why the credential does not count, in Google's words (`google.rpc.ErrorInfo`).
    var credentialReason: CredentialReason?
    /// The fault of a body of which nothing could be read.
    var bodyFault: BodyFault?
    /// The request has a name that the schema does not have.
    private(set) var isUnknownName = false
    /// No path of the API matches the request's.
    var isUnknownPath = false

    /// SDKs know no word for the statuses 413 and 415.
    enum BodyFault: Int, Sendable {
        case broken = 400
        case tooLong = 413
        case unknownCoding = 415
    }

    var code: Int { bodyFault?.rawValue ?? status.code }

    /// The description is also the message: SDKs show nothing else, and backends compare it before they
    /// delete a token.
    static func invalid(_ field: String, _ description: String) -> APIError {
        APIError(
            status: .invalidArgument, message: description, fcmCode: "INVALID_ARGUMENT",
            violations: [(field, description)])
    }

    /// A value of the wrong JSON type: FCM gives the field, and no `FcmError`.
    static func type(_ field: String, _ wanted: String, value: JSONValue) -> APIError {
        let text = "Invalid value at '\(field)' (\(wanted)), \(value.shown)"
        return APIError(
            status: .invalidArgument, message: text, fcmCode: nil, violations: [(field, text)])
    }

    static func unknownField(_ name: String, at path: String) -> APIError {
        let place = path.isEmpty ? "" : " at '\(path)'"
        let text = "Invalid JSON payload received. Unknown name \"\(name)\"\(place): Cannot find field."
        var error = APIError(
            status: .invalidArgument, message: text, fcmCode: nil, violations: [(path, text)])
        error.isUnknownName = true
        return error
    }

    static func unknownNames(_ names: UnknownNames) -> APIError {
        let violations = names.found.map { unknownField($0.name, at: $0.path).violations[0] }
        let text = violations.map(\.description).joined(separator: "\n")
        return APIError(status: .invalidArgument, message: text, fcmCode: nil, violations: violations)
    }

    static func badJSON(_ reason: String) -> APIError {
        APIError(
            status: .invalidArgument, message: "Invalid JSON payload received. \(reason)",
            fcmCode: "INVALID_ARGUMENT")
    }

    /// A content coding other than gzip.
    static func contentCoding(_ name: String) -> APIError {
        body(
            .unknownCoding,
            "The server takes no content coding but gzip, and the body has \(name.prefix(40)).")
    }

    static func gzip(_ failure: Gzip.Failure) -> APIError {
        let message = "The gzip body \(failure.reason)."
        switch failure {
        case .tooLong: return body(.tooLong, message)
        case .outOfMemory: return APIError(status: .unavailable, message: message, fcmCode: "UNAVAILABLE")
        default: return body(.broken, message)
        }
    }

    private static func body(_ fault: BodyFault, _ message: String) -> APIError {
        var error = APIError(status: .invalidArgument, message: message, fcmCode: "INVALID_ARGUMENT")
        error.bodyFault = fault
        return error
    }

    static let notFoundHere = {
        var error = APIError(
            status: .notFound, message: "The requested URL was not found on this server.")
        error.isUnknownPath = true
        return error
    }()
    static let unauthenticated = APIError(
        status: .unauthenticated,
        message: "Request had invalid authentication credentials. Expected OAuth 2 access token.")
    /// The same for a caller that may know the project of another, or a project that does not exist: FCM's
    /// 403 does not distinguish the two.
    static let permissionDenied = APIError(
        status: .permissionDenied,
        message: "The caller does not have permission for this project, or the project does not exist.")
    static let projectUnknown = APIError(status: .notFound, message: "The project does not exist.")

    /// An error for a refusal of the core. `field`: the field in which the request named the device.
    init(_ refusal: Refusal, project: String, field: String) {
        switch refusal {
        case .unregistered:
            self.init(status: .notFound, message: "Requested entity was not found.", fcmCode: "UNREGISTERED")
        case .invalidToken:
            self = .invalid(field, "The registration token is not a valid FCM registration token")
        case .senderMismatch:
            self.init(status: .permissionDenied, message: "SenderId mismatch", fcmCode: "SENDER_ID_MISMATCH")
        case .wrongCredential:
            self.init(status: .permissionDenied, message: "The credential is not this device's.")
        case .tooManyTopics:
            self.init(
                status: .invalidArgument,
                message: "The device has too many topics, or the project too many names of topics.",
                fcmCode: "TOO_MANY_TOPICS")
        case .pushKeyRefused:
            self.init(
                status: .unauthenticated, message: "Auth error from APNS or Web Push Service",
                fcmCode: "THIRD_PARTY_AUTH_ERROR")
        case .quota(let refusal):
            self.init(
                status: .resourceExhausted, message: QuotaTexts(refusal.kind).message,
                fcmCode: "QUOTA_EXCEEDED")
            quota = (refusal, project)
        case .unavailable(let reason):
            self.init(
                status: .unavailable, message: "The service is currently unavailable: \(reason).",
                fcmCode: "UNAVAILABLE")
        case .deadlineExceeded:
            self.init(
                status: .deadlineExceeded,
                message: "It is not known whether the message was accepted before the deadline.")
        }
    }

    init(
        status: Status, message: String, fcmCode: String? = nil,
        violations: [(field: String, description: String)] = []
    ) {
        self.status = status
        self.message = message
        self.fcmCode = fcmCode
        self.violations = violations
    }
}

/// The names of a quota in error details.
struct QuotaTexts {
    var metric: String
    var limit: String
    var unit: String
    var message: String

    init(_ kind: QuotaKind) {
        switch kind {
        case .sends:
            self.init(
                "send_requests", "SendsPerMinutePerProject", unit: "1/min/{project}",
                what: "the project's sends")
        case .subscriptionChanges:
            self.init(
                "topic_subscription_changes", "SubscriptionChangesPerSecondPerProject", unit: "1/s/{project}",
                what: "the project's subscription changes")
        case .registrations:
            self.init(
                "registrations", "RegistrationsPerSecondPerProject", unit: "1/s/{project}",
                what: "the project's registrations")
        case .fanouts:
            self.init(
                "concurrent_fanouts", "ConcurrentFanoutsPerProject", unit: "1/{project}",
                what: "the project's unfinished fan-outs")
        case .deviceMinute:
            self.init(
                "device_messages", "MessagesPerMinutePerDevice", unit: "1/min/{device}",
                what: "messages to one device")
        case .deviceHour:
            self.init(
                "device_messages", "MessagesPerHourPerDevice", unit: "1/h/{device}",
                what: "messages to one device")
        case .addressMinute:
            self.init(
                "registrations", "RegistrationsPerMinutePerAddress", unit: "1/min/{address}",
                what: "registrations from one address")
        case .addressDay:
            self.init(
                "registrations", "RegistrationsPerDayPerAddress", unit: "1/d/{address}",
                what: "registrations from one address")
        case .addressChangesMinute:
            self.init(
                "topic_subscription_changes", "SubscriptionChangesPerMinutePerAddress",
                unit: "1/min/{address}",
                what: "subscription changes of devices from one address")
        case .addressChangesDay:
            self.init(
                "topic_subscription_changes", "SubscriptionChangesPerDayPerAddress", unit: "1/d/{address}",
                what: "subscription changes of devices from one address")
        case .addressCallsMinute:
            self.init(
                "device_calls", "DeviceCallsPerMinutePerAddress", unit: "1/min/{address}",
                what: "calls of devices and senders from one address")
        case .devices:
            self.init("devices", "DevicesPerProject", unit: "1/{project}", what: "the project's devices")
        }
    }

    private init(_ metric: String, _ limit: String, unit: String, what: String) {
        self.metric = "fcm.googleapis.com/\(metric)"
        self.limit = limit
        self.unit = unit
        message = "Quota exceeded for \(what)."
    }
}

extension APIError {
    static let jsonType = "application/json; charset=UTF-8"

    /// The v1 envelope. `retryAfter`: adds the header, and some SDKs then wait so long.
    func response(retryAfter: Bool = false) -> HTTPResponse {
        var out = JSONWriter()
        out.beginObject()
        out.key("error")
        out.beginObject()
        out.key("code")
        out.number(code)
        out.field("message", message)
        out.field("status", status.rawValue)
        if fcmCode != nil || !violations.isEmpty || quota != nil || credentialReason != nil {
            out.key("details")
            out.beginArray()
            writeDetails(&out)
            out.endArray()
        }
        out.endObject()
        out.endObject()
        var fields = [(name: "content-type", value: APIError.jsonType)]
        if status == .unauthenticated { fields.append(challenge) }
        if bodyFault == .unknownCoding { fields.append(APIError.takenCoding) }
        if retryAfter, let quota {
            let delay = quota.refusal.retryDelay
            let seconds = delay.seconds + (delay % .seconds(1) > .zero ? 1 : 0)
            fields.append(("retry-after", "\(max(1, seconds))"))
        }
        // The cause, a bound or a move, is mostly over within a second.
        if retryAfter, status == .unavailable { fields.append(("retry-after", "1")) }
        return HTTPResponse(status: code, fields: fields, body: out.bytes)
    }

    private func writeDetails(_ out: inout JSONWriter) {
        if !violations.isEmpty {
            out.beginObject()
            out.field("@type", "type.googleapis.com/google.rpc.BadRequest")
            out.key("fieldViolations")
            out.beginArray()
            for violation in violations {
                out.beginObject()
                out.field("field", violation.field)
                out.field("description", violation.description)
                out.endObject()
            }
            out.endArray()
            out.endObject()
        }
        if let fcmCode {
            out.beginObject()
            out.field("@type", "type.googleapis.com/google.firebase.fcm.v1.FcmError")
            out.field("errorCode", fcmCode)
            out.endObject()
        }
        if let quota { writeQuota(quota.refusal, quota.project, out: &out) }
        if let credentialReason { credentialReason.write(&out) }
    }

    private func writeQuota(_ refusal: QuotaRefusal, _ project: String, out: inout JSONWriter) {
        let texts = QuotaTexts(refusal.kind)
        out.beginObject()
        out.field("@type", "type.googleapis.com/google.rpc.QuotaFailure")
        out.key("violations")
        out.beginArray()
        out.beginObject()
        out.field("subject", "project:\(project)")
        out.field("description", "\(texts.message) The limit is \(refusal.limit) (\(texts.unit)).")
        out.endObject()
        out.endArray()
        out.endObject()
        out.beginObject()
        out.field("@type", "type.googleapis.com/google.rpc.ErrorInfo")
        out.field("reason", "RATE_LIMIT_EXCEEDED")
        out.field("domain", "googleapis.com")
        out.key("metadata")
        out.beginObject()
        out.field("quota_metric", texts.metric)
        out.field("quota_limit", texts.limit)
        out.field("quota_limit_value", "\(refusal.limit)")
        out.field("quota_unit", texts.unit)
        out.field("consumer", "projects/\(project)")
        out.endObject()
        out.endObject()
        out.beginObject()
        out.field("@type", "type.googleapis.com/google.rpc.RetryInfo")
        let milliseconds = refusal.retryDelay.milliseconds
        let thousandths = String(milliseconds % 1000 + 1000).dropFirst()
        out.field("retryDelay", "\(milliseconds / 1000).\(thousandths)s")
        out.endObject()
    }

    /// The IID API's form: a plain string.
    func iidResponse(_ word: String? = nil) -> HTTPResponse {
        var out = JSONWriter()
        out.beginObject()
        out.field("error", word ?? (bodyFault == nil ? status.rawValue : message))
        out.endObject()
        var fields = [(name: "content-type", value: APIError.jsonType)]
        if status == .unauthenticated { fields.append(challenge) }
        if bodyFault == .unknownCoding { fields.append(APIError.takenCoding) }
        return HTTPResponse(status: code, fields: fields, body: out.bytes)
    }

    /// RFC 9110 §15.5.16.
    private static let takenCoding = (name: "accept-encoding", value: "gzip")
    /// RFC 6750 §3. Google's library for Java fetches another token only if the challenge says
    /// `invalid_token`.
    private var challenge: (name: String, value: String) {
        let isWrong = credentialReason.map { $0 != .missing } ?? false
        return (
            "www-authenticate", "Bearer realm=\"tidecast\"" + (isWrong ? ", error=\"invalid_token\"" : "")
        )
    }
}

extension JSONValue {
    func text(of field: String) throws(APIError) -> String {
        guard let text else { throw .type(field, "TYPE_STRING", value: self) }
        return text
    }

    func flag(of field: String) throws(APIError) -> Bool {
        guard let bool else { throw .type(field, "TYPE_BOOL", value: self) }
        return bool
    }
}
