import Model

/// A message on its way to a push service, from the time when its loop hands it over until its outcome (rule:
/// push-services-are-spared).
///
/// A value without clock and I/O. It turns what the client says of a request into what comes next: the
/// message goes once more, waits for another token, or has an outcome.
public struct PushUnderWay: Sendable {
    public struct Bounds: Hashable, Sendable {
        /// So long after the loop handed a message over it may still leave, or leave again. Later the loop's
        /// sender would count the message as failed before the service answers, and send it again.
        public var againWithin: TimeSpan = .seconds(25)
        public init() {}
    }
    /// What the loop hears of the message, and what operators hear.
    public struct End: Hashable, Sendable {
        public var outcome: PushOutcome
        /// What an operator must look into, beside `outcome.alarm`.
        public var alarm: PushAlarm?
        /// The service's word for the alarm.
        public var reason = ""
        /// Whether the project's settings have changed since the loop handed the message over: its end says
        /// nothing of the present key, and raises no alarm.
        public var isFormer = false
        public init(_ outcome: PushOutcome) { self.outcome = outcome }
    }

    private let bounds: Bounds
    private let since: MonotonicTime
    /// The number of the project's settings under which the message leaves.
    let revision: UInt64
    /// The token with which the message left.
    private(set) var token = ""
    /// Whether the service has refused a token with this message already.
    public private(set) var isSecond = false

    #if DEBUG
        public var planted: PlantedUnderWay = []
    #endif

    /// - Parameter now: when the loop hands the message over.
    public init(revision: UInt64, _ bounds: Bounds = Bounds(), now: MonotonicTime) {
        self.bounds = bounds
        self.revision = revision
        since = now
    }

    /// The message leaves with this token. False where the service has refused the token with this message:
    /// then the message must not leave.
    public mutating func leaves(with token: String) -> Bool {
        if isSecond, token == self.token, !keepsRefused { return false }
        self.token = token
        return true
    }

    /// A planted bug.
    private var keepsRefused: Bool {
        #if DEBUG
            return planted.contains(.keepRefused)
        #else
            return false
        #endif
    }

    /// Why a message does not leave for which there is no other token.
    public static let refusedToken = "there is no other token than that which the service has refused"

    /// The outcome of a message for which there will be no answer.
    public func end(_ outcome: PushOutcome, revision: UInt64) -> End {
        var end = End(outcome)
        end.isFormer = revision != self.revision
        return end
    }

    /// The end of a message with an answer. Its alarm is of the present settings only.
    func end(_ outcome: PushOutcome, alarm: PushAlarm?, because reason: String, revision: UInt64) -> End {
        var end = end(outcome, revision: revision)
        guard !end.isFormer else { return end }
        (end.alarm, end.reason) = (alarm, reason)
        return end
    }

    /// The outcome of a message whose request has no answer. What did not leave says nothing of the service.
    func outcome(withoutAnswer result: PushResult) -> PushOutcome? {
        #if DEBUG
            if planted.contains(.unansweredAsUnsent), result == .unanswered { return .unsent("planted") }
            if planted.contains(.unsentAsUnanswered), case .notMade = result { return PushUnderWay.failed }
        #endif
        switch result {
        case .answered: return nil
        case .unanswered: return PushUnderWay.failed
        case .notTried(let reason), .notMade(let reason): return .unsent(reason)
        case .expired: return .expired
        }
    }

    static let failed = PushOutcome.transient(retryAfterSeconds: nil)

    // MARK: Once more

    /// Whether the service's refusal of the token is the first for this message.
    var isFirstRefusal: Bool {
        #if DEBUG
            if planted.contains(.againAlways) { return true }
        #endif
        return !isSecond
    }

    /// Whether there is time for the message to leave.
    func mayLeave(now: MonotonicTime) -> Bool {
        #if DEBUG
            if planted.contains(.againLate) { return true }
        #endif
        return now.since(since) < bounds.againWithin
    }

    mutating func goesAgain() { isSecond = true }
}

extension PushUnderWay {
    /// The end of a message of Web Push.
    public func judge(web result: PushResult, host: String, revision: UInt64, now: WallTime) -> End {
        guard case .answered(let status, let retryAfter, let body) = result else {
            return end(outcome(withoutAnswer: result) ?? PushUnderWay.failed, revision: revision)
        }
        let outcome = WebPushAnswer.outcome(
            status: status, host: host, retryAfter: retryAfter, body: body, now: now)
        return end(outcome, revision: revision)
    }
}
