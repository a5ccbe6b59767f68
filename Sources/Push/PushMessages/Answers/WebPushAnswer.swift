import Model

/// Reads the answers of Web Push services: RFC 8030 §5 and §7.3, RFC 8292 §4.2, and what the four vendors do.
public enum WebPushAnswer {
    /// Apple's reasons (Sending web push notifications, "Review responses for push notification errors") that
    /// blame the signature.
    private static let appleKeyReasons: Set = [
        "BadAuthorizationHeader", "BadJwtToken", "BadVapidPublicKey", "VapidPkHashMismatch",
    ]
    /// Mozilla's errno for a signature that does not count.
    private static let mozillaKeyError: Int64 = 109

    /// `body`: what the service sent, at most 4 KiB. `retryAfter`: the value of the field of that name.
    ///
    /// No redirect is followed: it would let a service choose the host.
    public static func outcome(
        status: Int, host: String, retryAfter: String?, body: [UInt8], now: WallTime
    ) -> PushOutcome {
        let answer = AnswerBody(body)
        switch status {
        case 200..<300: return .accepted
        case 404, 410: return .gone
        case 401, 403: return .credentials(description(status, host, answer: answer))
        // Microsoft has used 406 for "throttled".
        case 406, 429: return .throttled(retryAfterSeconds: RetryAfter.seconds(retryAfter, now: now))
        case 408, 421, 425, 500...:
            return .transient(retryAfterSeconds: RetryAfter.seconds(retryAfter, now: now))
        case 300..<500:
            let text = description(status, host, answer: answer)
            if status == 400, blamesKey(answer) { return .credentials(text) }
            let isOwn = answer.text("/reason") != nil || answer.integer("/errno") != nil
            return isOwn ? .refusedContent(text) : .unexplained(text)
        // An interim status is no answer.
        default: return .transient(retryAfterSeconds: nil)
        }
    }

    /// Whether a 400 is about the signature: Google says so in words only.
    private static func blamesKey(_ answer: AnswerBody) -> Bool {
        if let reason = answer.text("/reason") { return appleKeyReasons.contains(reason) }
        if let number = answer.integer("/errno") { return number == mozillaKeyError }
        return answer.mentions("vapid") || answer.mentions("unauthorizedregistration")
            || answer.mentions("jwt")
    }

    private static func description(_ status: Int, _ host: String, answer: AnswerBody) -> String {
        var text = "\(host): \(status)"
        if let number = answer.integer("/errno") { text += " errno \(number)" }
        let reason = answer.text("/reason") ?? answer.text("/message") ?? answer.excerpt
        return reason.isEmpty ? text : "\(text) \(reason)"
    }
}
