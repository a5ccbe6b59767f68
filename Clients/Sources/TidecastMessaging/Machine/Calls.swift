/// A request to the server, which has one answer.
enum Call: Equatable, Sendable {
    case register
    case unregister(Registration)
    case change(Registration, topic: String, isSubscribe: Bool)
    /// A page of the device's own topics; `page` is the token of the page, empty for the first.
    case list(Registration, page: String)
    case acknowledge(Registration, event: String)
    /// Asks for the auth token with which a device registers its address.
    case authToken(Registration)
    case tell(Registration, PushAddress, authToken: String)
}

/// The server's answer to a call.
enum Answer: Equatable, Sendable {
    case done(Content)
    case refused(Refusal)
    /// The server did not answer. The call may have been carried out.
    case unreachable(String)

    enum Content: Equatable, Sendable {
        case nothing
        case registration(Registration)
        case topics([String], nextPage: String)
        case authToken(String)
    }
}

/// An answer with a status outside of 200…299, or an answer without sense.
struct Refusal: Equatable, Sendable {
    var status: Int
    /// FCM's code, such as `TOO_MANY_TOPICS`; empty if the answer has none.
    var code = ""
    /// The first field that the server names.
    var field = ""
    var message = ""
    /// `Retry-After`.
    var retryAfter: Duration?
    /// Whether the body is the API's error. Other bodies come from machines on the way, and say nothing of
    /// the call.
    var isFromServer = true

    /// What follows from a refusal. Only `registrationGone` proves that the registration has ended.
    enum Meaning: Equatable {
        case retry
        /// The server does not do what the call asks for.
        case final
        /// The server has ended the registration.
        case registrationGone
        /// The server has never made the registration. It may be another server.
        case registrationUnknown
        /// The server does not take the device, the credential or the project. That proves no end: it may be
        /// another server, or not know the project yet.
        case unproven
    }

    var meaning: Meaning {
        guard isFromServer else { return .retry }
        switch status {
        case 400 where field == "name": return .registrationUnknown
        case 404 where code == "UNREGISTERED": return .registrationGone
        case 401, 403, 404: return .unproven
        case 400, 409, 413, 415: return .final
        default: return .retry
        }
    }

    var error: MessagingError {
        let code: MessagingError.Code =
            switch (status, self.code) {
            case (400, "TOO_MANY_TOPICS"): .tooManyTopics
            case (401, _): .authentication
            case (403, _): .noAccess
            case (408, _), (504, _): .timeout
            case (400..<500, _) where status != 429: .invalidRequest
            default: .network
            }
        return MessagingError(code, message.isEmpty ? "The server answers \(status)." : message)
    }
}

/// What the machine wants its shell to do, in this order. After `store` and `storeRegistrations`, the shell
/// reports to `stored`.
enum Effect: Equatable, Sendable {
    /// `isUrgent`: must be on the disk before the next effect.
    case store(ClientState, isUrgent: Bool)
    case storeRegistrations(Registrations)
    case send(UInt64, Call)
    /// Opens a stream of events; `resume` is the last event that the app has handled.
    case openStream(UInt64, Registration, resume: String?)
    case closeStream(UInt64)
    /// Ends the waiting of these callers; `nil` for success.
    case complete([UInt64], MessagingError?)
    case answerToken([UInt64], Result<String, MessagingError>)
    case tokenChanged(String?)
    /// Gives the listener the event for which it waits.
    case deliver(UInt64, MessagingEvent)
    /// The listener gets no further event.
    case endListener(UInt64)
}
