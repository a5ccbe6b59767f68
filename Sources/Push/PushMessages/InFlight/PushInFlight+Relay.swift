import Model

// Messages for FCM, which leave with an access token of their project's account.

extension PushInFlight {
    /// There is an access token for the message: the message leaves with it. The message's end where the
    /// message has waited for too long.
    public mutating func leaves(relayed token: String, now: MonotonicTime) -> End? {
        guard mayLeave(now: now) else { return End(PushInFlight.failed) }
        return leaves(with: token) ? nil : End(.unsent(PushInFlight.refusedToken))
    }

    /// The end of the message; `nil` if FCM has refused its access token for the first time. The message
    /// then waits for another token, under the same number.
    ///
    /// - Parameter isFormer: whether the project's settings have changed since the message left.
    public mutating func judge(
        relay result: PushResult, number: UInt64, tokens: inout AccessTokens, isFormer: Bool, now: Instant,
        into effects: inout [AccessTokens.Effect]
    ) -> End? {
        guard case .answered(let status, let retryAfter, let body) = result else {
            return End(outcome(withoutAnswer: result) ?? PushInFlight.failed)
        }
        let verdict = FCMAnswer.verdict(status: status, body: body, retryAfter: retryAfter, now: now.wall)
        if verdict.needsAccessToken, isFirstRefusal {
            if isFormer { return End(.unsent(PushInFlight.changed)) }
            goesAgain()
            getAnother(number, tokens: &tokens, now: now.monotonic, into: &effects)
            return nil
        }
        return End(verdict.outcome, alarm: verdict.alarm, because: "FCM: \(status)")
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
}
