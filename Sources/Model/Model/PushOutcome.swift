/// What a push service's answer means for the message and for the registration.
public enum PushOutcome: Hashable, Sendable {
    /// The service has the message.
    case accepted
    /// The address is dead. The message is given up, and the registration loses the address, unless the
    /// device has registered the address again since.
    case gone
    /// The service does not take this message. The message is given up, the address stays. The text is for
    /// an operator.
    case refusedContent(String)
    /// The answer says nothing about the message: a proxy's, a redirect, a refusal without the service's own
    /// words. The message waits, and somebody must look. It is given up if the service takes others
    /// meanwhile. The text is for an operator.
    case unexplained(String)
    /// The server's own key is wrong, expired or not the subscription's. The message waits, the address
    /// stays, and somebody must look. The text is for an operator.
    case credentials(String)
    /// The service cannot reach the device's platform with the key that the project has given the service,
    /// and may reach other devices. Otherwise the same as `credentials`.
    case platformKey(String)
    /// The project has no settings for the service, or the operator has switched the service off. The message
    /// waits, the address stays. The text is for an operator.
    case unset(String)
    /// Too much was sent. The message waits for so long, or for as long as the sender finds right.
    case throttled(retryAfterSeconds: Int?)
    /// The project has sent too much: nothing of the project goes to the service for so long, or for as long
    /// as the sender finds right.
    case overQuota(retryAfterSeconds: Int?)
    /// The service is not well, or could not be reached. The message is tried again.
    case transient(retryAfterSeconds: Int?)
    /// The service is healthy, but its 410 is older than this registration. The message is tried again.
    case formerEnd(retryAfterSeconds: Int?)
    /// The node did not send the message, which is no evidence about the service. The message is tried again.
    /// The text is for an operator.
    case unsent(String)
    /// The message's time at this service was over before the message left.
    case expired
}

extension PushOutcome {
    /// The outcome in counters, in logs and in answers about devices.
    public var word: String {
        switch self {
        case .accepted: "accepted"
        case .gone: "gone"
        case .refusedContent, .unexplained: "refused"
        case .credentials, .platformKey, .unset: "credentials"
        case .throttled, .overQuota: "throttled"
        case .transient, .formerEnd: "failed"
        case .unsent: "unsent"
        case .expired: "expired"
        }
    }

    public var isUnexplained: Bool {
        if case .unexplained = self { true } else { false }
    }

    /// What the service or the node said, for an operator.
    public var reason: String? {
        switch self {
        case .refusedContent(let reason), .unexplained(let reason), .credentials(let reason),
            .platformKey(let reason), .unset(let reason), .unsent(let reason):
            reason
        case .throttled(let seconds?), .overQuota(let seconds?), .transient(let seconds?),
            .formerEnd(let seconds?):
            "try again in \(seconds) s"
        case .expired: PushOutcome.timeIsOver
        case .accepted, .gone, .throttled(nil), .overQuota(nil), .transient(nil), .formerEnd(nil): nil
        }
    }

    public static let timeIsOver = "the message's time to live is over"
}
