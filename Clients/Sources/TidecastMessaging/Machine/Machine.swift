/// Decides what the client does: which calls it sends and when, what it stores, what it reports to the app.
///
/// An event comes in with the time, and `takeEffects` gives what the shell must do. The machine has no clock,
/// no randomness but its seed, and no I/O. Times count from any fixed moment of the process and never go
/// back.
///
/// What always holds:
/// - A wish is stored before its call is sent, and so is the end of a registration, if the storage takes it.
/// - A registration that the app has ended stays in `ended` until the server says that it is gone. If the
///   server says for a minute that it has never made it, it goes to `replaced`. No message of it reaches the
///   app.
/// - A caller gets success only when what succeeded is stored.
/// - A registration goes only on the server's proof that it has ended, on the app's word, or if the server
///   says for a minute that it has never made it.
/// - At most one call for a topic is under way, so that the server carries out a topic's calls in the order
///   of the app's. The shell must end a call as `unreachable` only when the server no longer carries the call
///   out: the server's deadline for a call is 25 s.
/// - The position moves only behind an event that the app has handled.
/// - Every waiting caller gets exactly one answer.
struct Machine {
    struct Pending: Equatable {
        var call: Call
        /// `gate.failures` when the call was sent: calls that were under way together count as one failure.
        var round: Int
    }

    static let callsMax = 10

    var state: ClientState
    var registration: Registration?
    /// Registrations whose end the server must still get, at most `endedMax`.
    var ended: [Registration]
    /// See `Registrations.replaced`; at most `replacedMax`.
    var replaced: [Registration]
    var doubt = Doubt()
    /// The doubts of ended registrations, by their FIDs.
    var endDoubts: [String: Doubt] = [:]
    var random: SplitMix
    private var effects: [Effect] = []
    var storing = Storing()
    var calls: [UInt64: Pending] = [:]
    private var lastNumber: UInt64 = 0

    /// Closed while the server does not answer.
    var gate = Backoff()

    // Registration.
    var registering = Backoff()
    var tokenWaiters: [UInt64] = []
    var deletionWaiters: [UInt64] = []
    /// Calls to register that were under way when the app ended its registration: what they bring is ended.
    var unwanted: Set<UInt64> = []
    var ending = Backoff()
    /// The app deleted its token: the client registers again only when the app asks for something.
    var isQuiet = false
    var telling = Backoff()

    // Topics.
    var waiters: [String: [UInt64]] = [:]
    var backoffs: [String: Backoff] = [:]
    var underWay: [String: (number: UInt64, version: UInt64)] = [:]
    var reconciliation = Reconciliation()

    // The stream.
    var stream = StreamPhase.closed
    var reopening = Backoff()
    var inbox = Inbox()
    /// Another process took the stream over: the listener ends when it knows.
    var isReplaced = false

    private let hasState: Bool

    /// `state`: `nil` if nothing is stored.
    init(state: ClientState?, registrations: Registrations, seed: UInt64) {
        self.state = state ?? ClientState()
        hasState = state != nil
        registration = registrations.current
        ended = registrations.ended
        replaced = registrations.replaced ?? []
        random = SplitMix(seed: seed)
    }

    /// Effects since the last time, in their order.
    mutating func takeEffects() -> [Effect] {
        defer { effects = [] }
        return effects
    }

    mutating func emit(_ effect: Effect) { effects.append(effect) }

    mutating func newNumber() -> UInt64 {
        lastNumber += 1
        return lastNumber
    }

    mutating func send(_ call: Call) -> UInt64 {
        store()
        let number = newNumber()
        calls[number] = Pending(call: call, round: gate.failures)
        emit(.send(number, call))
        return number
    }

    // MARK: Events

    /// The process begins, with what an earlier one stored.
    mutating func start(now: Duration) {
        if state.fid != registration?.fid {
            // Without its own state the registration is an earlier installation's: its user's topics and
            // messages are not for this one.
            if let former = registration { ended.append(former) }
            registration = nil
            state.reset(fid: nil)
            changedRegistrations()
        } else if !hasState {
            changed(isUrgent: true)
        }
        announce()
        reconciliation.due = now
        advance(now: now)
    }

    /// The network came back, or the app came to the front: everything that waits for its next try is due.
    mutating func wake(now: Duration) {
        gate.wake()
        registering.wake()
        ending.wake()
        telling.wake()
        reopening.wake()
        for topic in backoffs.keys { backoffs[topic]?.wake() }
        reconciliation.ask(now: now)
        advance(now: now)
    }

    /// The time of `nextTime` has come.
    mutating func timer(now: Duration) { advance(now: now) }

    mutating func answer(_ number: UInt64, _ answer: Answer, now: Duration) {
        guard let pending = calls.removeValue(forKey: number) else { return }
        if case .unreachable = answer {
            if pending.round == gate.failures { gate.fail(now: now, random: &random) }
        } else {
            gate.succeed()
        }
        switch (answer, pending.call) {
        case (.done, .register), (.done, .unregister): break
        case (.done, _): succeeded()
        default: break
        }
        switch pending.call {
        case .register: registered(number, answer, now: now)
        case .unregister(let device): unregistered(device, answer, now: now)
        case .change(_, let topic, _): changeAnswered(number, topic: topic, with: answer, now: now)
        case .list(_, let page): listed(page, answer, now: now)
        case .acknowledge(_, let event): acknowledged(event, answer, now: now)
        case .authToken(let device): authorized(device, answer, now: now)
        case .tell(_, let address, _): told(address, answer, now: now)
        }
        advance(now: now)
    }

    // MARK: Progress

    /// Does all that is possible now.
    mutating func advance(now: Duration) {
        deliver(now: now)
        endRegistrations(now: now)
        register(now: now)
        if let registration {
            tellAddress(registration, now: now)
            sendChanges(registration, now: now)
            reconcile(registration, now: now)
            acknowledge(registration, now: now)
            runStream(registration, now: now)
        }
        if now >= storing.retry.notBefore { storing.repeatFailed() }
        store()
        flush()
    }

    /// When `timer` must come at the latest; `nil` if only other events lead on. After `advance`, nothing
    /// that is still to be done is due, so only times after `now` count.
    func nextTime(now: Duration) -> Duration? {
        var times: [Duration] = []
        let opening = gate.notBefore
        if !ended.isEmpty || !replaced.isEmpty { times.append(max(opening, ending.notBefore)) }
        if storing.error != nil { times.append(storing.retry.notBefore) }
        if registration == nil {
            if needsRegistration { times.append(max(opening, registering.notBefore)) }
        } else {
            times += pendingTopics.map { max(opening, backoffs[$0]?.notBefore ?? .zero) }
            if needsToTell { times.append(max(opening, telling.notBefore)) }
            times.append(max(opening, reconciliation.due))
            if let due = inbox.acknowledgeDue { times.append(max(opening, due)) }
            switch stream {
            case .closed where inbox.listener != nil: times.append(reopening.notBefore)
            case .open(_, let heard, _): times.append(heard + Machine.silenceMax)
            default: break
            }
        }
        return times.filter { $0 > now }.min()
    }

    func hasCall(where matches: (Call) -> Bool) -> Bool { calls.values.contains { matches($0.call) } }
}
