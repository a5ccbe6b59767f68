import Model

/// The answers of FCM's `messages:send` to a server that relays (FCM, "ErrorCode"; Google's AIP-193).
public enum FCMAnswer {
    public struct Verdict: Hashable, Sendable {
        public var outcome: PushOutcome
        /// Whether a fresh access token may help: try once more with one.
        public var needsAccessToken: Bool
        public var alarm: PushAlarm?
    }
    /// What Google wants at the least after 429 without a `Retry-After`.
    static let quotaSeconds = 60
    private static let detailsMax = 8

    public static func verdict(
        status: Int, body: [UInt8], retryAfter: String?, now: WallTime
    ) -> Verdict {
        if (200..<300).contains(status) { return Verdict(outcome: .accepted, needsAccessToken: false) }
        let answer = AnswerBody(body)
        let code = errorCode(answer)
        let word = code ?? answer.text("/error/status") ?? answer.excerpt
        let message = answer.text("/error/message").map { ": \($0)" } ?? ""
        let text = "FCM: \(status) \(word)\(message)"
        let wait = RetryAfter.seconds(retryAfter, now: now)
        let outcome = outcome(status, code, text: text, wait: wait, answer: answer)
        // Only a token that was never of this Firebase project is the sender's mistake.
        let isWrong = outcome == .gone && code != "UNREGISTERED"
        return Verdict(
            outcome: outcome, needsAccessToken: status == 401 && code == nil,
            alarm: isWrong ? .wrongTarget : nil)
    }

    private static func outcome(
        _ status: Int, _ code: String?, text: String, wait: Int?, answer: AnswerBody
    ) -> PushOutcome {
        switch (status, code) {
        case (404, "UNREGISTERED"), (403, "SENDER_ID_MISMATCH"): .gone
        case (400, _) where blamesToken(answer): .gone
        // FCM's key for Apple's or a browser's service is wrong: devices of another platform may be well.
        case (401, "THIRD_PARTY_AUTH_ERROR"): .platformKey(text)
        // Without FCM's own code, a 404 is about the project.
        case (401, _), (403, _), (404, _): .credentials(text)
        case (429, _) where isOfDevice(answer): .throttled(retryAfterSeconds: wait ?? quotaSeconds)
        case (429, _): .overQuota(retryAfterSeconds: wait ?? quotaSeconds)
        case (408, _), (421, _), (425, _), (500..., _): .transient(retryAfterSeconds: wait)
        case (400, _) where answer.text("/error/status") != nil: .refusedContent(text)
        case (300..<500, _): .unexplained(text)
        default: .transient(retryAfterSeconds: nil)
        }
    }

    /// The code of the detail `google.firebase.fcm.v1.FcmError`.
    private static func errorCode(_ answer: AnswerBody) -> String? {
        for index in 0..<detailsMax {
            if let code = answer.text("/error/details/\(index)/errorCode") { return code }
        }
        return nil
    }

    /// Whether a detail `google.rpc.QuotaFailure` names the quota of one device, and not the project's (FCM,
    /// "Throttling and quotas": 240 messages a minute to one device).
    private static func isOfDevice(_ answer: AnswerBody) -> Bool {
        for index in 0..<detailsMax {
            for violation in 0..<detailsMax {
                let path = "/error/details/\(index)/violations/\(violation)"
                let texts = [answer.text("\(path)/subject"), answer.text("\(path)/description")]
                let words = texts.compactMap { $0?.lowercased() }
                guard !words.isEmpty else { break }
                if words.contains(where: { $0.contains("device") }) { return true }
            }
        }
        return false
    }

    /// Whether a detail `google.rpc.BadRequest` names the token.
    private static func blamesToken(_ answer: AnswerBody) -> Bool {
        for index in 0..<detailsMax {
            for field in 0..<detailsMax {
                let path = "/error/details/\(index)/fieldViolations/\(field)/field"
                guard let name = answer.text(path) else { break }
                if name == "message.token" { return true }
            }
        }
        return false
    }
}
