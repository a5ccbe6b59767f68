import Model

// Messages for Apple's service, which leave with a token that the node signs.

/// What Apple's answers to one push are judged by.
public struct APNsPush: Sendable {
    /// `APNsMessage.id`, the same at each try.
    public var id: String
    /// When the device last registered its token.
    public var registered: WallTime
    /// Whether the push goes to the device's own token and app.
    public var isAboutAddress: Bool
    public init(id: String, registered: WallTime, isAboutAddress: Bool = true) {
        self.id = id
        self.registered = registered
        self.isAboutAddress = isAboutAddress
    }
}

extension PushInFlight {
    public struct AppleStep: Hashable, Sendable {
        /// `nil`: the message goes once more, immediately.
        public var end: End?
        /// Whether the connection of the answer is to be replaced.
        public var renewsConnection = false
    }

    /// What comes after the client's word on a request.
    ///
    /// - Parameters:
    ///   - tokens: the tokens of the key with which the message left.
    ///   - oldNews: the node's messages that Apple has answered with old news.
    ///   - isFormer: whether the project's settings have changed since the message left.
    public mutating func judge(
        apple result: PushResult, of push: APNsPush, tokens: inout APNsTokens, oldNews: inout APNsOldNews,
        isFormer: Bool, now: Instant
    ) -> AppleStep {
        guard case .answered(let status, let retryAfter, let body) = result else {
            return AppleStep(end: End(outcome(withoutAnswer: result) ?? PushInFlight.failed))
        }
        let verdict = APNsAnswer.verdict(
            status: status, body: body, retryAfter: retryAfter, registered: push.registered,
            isAboutAddress: push.isAboutAddress, now: now.wall,
            isRepeated: { isRepeated(push.id, in: &oldNews) })
        var alarm = verdict.alarm
        var step = AppleStep()
        switch verdict.remedy {
        case .newConnection: step.renewsConnection = isConnectionRenewed
        case .newToken:
            if isFirstRefusal, isAnotherToken(&tokens, now: now.wall) {
                if isFormer {
                    step.end = End(.unsent(PushInFlight.changed))
                } else if mayLeave(now: now.monotonic) {
                    goesAgain()
                } else {
                    step.end = End(PushInFlight.failed)
                }
                return step
            }
            alarm = .clock
        case .formerToken: useFormer(&tokens, now: now.wall)
        case nil: break
        }
        step.end = End(verdict.outcome, alarm: alarm, because: verdict.reason ?? "no reason")
        return step
    }

    private func isRepeated(_ id: String, in oldNews: inout APNsOldNews) -> Bool {
        #if DEBUG
            if planted.contains(.forgetOldNews) { return false }
        #endif
        return oldNews.isRepeated(id)
    }

    /// Whether the key has another token than that which Apple finds too old.
    private func isAnotherToken(_ tokens: inout APNsTokens, now: WallTime) -> Bool {
        #if DEBUG
            if planted.contains(.keepRefused) { return true }
        #endif
        return tokens.expired(token, now: now)
    }

    private func useFormer(_ tokens: inout APNsTokens, now: WallTime) {
        #if DEBUG
            if planted.contains(.keepChanged) { return }
        #endif
        tokens.changedTooOften(token, now: now)
    }

    private var isConnectionRenewed: Bool {
        #if DEBUG
            if planted.contains(.keepConnection) { return false }
        #endif
        return true
    }
}
