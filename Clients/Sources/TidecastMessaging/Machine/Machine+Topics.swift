// Which topics the app wants, and how the server comes to have them.

/// When the device's own list of topics is compared with the wishes.
struct Reconciliation {
    /// The time of the next comparison.
    var due = Duration.zero
    /// The wishes before the list was asked for: the answer does not cover later ones.
    var versionAtStart: UInt64 = 0
    /// Topics of the pages that have come.
    var found: Set<String> = []
    var backoff = Backoff()
    private var last: Duration?

    /// A device that stays connected for long compares once a week.
    static let period = Duration.seconds(7 * 86_400)
    /// A device whose connection is bad does not ask at each reconnection.
    static let pause = Duration.seconds(30)

    mutating func finished(now: Duration) {
        last = now
        due = now + Reconciliation.period
        backoff.succeed()
        found = []
    }

    mutating func ask(now: Duration) {
        due = min(due, last.map { max(now, $0 + Reconciliation.pause) } ?? now)
    }
}

extension Machine {
    /// Wishes of which the server does not know, without those whose call is under way.
    var pendingTopics: [String] {
        state.wishes.filter { !$0.value.isSettled && underWay[$0.key] == nil }.map(\.key)
    }

    /// Notes what the app wants of a topic. The caller is notified when the server has confirmed it, or when
    /// a later call wants the opposite.
    mutating func wish(_ topic: String, isWanted: Bool, waiter: UInt64?, now: Duration) {
        let former = state.wishes[topic]
        if former?.isWanted != isWanted { complete(topic, .superseded) }
        // A wish that is confirmed or new gets a call. A wish that waits for its call already is the same.
        if former == nil || former?.isWanted != isWanted || former?.isSettled == true {
            state.wishes[topic] = .init(
                isWanted: isWanted, version: state.nextVersion(), confirmed: former?.confirmed ?? 0)
            changed(isUrgent: former?.isWanted != isWanted)
        }
        if let waiter { waiters[topic, default: []].append(waiter) }
        isQuiet = false
        if registration == nil, !isWanted {
            // Without a registration there is no subscription, and the next registration begins with none.
            settle(topic)
        } else {
            backoffs[topic]?.wake()
            gate.wake()
        }
        advance(now: now)
    }

    /// Ends the waiting of the topic's callers, for success when what succeeded is stored.
    mutating func complete(_ topic: String, _ error: MessagingError?) {
        guard let waiting = waiters.removeValue(forKey: topic) else { return }
        if let error { emit(.complete(waiting, error)) } else { completeStored(waiting) }
    }

    private mutating func settle(_ topic: String) {
        backoffs[topic] = nil
        if let wish = state.wishes[topic] {
            if wish.isWanted {
                state.wishes[topic]?.confirmed = wish.version
            } else {
                state.wishes[topic] = nil
            }
            changed(isUrgent: false)
        }
        complete(topic, nil)
    }

    /// Sends the calls of wishes that are due, the oldest wish first.
    mutating func sendChanges(_ registration: Registration, now: Duration) {
        guard now >= gate.notBefore, underWay.count < Machine.callsMax else { return }
        let due = pendingTopics.filter { now >= backoffs[$0]?.notBefore ?? .zero }
            .sorted { (state.wishes[$0]?.version ?? 0, $0) < (state.wishes[$1]?.version ?? 0, $1) }
        for topic in due.prefix(Machine.callsMax - underWay.count) {
            guard let wish = state.wishes[topic] else { continue }
            let number = send(.change(registration, topic: topic, isSubscribe: wish.isWanted))
            underWay[topic] = (number, wish.version)
        }
    }

    mutating func changeAnswered(_ number: UInt64, topic: String, with answer: Answer, now: Duration) {
        guard let sent = underWay[topic], sent.number == number else { return }
        underWay[topic] = nil
        // A later call of the app goes out next; it has taken the place of the previous wish.
        let isLatest = state.wishes[topic]?.version == sent.version
        switch answer {
        case .done: if isLatest { settle(topic) }
        case .unreachable: break
        case .refused(let refusal):
            if loses(by: refusal, now: now) { return }
            if refusal.meaning != .final {
                backoffs[topic, default: Backoff()].fail(
                    now: now, retryAfter: refusal.retryAfter, random: &random)
                if refusal.status == 429 {
                    gate.fail(now: now, retryAfter: refusal.retryAfter, random: &random)
                }
            } else if isLatest {
                backoffs[topic] = nil
                state.wishes[topic] = nil
                changed(isUrgent: true)
            }
            // The app must learn of what may be its own mistake, such as a wrong project.
            if isLatest, refusal.meaning != .retry { complete(topic, refusal.error) }
        }
    }

    // MARK: Reconciliation

    /// Asks for the device's own list of topics if that is due.
    mutating func reconcile(_ registration: Registration, now: Duration) {
        let isUnderWay = hasCall { if case .list = $0 { true } else { false } }
        guard now >= max(reconciliation.due, gate.notBefore), !isUnderWay else { return }
        guard state.wishes.values.contains(where: { $0.isWanted && $0.isSettled }) else {
            return reconciliation.finished(now: now)
        }
        reconciliation.versionAtStart = state.version
        reconciliation.found = []
        _ = send(.list(registration, page: ""))
    }

    mutating func listed(_ page: String, _ answer: Answer, now: Duration) {
        switch answer {
        case .done(.topics(let topics, let next)):
            reconciliation.found.formUnion(topics)
            if let registration, !next.isEmpty, next != page {
                _ = send(.list(registration, page: next))
            } else {
                repair(now: now)
            }
        case .done: postpone(nil, now: now)
        case .refused(let refusal):
            if loses(by: refusal, now: now) { return }
            postpone(refusal.retryAfter, now: now)
        case .unreachable: break
        }
    }

    private mutating func postpone(_ retryAfter: Duration?, now: Duration) {
        reconciliation.backoff.fail(now: now, retryAfter: retryAfter, random: &random)
        reconciliation.due = reconciliation.backoff.notBefore
    }

    /// Wishes that the server had confirmed, and has no longer, are sent again. Topics that only the server
    /// has stay: a backend subscribed the device.
    private mutating func repair(now: Duration) {
        for (topic, wish) in state.wishes
        where wish.isWanted && wish.isSettled && wish.version <= reconciliation.versionAtStart
            && !reconciliation.found.contains(topic)
        {
            state.wishes[topic]?.confirmed = 0
            changed(isUrgent: false)
        }
        reconciliation.finished(now: now)
    }
}

extension MessagingError {
    static let superseded = MessagingError(.superseded, "A later call wants the opposite for this topic.")
}
