import Model
import PushMessages

/// What a node promises about the access tokens of one project (rule: push-services-are-spared): no message
/// goes with a token that is over or was refused, and the tokens' host is asked by one request at a time, not
/// before its pause is over.
struct AccessTokenChecks {
    private let bounds: AccessTokens.Bounds
    /// When each token came, and its end.
    private var tokens: [String: (since: MonotonicTime, end: MonotonicTime)] = [:]
    private var newest: String?
    private var refused: Set<String> = []
    private var fetch: (number: UInt64, since: MonotonicTime)?
    private var pausedUntil = MonotonicTime.zero

    init(_ bounds: AccessTokens.Bounds) { self.bounds = bounds }

    func uses(_ token: String, now: MonotonicTime) -> Violation? {
        if refused.contains(token) { return broken("a message goes with a token that was refused") }
        guard let end = tokens[token]?.end, now <= end else {
            return broken("a message goes with a token that is over")
        }
        return nil
    }

    mutating func fetches(_ number: UInt64, now: MonotonicTime) -> Violation? {
        defer { fetch = (number, now) }
        if let fetch, now.since(fetch.since) < bounds.answerMax {
            return broken("a token is asked for while another request is under way")
        }
        return now < pausedUntil ? broken("a token is asked for before the pause is over") : nil
    }

    mutating func fetched(_ number: UInt64, _ answer: AccessTokenAnswer, now: MonotonicTime) {
        guard fetch?.number == number else { return }
        fetch = nil
        switch answer {
        case .token(let text, let seconds):
            tokens[text] = (now, now.advanced(by: .seconds(UInt64(seconds))))
            newest = text
            pausedUntil = .zero
        case .refused: pausedUntil = now.advanced(by: bounds.refusedPause)
        // The host has not been asked, and may be asked immediately.
        case .notTried: break
        case .failed(let seconds):
            let asked = TimeSpan.seconds(UInt64(clamping: seconds ?? 0))
            pausedUntil = now.advanced(by: max(bounds.pauseMin, min(asked, bounds.pauseMax)))
        }
    }

    /// The service has refused a token, which is used no more, unless it had just come.
    mutating func rejected(_ token: String, now: MonotonicTime) {
        guard token == newest, let since = tokens[token]?.since, now.since(since) >= bounds.freshFor else {
            return
        }
        refused.insert(token)
    }

    private func broken(_ sentence: String) -> Violation {
        Violation("tokens", sentence)
    }
}
