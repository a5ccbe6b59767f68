import Model

/// A message on its way to a push service, from the time when its loop hands it over until its outcome
/// (rule: push-services-are-spared).
///
/// A value without clock and I/O. It turns what the client says of a request into what comes next: the
/// message goes once more, waits for another token, or has an outcome.
public struct PushInFlight: Sendable {
    public struct Bounds: Hashable, Sendable {
        /// So long after the loop handed a message over it may still leave, or leave again. Later the loop's
        /// sender would count the message as failed before the service answers, and send it again.
        public var againWithin: TimeSpan = .seconds(25)
        public init() {}
    }
    /// The message's result for the loop, and for operators.
    public struct End: Hashable, Sendable {
        public var outcome: PushOutcome
        /// What an operator must look into, beside `outcome.alarm`.
        public var alarm: PushAlarm?
        /// The service's word for the alarm.
        public var reason = ""
        /// Whether the project's settings have changed since the loop handed the message over: its end says
        /// nothing of the present key, and raises no alarm.
        public var isFormer = false
        public init(_ outcome: PushOutcome, alarm: PushAlarm? = nil, because reason: String = "") {
            (self.outcome, self.alarm, self.reason) = (outcome, alarm, reason)
        }
    }

    private let bounds: Bounds
    private let since: MonotonicTime
    /// The token with which the message left.
    private(set) var token = ""
    /// Whether the service has refused a token with this message already.
    public private(set) var isSecond = false

    #if DEBUG
        public var planted: PlantedInFlight = []
    #endif

    /// - Parameter now: when the loop hands the message over.
    public init(_ bounds: Bounds = Bounds(), now: MonotonicTime) {
        self.bounds = bounds
        since = now
    }

    /// The message leaves with this token. False if the service has refused the token with this message:
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

    /// Why a message does not go again, or not at all, under settings that have changed.
    public static let changed = "the project's settings have changed"

    /// The outcome of a message whose request has no answer. What did not leave is no evidence about the
    /// service.
    func outcome(withoutAnswer result: PushResult) -> PushOutcome? {
        #if DEBUG
            if planted.contains(.unansweredAsUnsent), result == .unanswered { return .unsent("planted") }
            if planted.contains(.unsentAsUnanswered), case .notMade = result { return PushInFlight.failed }
        #endif
        switch result {
        case .answered: return nil
        case .unanswered: return PushInFlight.failed
        case .notTried(let reason), .notMade(let reason): return .unsent(reason)
        case .expired: return .expired
        }
    }

    static let failed = PushOutcome.transient(retryAfterSeconds: nil)

    // MARK: Once more

    /// Whether this message has not been retried with a new token yet.
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

extension PushInFlight {
    /// The end of a message of Web Push.
    public func judge(web result: PushResult, host: String, now: WallTime) -> End {
        guard case .answered(let status, let retryAfter, let body) = result else {
            return End(outcome(withoutAnswer: result) ?? PushInFlight.failed)
        }
        return End(
            WebPushAnswer.outcome(status: status, host: host, retryAfter: retryAfter, body: body, now: now))
    }
}
