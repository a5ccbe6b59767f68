import Model

/// What Apple's answer asks of the sender beside the message's outcome.
public enum APNsRemedy: Hashable, Sendable {
    /// Open another connection, and end this one.
    case newConnection
    /// Sign again, and try once more immediately. If that fails too, a clock is wrong.
    case newToken
    /// The token changed too often: use the previous one while it is younger than an hour.
    case formerToken
}

/// Apple's answers (Apple, "Handling notification responses from APNs").
public enum APNsAnswer {
    public struct Verdict: Hashable, Sendable {
        public var outcome: PushOutcome
        public var remedy: APNsRemedy?
        /// Apple's word, `nil` if the answer has none.
        public var reason: String?
        /// Whether the answer is about the device's token and app, and not about a token or topic that the
        /// message names itself.
        public var isAboutAddress = true
        /// What an operator must look into beside `outcome.alarm`.
        public var alarm: PushAlarm? {
            switch reason {
            case "BadDeviceToken", "DeviceTokenNotForTopic": isAboutAddress ? .wrongTarget : nil
            case "TooManyProviderTokenUpdates", "UnrelatedKeyIdInToken", "MissingProviderToken", "BadPath",
                "MethodNotAllowed", "DuplicateHeaders", "MissingTopic", "MissingDeviceToken", "PayloadEmpty":
                .ownMistake
            // Apple takes the message under no circumstances, so the outcome is not that of a refused key.
            case "Forbidden": .credentials
            default: nil
            }
        }
    }

    /// Apple's clock and this machine's may differ by so many milliseconds.
    static let skew: Int64 = 60_000

    /// `body`: the answer's JSON. `registered`: when the device last registered its token, so that news of an
    /// earlier uninstall does not end a later registration. `isRepeated`: whether Apple has answered this
    /// message with such old news before; asked only if the answer is old news. `isAboutAddress`: whether the
    /// message went to the device's own token and app.
    public static func verdict(
        status: Int, body: [UInt8], retryAfter: String? = nil, registered: WallTime,
        isAboutAddress: Bool = true, now: WallTime, isRepeated: () -> Bool = { false }
    ) -> Verdict {
        if status == 200 { return Verdict(outcome: .accepted, remedy: nil, reason: nil) }
        let answer = AnswerBody(body)
        let reason = answer.text("/reason")
        let text = reason.map { "Apple: \(status) \($0)" } ?? "Apple: \(status) \(answer.excerpt)"
        let wait = RetryAfter.seconds(retryAfter, now: now)
        let isOld = status == 410 && isOld(answer, registered: registered)
        var (outcome, remedy) =
            known(reason, text, wait: wait)
            ?? byStatus(status, text, wait: wait, isOld: isOld, hasReason: reason != nil)
        if !isAboutAddress, outcome == .gone || reason == "TopicDisallowed" {
            (outcome, remedy) = (.refusedContent("\(text), for a token or topic of the message's own"), nil)
        } else if isOld, isRepeated() {
            // Apple does not know the device's newer registration: two such answers are enough.
            outcome = .refusedContent("\(text), since before the device told its token")
        }
        return Verdict(outcome: outcome, remedy: remedy, reason: reason, isAboutAddress: isAboutAddress)
    }

    /// The reason in the debug data of a GOAWAY frame.
    public static func reason(ofGoAway data: [UInt8]) -> String? { AnswerBody(data).text("/reason") }

    /// Whether Apple last saw the token dead before the device registered it again.
    private static func isOld(_ answer: AnswerBody, registered: WallTime) -> Bool {
        guard let time = answer.integer("/timestamp") else { return false }
        return time < registered.milliseconds - skew
    }

    /// Reasons that say more than their status.
    private static func known(_ reason: String?, _ text: String, wait: Int?) -> (PushOutcome, APNsRemedy?)? {
        switch reason {
        case "BadDeviceToken", "DeviceTokenNotForTopic": (.gone, nil)
        case "TopicDisallowed", "BadEnvironmentKeyIdInToken", "BadEnvironmentKeyInToken", "BadCertificate",
            "BadCertificateEnvironment", "InvalidProviderToken", "MissingProviderToken":
            (.credentials(text), nil)
        case "ExpiredProviderToken": (.credentials(text), .newToken)
        case "UnrelatedKeyIdInToken", "IdleTimeout", "Shutdown":
            (.transient(retryAfterSeconds: wait), .newConnection)
        case "TooManyProviderTokenUpdates": (.throttled(retryAfterSeconds: wait), .formerToken)
        case "Forbidden": (.refusedContent(text), nil)
        default: nil
        }
    }

    private static func byStatus(
        _ status: Int, _ text: String, wait: Int?, isOld: Bool, hasReason: Bool
    ) -> (PushOutcome, APNsRemedy?) {
        switch status {
        case 410: (isOld ? .formerEnd(retryAfterSeconds: wait) : .gone, nil)
        case 429: (.throttled(retryAfterSeconds: wait), nil)
        case 400..<500 where hasReason: (.refusedContent(text), nil)
        case 408, 421, 425: (.transient(retryAfterSeconds: wait), nil)
        case 300..<500: (.unexplained(text), nil)
        default: (.transient(retryAfterSeconds: wait), nil)
        }
    }
}
