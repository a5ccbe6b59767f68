import Model

// Messages for FCM, which leave with an access token of their project's account.

extension PushUnderWay {
    /// There is an access token for the message: the message leaves with it. The message's end where the
    /// message has waited for too long.
    public mutating func leaves(
        relayed token: String, revision: UInt64, now: MonotonicTime
    ) -> End? {
        guard mayLeave(now: now) else { return end(PushUnderWay.failed, revision: revision) }
        guard leaves(with: token) else {
            return end(.unsent(PushUnderWay.refusedToken), revision: revision)
        }
        return nil
    }

    /// The end of the message; `nil` where FCM has refused its access token for the first time. The message
    /// then waits for another token, under the same number.
    public mutating func judge(
        relay result: PushResult, number: UInt64, tokens: inout AccessTokens, revision: UInt64, now: Instant,
        into effects: inout [AccessTokens.Effect]
    ) -> End? {
        guard case .answered(let status, let retryAfter, let body) = result else {
            return end(outcome(withoutAnswer: result) ?? PushUnderWay.failed, revision: revision)
        }
        let verdict = FCMAnswer.verdict(status: status, body: body, retryAfter: retryAfter, now: now.wall)
        if verdict.needsAccessToken, isFirstRefusal {
            guard revision == self.revision else {
                return end(.unsent(PushUnderWay.changed), revision: revision)
            }
            goesAgain()
            getAnother(number, tokens: &tokens, now: now.monotonic, into: &effects)
            return nil
        }
        return end(
            verdict.outcome, alarm: verdict.alarm, because: "FCM: \(status)", revision: revision)
    }

    private func getAnother(
        _ number: UInt64, tokens: inout AccessTokens, now: MonotonicTime,
        into effects: inout [AccessTokens.Effect]
    ) {
        #if DEBUG
            if planted.contains(.keepRefused) { return tokens.want(number, now: now, into: &effects) }
        #endif
        tokens.rejected(number, token: token, now: now, into: &effects)
    }

    static let changed = "the project's settings have changed"
}
