import DequeModule
import Model
import Partitions

/// A message for a push service, as the shell sends it.
public struct PushSend: Sendable {
    /// The limiter's number, under which the shell answers.
    public var number: UInt64
    public var job: PushJob
}

/// Limits what a loop's partitions send to push services: so many messages at once to an origin, and a
/// circuit breaker for each origin.
///
/// An origin (scheme, host and port of a service) is judged for each project by itself, since the services
/// judge the project's key. Several failures in a row open an origin's circuit for a time; then one message
/// probes the origin. The messages for the origin wait in their partitions meanwhile, so that a dead origin
/// takes no place from others. What comes back waits a random part longer, so that not all come together.
struct PushLimiter {
    enum Effect {
        case send(PushSend)
        case report(PartitionID, PushReport)
        /// `isFormer`: the answer is to a request that left under earlier settings.
        case noted(PushOrigin, PushOutcome, isFormer: Bool)
        /// The origin's circuit is open until then because the origin refuses the project's key; `nil`: not
        /// any more.
        case keyRefused(PushOrigin, until: MonotonicTime?)
        /// The origin's circuit is open because the origin answers for many devices that they are gone.
        case doubted(PushOrigin)
    }
    struct Waiting {
        var partition: PartitionID
        var job: PushJob
        var since: MonotonicTime
    }
    struct UnderWay {
        var partition: PartitionID
        var job: PushJob
        var origin: PushOrigin
        var deadline: MonotonicTime
        /// Whether the project's settings have changed since the message left.
        var isFormer = false
        /// Whether the message has one of its project's places at unproven origins.
        var isUnproven = false
    }
    struct State {
        var underWay = 0
        var waiting: Deque<Waiting> = []
        /// Failures in a row.
        var failures = 0
        /// When the service last took a message.
        var provenAt: MonotonicTime?
        /// What is known of the words that devices are gone. Begins again with other settings.
        var words = DeviceWords(era: 0)
        var pausedUntil: MonotonicTime?
        /// Whether the pause began because the service refuses the project's key.
        var refusesKey = false
        var keyRefusedUntil: MonotonicTime? { refusesKey ? pausedUntil : nil }
        /// How long the last pause was.
        var pause = TimeSpan.zero
        /// Until when the project's quota at the service is used up. What was under way may still be taken.
        var quotaUntil: MonotonicTime?
        var isIdle: Bool {
            underWay == 0 && waiting.isEmpty && failures == 0 && pausedUntil == nil && provenAt == nil
                && words.isEmpty
        }
    }

    let bounds: PushBounds
    private var random: any RandomNumberGenerator
    var origins: [PushOrigin: State] = [:]
    var underWay: [UInt64: UnderWay] = [:]
    /// How many messages are at origins that had never taken one when the message left.
    var unproven: [ProjectNumber: Int] = [:]
    /// Numbers in the order in which their messages went out; some are answered, the first one is not.
    var sent: Deque<UInt64> = []
    var lastNumber: UInt64 = 0
    var lastEra: UInt64 = 0
    #if DEBUG
        var planted: PlantedInNode = []
    #endif

    init(_ bounds: PushBounds, random: any RandomNumberGenerator) {
        self.bounds = bounds
        self.random = random
    }

    var count: Int { underWay.count }

    mutating func submit(
        _ job: PushJob, of partition: PartitionID, now: MonotonicTime, into effects: inout [Effect]
    ) {
        if origins.count >= PushLimiter.originsMax { forgetIdleOrigins() }
        let origin = job.origin
        var state = origins[origin] ?? freshState()
        if let until = state.pausedUntil {
            guard until <= now, state.underWay == 0, mayStart(at: origin, state) else {
                return reportClosed(
                    job, of: partition, for: max(until.since(now), bounds.pauseMin), &effects)
            }
            // The pause is over: one message shows how the origin is.
            startAttempt(job, of: partition, to: origin, in: &state, now: now, &effects)
        } else if !mayStart(at: origin, state) {
            reportClosed(job, of: partition, for: bounds.fullPause, &effects)
        } else if state.underWay < atOnce {
            startAttempt(job, of: partition, to: origin, in: &state, now: now, &effects)
        } else if state.waiting.count < bounds.waitingMax {
            state.waiting.append(Waiting(partition: partition, job: job, since: now))
        } else {
            reportClosed(job, of: partition, for: bounds.fullPause, &effects)
        }
        origins[origin] = state
    }

    mutating func answered(
        _ number: UInt64, _ outcome: PushOutcome, now: MonotonicTime, into effects: inout [Effect]
    ) {
        guard let known = underWay.removeValue(forKey: number) else { return }
        forgetAnswered()
        if known.isUnproven { leaveUnproven(known.origin.project) }
        effects.append(.noted(known.origin, outcome, isFormer: isOfFormer(known)))
        var state = origins[known.origin] ?? freshState()
        state.underWay -= 1
        let refused = state.keyRefusedUntil
        var doubt: PushReport.Result?
        if !isOfFormer(known) {
            judge(outcome, of: known.origin.kind, &state, now: now)
            if outcome == .gone { doubt = weigh(known, &state, now: now, into: &effects) }
        }
        if state.keyRefusedUntil != refused {
            effects.append(.keyRefused(known.origin, until: state.keyRefusedUntil))
        }
        if isOfFormer(known), outcome.isOfKey {
            tellFormer(outcome, of: known, &effects)
        } else if let doubt {
            let report = PushReport(number: known.job.number, doubt, outcome: outcome)
            effects.append(.report(known.partition, report))
        } else {
            tell(outcome, of: known, at: state, now: now, &effects)
        }
        if state.pausedUntil == nil { sendWaiting(to: known.origin, &state, now: now, &effects) }
        if state.pausedUntil != nil || !mayStart(at: known.origin, state) {
            giveBackWaiting(&state, now: now, &effects)
        }
        origins[known.origin] = state.isIdle ? nil : state
    }

    /// Messages that the shell has not answered in time count as failed.
    mutating func woke(now: MonotonicTime, into effects: inout [Effect]) {
        while let number = sent.first, let known = underWay[number], known.deadline <= now {
            answered(number, .transient(retryAfterSeconds: nil), now: now, into: &effects)
        }
    }

    private mutating func forgetAnswered() {
        while let number = sent.first, underWay[number] == nil { sent.removeFirst() }
    }

    /// When `woke` may have something to do.
    var nextWake: MonotonicTime? { sent.first.flatMap { underWay[$0]?.deadline } }

    // MARK: Origins

    /// Clients choose the origins, among those that the operator allows. At this many the limiter forgets
    /// what it knows of origins without messages.
    private static let originsMax = 4096

    /// Whether the limiter may have forgotten what it knew of an origin.
    var mayHaveForgotten: Bool { origins.count > PushLimiter.originsMax / 2 }

    /// All origins of a project that have never taken a message share a few places, so that they hold up
    /// nothing of the others.
    private func mayStart(at origin: PushOrigin, _ state: State) -> Bool {
        #if DEBUG
            if planted.contains(.crowdUnproven) { return true }
        #endif
        if state.provenAt != nil { return true }
        return unproven[origin.project, default: 0] < bounds.unprovenAtOnce
            && state.underWay < max(1, bounds.unprovenAtOnce / 2)
    }

    private mutating func leaveUnproven(_ project: ProjectNumber) {
        guard let count = unproven[project] else { return }
        unproven[project] = count > 1 ? count - 1 : nil
    }

    /// Open origins go first: clients choose some of the names, and could otherwise make the limiter forget
    /// which services are closed, and which take messages. Of the closed ones those stay that are closed
    /// longest, and of those that have taken messages the newest.
    private mutating func forgetIdleOrigins() {
        func isUsed(_ state: State) -> Bool { state.underWay > 0 || !state.waiting.isEmpty }
        var closed: [(origin: PushOrigin, state: State, until: MonotonicTime)] = []
        for (origin, state) in origins where !isUsed(state) {
            if let until = state.pausedUntil { closed.append((origin, state, until)) }
        }
        let proven = origins.filter {
            !isUsed($0.value) && $0.value.pausedUntil == nil && $0.value.provenAt != nil
        }
        .sorted { left, right in
            let (first, second) = (left.value.provenAt ?? .zero, right.value.provenAt ?? .zero)
            return first == second ? left.key < right.key : first > second
        }
        origins = origins.filter { isUsed($0.value) }
        for (origin, state) in proven.prefix(PushLimiter.originsMax / 4) { origins[origin] = state }
        closed.sort { left, right in
            if left.until != right.until { return left.until > right.until }
            return left.origin < right.origin
        }
        for (origin, state, _) in closed.prefix(PushLimiter.originsMax / 2) { origins[origin] = state }
    }

    /// What the outcome says of the origin as a whole. A refused key may be one subscription's, and a service
    /// may throttle one device: several in a row close the origin only if the service has taken nothing for a
    /// while. Clients choose the addresses, and could otherwise close a service for their project.
    private func judge(
        _ outcome: PushOutcome, of kind: Transport.Kind, _ state: inout State, now: MonotonicTime
    ) {
        switch outcome {
        case .accepted, .formerEnd:
            if case .accepted = outcome { state.words.accepted(among: bounds.wordsAmong) }
            if let until = state.quotaUntil, now < until { return }
            state.quotaUntil = nil
            state.failures = 0
            state.pausedUntil = nil
            state.pause = .zero
            if case .accepted = outcome { state.provenAt = now }
        case .credentials, .unexplained, .unset, .throttled:
            if let proven = state.provenAt, now.since(proven) < bounds.provenFor { return }
            guard case .throttled(let seconds) = outcome else {
                if case .unset = outcome {
                    return fail(&state, now: now, least: bounds.credentialsPause, asked: .zero)
                }
                // A browser's service may refuse some clients' subscriptions for a key of their choice, so
                // the next message is not far away.
                if kind == .web {
                    return fail(
                        &state, now: now, least: bounds.pauseMin, most: bounds.webRefusedMax, asked: .zero)
                }
                guard case .credentials = outcome else {
                    return fail(&state, now: now, least: bounds.pauseMin, asked: .zero)
                }
                return fail(
                    &state, now: now, least: bounds.credentialsPause, asked: .zero, refusesKey: true)
            }
            let asked = length(seconds, atMost: bounds.pauseMax)
            fail(&state, now: now, least: bounds.pauseMin, asked: asked)
        case .transient(let seconds):
            let asked = length(seconds, atMost: bounds.pauseMax)
            fail(&state, now: now, least: bounds.pauseMin, asked: asked)
        // The project's quota at the service is used up, so that each further message would be refused.
        case .overQuota(let seconds):
            state.failures = max(state.failures, bounds.failuresMax - 1)
            let asked = length(seconds, atMost: bounds.pauseMax)
            fail(&state, now: now, least: bounds.throttledMin, asked: asked)
            state.quotaUntil = state.pausedUntil
        // The node itself may have refused the message.
        case .gone, .refusedContent, .platformKey, .unsent, .expired: break
        }
    }

    func fail(
        _ state: inout State, now: MonotonicTime, least: TimeSpan, most: TimeSpan? = nil, asked: TimeSpan,
        refusesKey: Bool = false
    ) {
        state.failures += 1
        #if DEBUG
            if planted.contains(.callFailing) { return }
        #endif
        guard state.failures >= bounds.failuresMax || state.pausedUntil != nil else { return }
        // What was under way when the pause began may fail as well, and is no new evidence.
        if state.pausedUntil.map({ $0 <= now }) ?? true {
            state.pause = min(max(state.pause * 2, least), max(most ?? bounds.pauseMax, least))
            state.pausedUntil = now.advanced(by: state.pause)
            state.refusesKey = refusesKey
        }
        state.pausedUntil = max(now.advanced(by: asked), state.pausedUntil ?? now)
    }

    private mutating func sendWaiting(
        to origin: PushOrigin, _ state: inout State, now: MonotonicTime, _ effects: inout [Effect]
    ) {
        while state.underWay < atOnce, mayStart(at: origin, state), let next = state.waiting.first {
            state.waiting.removeFirst()
            if now.since(next.since) > bounds.waitMax {
                effects.append(
                    .report(
                        next.partition,
                        PushReport(number: next.job.number, .later(after: .zero, isFailure: false))))
            } else {
                startAttempt(next.job, of: next.partition, to: origin, in: &state, now: now, &effects)
            }
        }
    }

    /// The origin's circuit is open: what waits for the origin goes back to the partitions.
    private mutating func giveBackWaiting(
        _ state: inout State, now: MonotonicTime, _ effects: inout [Effect]
    ) {
        let left = max(state.pausedUntil?.since(now) ?? .zero, bounds.pauseMin)
        for waiting in state.waiting {
            reportClosed(waiting.job, of: waiting.partition, for: left, &effects)
        }
        state.waiting = []
    }

    private mutating func startAttempt(
        _ job: PushJob, of partition: PartitionID, to origin: PushOrigin, in state: inout State,
        now: MonotonicTime, _ effects: inout [Effect]
    ) {
        lastNumber += 1
        state.underWay += 1
        underWay[lastNumber] = UnderWay(
            partition: partition, job: job, origin: origin, deadline: now.advanced(by: bounds.answerMax),
            isUnproven: state.provenAt == nil)
        if state.provenAt == nil { unproven[origin.project, default: 0] += 1 }
        sent.append(lastNumber)
        effects.append(.send(PushSend(number: lastNumber, job: job)))
    }

    private var atOnce: Int {
        #if DEBUG
            if planted.contains(.crowdOrigins) { return .max }
        #endif
        return bounds.atOnce
    }

    // MARK: Messages

    /// The message goes again under the project's present settings.
    private mutating func tellFormer(
        _ outcome: PushOutcome, of known: UnderWay, _ effects: inout [Effect]
    ) {
        let result = PushReport.Result.later(after: jittered(bounds.unsentMin), isFailure: false)
        effects.append(
            .report(known.partition, PushReport(number: known.job.number, result, outcome: outcome)))
    }

    private mutating func tell(
        _ outcome: PushOutcome, of known: UnderWay, at state: State, now: MonotonicTime,
        _ effects: inout [Effect]
    ) {
        func report(_ result: PushReport.Result) {
            let report = PushReport(number: known.job.number, result, outcome: outcome)
            effects.append(.report(known.partition, report))
        }
        /// The message comes again: each time after twice as long, and not before the service has asked for
        /// it.
        func retry(first: TimeSpan, most: TimeSpan, asked seconds: Int? = nil, askedMax: TimeSpan? = nil) {
            let own = min(first.doubled(times: min(known.job.tries, 32)), most)
            let asked = length(seconds, atMost: askedMax ?? most)
            report(.later(after: jittered(max(asked, own)), isFailure: true))
        }
        let first = bounds.retryMin(known.job.transport.kind)
        switch outcome {
        case .accepted, .refusedContent: report(.done)
        case .gone: report(.gone)
        case .credentials, .platformKey, .unset:
            retry(first: bounds.credentialsPause, most: max(bounds.credentialsPause, bounds.pauseMax))
        case .throttled(let seconds):
            retry(
                first: seconds == nil ? bounds.throttledMin : first, most: bounds.retryMax, asked: seconds,
                askedMax: bounds.askedMax)
        case .overQuota(let seconds):
            // The message was not tried in vain: it waits with all others.
            let asked = length(seconds, atMost: bounds.pauseMax)
            report(.later(after: jittered(max(asked, bounds.throttledMin)), isFailure: false))
        case .unexplained:
            if isRefusal(of: known.job, at: state, now: now) {
                report(.done)
            } else {
                retry(first: first, most: bounds.pauseMax)
            }
        case .transient(let seconds), .formerEnd(let seconds):
            retry(first: first, most: bounds.retryMax, asked: seconds)
        // The partition sees at its next look that the message's time is over. Another way to the device may
        // have longer.
        case .unsent, .expired: retry(first: bounds.unsentMin, most: bounds.pauseMax)
        }
    }

    private mutating func reportClosed(
        _ job: PushJob, of partition: PartitionID, for time: TimeSpan, _ effects: inout [Effect]
    ) {
        let result = PushReport.Result.closed(for: jittered(time))
        effects.append(.report(partition, PushReport(number: job.number, result)))
    }

    mutating func jittered(_ delay: TimeSpan) -> TimeSpan {
        delay + random.next(upperBound: delay / 4 + .nanoseconds(1))
    }

    private func length(_ seconds: Int?, atMost most: TimeSpan) -> TimeSpan {
        #if DEBUG
            if planted.contains(.forgetRetryAfter) { return .zero }
        #endif
        guard let seconds, seconds > 0 else { return .zero }
        return seconds >= Int(most.seconds) ? most : .seconds(UInt64(seconds))
    }
}
