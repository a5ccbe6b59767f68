import Model

/// An answer that a test wants instead of a send, or a delay before the send.
struct Fault: Hashable, Sendable {
    /// The answer; `nil` if the send is only delayed.
    var answer: Answer?
    /// The time until the answer, or until the send begins.
    var delay = TimeSpan.zero
    /// How often the fault is given; `nil` for ever.
    var times: Int? = 1
    /// A registration token or FID; `nil` for every send.
    var device: [UInt8]?

    static let delayMax: TimeSpan = .seconds(600)
    static let timesMax = 1_000_000

    func concerns(_ device: [UInt8]?) -> Bool { self.device == nil || self.device == device }

    /// Rows of FCM's table of errors, by the code by which SDKs distinguish them
    /// (https://firebase.google.com/docs/cloud-messaging/error-codes).
    enum Answer: String, CaseIterable, Sendable {
        case invalidArgument = "INVALID_ARGUMENT"
        case unregistered = "UNREGISTERED"
        case senderIDMismatch = "SENDER_ID_MISMATCH"
        case quotaExceeded = "QUOTA_EXCEEDED"
        case unavailable = "UNAVAILABLE"
        case internalError = "INTERNAL"
        case thirdPartyAuthError = "THIRD_PARTY_AUTH_ERROR"
        case unauthenticated = "UNAUTHENTICATED"
        case permissionDenied = "PERMISSION_DENIED"
        case deadlineExceeded = "DEADLINE_EXCEEDED"

        static var words: String { allCases.map(\.rawValue).joined(separator: ", ") }

        var error: APIError {
            switch self {
            case .invalidArgument: APIError(.invalidToken, project: "", field: "message.token")
            case .unregistered: APIError(.unregistered, project: "", field: "message.token")
            case .senderIDMismatch: APIError(.senderMismatch, project: "", field: "message.token")
            case .quotaExceeded:
                APIError(
                    status: .resourceExhausted, message: "Quota exceeded: a test asked for it.",
                    fcmCode: rawValue)
            case .unavailable:
                APIError(
                    status: .unavailable, message: "The service is currently unavailable.", fcmCode: rawValue)
            case .internalError:
                APIError(
                    status: .internalError, message: "Internal error encountered.", fcmCode: rawValue)
            case .thirdPartyAuthError: APIError(.pushKeyRefused, project: "", field: "message.token")
            case .unauthenticated: .unauthenticated
            case .permissionDenied: .permissionDenied
            case .deadlineExceeded: APIError(.deadlineExceeded, project: "", field: "message.token")
            }
        }
    }

    /// Reads a field `x-tidecast-fault`: an answer, a delay, or both, as in `UNAVAILABLE; delay=1.5s`.
    init(field: String) throws(APIError) {
        for part in field.split(separator: ";").map({ $0.drop(while: { $0 == " " }) }) {
            if part.hasPrefix("delay=") {
                delay = try Fault.delay(String(part.dropFirst("delay=".count)))
            } else {
                answer = try Fault.answer(String(part))
            }
        }
        try check()
    }

    /// Reads `{"error", "delay", "times", "device"}`, each of which may be missing; `"times": 0` means for
    /// ever.
    init(_ body: JSONValue) throws(APIError) {
        guard body.kind == .object else { throw .badJSON("The body must be an object.") }
        for (name, value) in body.uniqueFields() {
            switch String(decoding: name, as: UTF8.self) {
            case "error": answer = try Fault.answer(value.text ?? value.shown)
            case "delay": delay = try Fault.delay(value.text ?? value.shown)
            case "device": device = Array((value.text ?? value.shown).utf8)
            case "times":
                guard let count = value.integer, (0...Int64(Fault.timesMax)).contains(count) else {
                    throw .invalid("times", "The count must be from 0, for ever, to \(Fault.timesMax).")
                }
                times = count == 0 ? nil : Int(count)
            case let other: throw .unknownField(other, at: "")
            }
        }
        try check()
    }

    private func check() throws(APIError) {
        guard answer != nil || delay > .zero else {
            throw .invalid("error", "A fault needs an error or a delay.")
        }
    }

    private static func answer(_ word: String) throws(APIError) -> Answer {
        guard let answer = Answer(rawValue: word) else {
            throw .invalid("error", "The error must be one of \(Answer.words).")
        }
        return answer
    }

    private static func delay(_ text: String) throws(APIError) -> TimeSpan {
        var text = text
        guard let delay = text.withUTF8({ Duration.read($0) }), delay <= delayMax else {
            throw .invalid("delay", "The delay must be a duration such as \"1.5s\", at most ten minutes.")
        }
        return delay
    }

    func write(to out: inout JSONWriter) {
        out.beginObject()
        if let answer { out.field("error", answer.rawValue) }
        if delay > .zero {
            let thousandths = String(delay.milliseconds % 1000 + 1000).dropFirst()
            out.field("delay", "\(delay.seconds).\(thousandths)s")
        }
        out.key("times")
        out.number(times ?? 0)
        if let device { out.field("device", device) }
        out.endObject()
    }
}
