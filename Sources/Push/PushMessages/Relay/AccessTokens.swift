import Model

/// When a server asks for an access token of one service account, who waits for it, and who gets which.
///
/// A machine without clock and I/O. Any number of messages share one request for a token: those that come
/// while it is under way wait, and so do those whose token was refused. A token that still counts is used
/// while its successor is fetched.
public struct AccessTokens: Sendable {
    public struct Bounds: Hashable, Sendable {
        /// Messages that may wait for a token. Each further one comes again later.
        public var waitingMax = 16_384
        /// The next token is fetched when so much of the life of the present one has passed.
        public var renewAtPercent: Int64 = 80
        /// Seconds before its end at which a token is used no more.
        public var endMargin: Int64 = 10
        /// The longest life that is believed, in seconds.
        public var lifeMax: Int64 = 86_400
        /// How long a request may take. Then a request without an answer counts as failed.
        public var answerMax: TimeSpan = .seconds(90)
        /// How long until the next request after a failure, doubled with each further failure, and at most;
        /// and the minimum if the account was refused.
        public var pauseMin: TimeSpan = .seconds(1)
        public var pauseMax: TimeSpan = .seconds(300)
        public var refusedPause: TimeSpan = .seconds(60)
        /// A token that is refused so soon after it came is not fetched again: another would be no better.
        public var freshFor: TimeSpan = .seconds(10)

        public init() {}
    }
    public enum Effect: Hashable, Sendable {
        /// Send the message with this token.
        case use(ticket: UInt64, token: String)
        case giveUp(ticket: UInt64, PushOutcome)
        /// Ask for a token; answered by `fetched` under this number.
        case fetch(UInt64)
    }

    private struct Token {
        var text: String
        var since: MonotonicTime
        var renewAt: MonotonicTime
        var end: MonotonicTime
    }

    private let bounds: Bounds
    private var token: Token?
    var fetch: (number: UInt64, since: MonotonicTime)?
    private var lastNumber: UInt64 = 0
    private var failures = 0
    /// Nothing is fetched before this time, and why.
    private var paused: (until: MonotonicTime, outcome: PushOutcome)?
    /// Tickets in the order in which they came.
    public internal(set) var waiting: [UInt64] = []

    #if DEBUG
        public var planted: PlantedInTokens = []
    #endif

    public init(_ bounds: Bounds = Bounds()) { self.bounds = bounds }

    /// A message needs a token.
    public mutating func want(_ ticket: UInt64, now: MonotonicTime, into effects: inout [Effect]) {
        if let token, now < end(of: token) {
            if token.renewAt <= now, mayFetch(now) { startFetch(now, &effects) }
            return effects.append(.use(ticket: ticket, token: token.text))
        }
        wait(ticket, now: now, &effects)
    }

    /// FCM has refused the token of a message for the first time.
    public mutating func rejected(
        _ ticket: UInt64, token text: String, now: MonotonicTime, into effects: inout [Effect]
    ) {
        if let token, token.text == text {
            guard now.since(token.since) >= bounds.freshFor else {
                let reason = "FCM refuses an access token that has just been fetched"
                return effects.append(.giveUp(ticket: ticket, .credentials(reason)))
            }
            forgetToken()
        }
        want(ticket, now: now, into: &effects)
    }

    /// The token's host has answered. An answer to an earlier request does not count.
    public mutating func fetched(
        _ number: UInt64, _ answer: AccessTokenAnswer, now: MonotonicTime, into effects: inout [Effect]
    ) {
        guard fetch?.number == number else { return }
        fetch = nil
        switch answer {
        case .token(let text, let seconds):
            failures = 0
            paused = nil
            let life = min(seconds, bounds.lifeMax)
            let end = max(1, life - bounds.endMargin)
            token = Token(
                text: text, since: now,
                renewAt: now.advanced(by: .seconds(UInt64(min(life * bounds.renewAtPercent / 100, end)))),
                end: now.advanced(by: .seconds(UInt64(end))))
            let tickets = waiting
            waiting = []
            effects += tickets.map { .use(ticket: $0, token: text) }
        // The messages come again, and the first one asks immediately.
        case .notTried(let reason): giveUpWaiting(.unsent(reason), &effects)
        case .refused(let reason):
            pause(now, least: bounds.refusedPause, asked: nil, telling: .credentials(reason), &effects)
        case .failed(let seconds):
            pause(
                now, least: bounds.pauseMin, asked: seconds,
                telling: .transient(retryAfterSeconds: seconds), &effects)
        }
    }

    private func end(of token: Token) -> MonotonicTime {
        #if DEBUG
            if planted.contains(.useEnded) { return .max }
        #endif
        return token.end
    }

    private mutating func forgetToken() {
        #if DEBUG
            if planted.contains(.useRefused) { return }
        #endif
        token = nil
    }

    private func mayFetch(_ now: MonotonicTime) -> Bool {
        #if DEBUG
            if planted.contains(.fetchForEach) { return true }
        #endif
        if let fetch { return now.since(fetch.since) >= bounds.answerMax }
        return paused.map { $0.until <= now } ?? true
    }

    private mutating func wait(_ ticket: UInt64, now: MonotonicTime, _ effects: inout [Effect]) {
        if let paused, now < paused.until {
            return effects.append(.giveUp(ticket: ticket, paused.outcome))
        }
        guard waiting.count < bounds.waitingMax else {
            return effects.append(
                .giveUp(ticket: ticket, .unsent("too many messages wait for an access token")))
        }
        waiting.append(ticket)
        if mayFetch(now) { startFetch(now, &effects) }
    }

    private mutating func startFetch(_ now: MonotonicTime, _ effects: inout [Effect]) {
        lastNumber += 1
        fetch = (lastNumber, now)
        effects.append(.fetch(lastNumber))
    }

    private mutating func pause(
        _ now: MonotonicTime, least: TimeSpan, asked: Int?, telling outcome: PushOutcome,
        _ effects: inout [Effect]
    ) {
        failures += 1
        let own = min(least.doubled(times: failures - 1), bounds.pauseMax)
        let wanted = UInt64(clamping: max(0, asked ?? 0))
        let other = wanted >= bounds.pauseMax.seconds ? bounds.pauseMax : .seconds(wanted)
        paused = (now.advanced(by: max(own, other)), outcome)
        #if DEBUG
            if planted.contains(.forgetPauses) { paused = nil }
        #endif
        giveUpWaiting(outcome, &effects)
    }

    private mutating func giveUpWaiting(_ outcome: PushOutcome, _ effects: inout [Effect]) {
        let tickets = waiting
        waiting = []
        effects += tickets.map { .giveUp(ticket: $0, outcome) }
    }

    /// The first invariant that does not hold; `nil` where all do.
    package var brokenInvariant: String? {
        if waiting.count > bounds.waitingMax { return "more messages wait than may" }
        if !waiting.isEmpty, fetch == nil { return "nothing brings waiting messages further" }
        if Set(waiting).count != waiting.count { return "a message waits twice" }
        return nil
    }
}
