// The stream of events: when the client opens it, and what it acknowledges.

/// What the shell reports of a stream.
enum StreamSignal: Equatable, Sendable {
    /// The server has answered 200.
    case opened
    /// Bytes came: the connection lives.
    case heard
    case event(MessagingEvent, id: String?)
    /// The server ends the stream, and asks the client to come back after this pause.
    case reconnect(after: Duration?)
    case replaced
    case unregistered
    case refused(Refusal)
    case ended(String)
}

enum StreamPhase: Equatable {
    case closed
    case opening(UInt64)
    /// `pause` is what the server has asked for with `reconnect`.
    case open(UInt64, heard: Duration, pause: Duration?)

    var number: UInt64? {
        switch self {
        case .closed: nil
        case .opening(let number), .open(let number, _, _): number
        }
    }
}

extension Machine {
    /// The server writes a comment every 25 s. A stream that is silent for so long is dead.
    static let silenceMax = Duration.seconds(65)
    /// The longest pause before the next stream.
    static let reopenMax = Duration.seconds(60)

    // MARK: The app's side

    /// A listener begins. An earlier listener ends, and what it has not handled comes again.
    mutating func listen(_ listener: UInt64, now: Duration) {
        if let former = inbox.listener { stopListening(former, now: now) }
        inbox.listener = listener
        isReplaced = false
        isQuiet = false
        registering.wake()
        reopening.wake()
        gate.wake()
        advance(now: now)
    }

    /// The listener asks for its next event, and has therefore handled the last one.
    mutating func pull(_ listener: UInt64, now: Duration) {
        guard inbox.listener == listener else { return emit(.endListener(listener)) }
        if let id = inbox.handled() { moved(to: id, now: now) }
        inbox.isHungry = true
        advance(now: now)
    }

    mutating func stopListening(_ listener: UInt64, now: Duration) {
        guard inbox.listener == listener else { return }
        closeStream()
        inbox.clear()
        emit(.endListener(listener))
        advance(now: now)
    }

    private mutating func moved(to id: String, now: Duration) {
        state.position = id
        inbox.countHandled(now: now)
        changed(isUrgent: false)
    }

    /// Gives the hungry listener the next event.
    mutating func deliver(now: Duration) {
        guard inbox.isHungry, let listener = inbox.listener else { return }
        while let item = inbox.next() {
            guard let event = item.event else {
                // The app has handled this message under another id.
                if let id = item.id { moved(to: id, now: now) }
                continue
            }
            inbox.hand(item)
            emit(.deliver(listener, event))
            return
        }
        if isReplaced {
            isReplaced = false
            inbox.clear()
            emit(.endListener(listener))
        }
    }

    // MARK: The server's side

    mutating func signal(_ number: UInt64, _ signal: StreamSignal, now: Duration) {
        guard stream.number == number else { return }
        switch signal {
        case .opened: opened(number, now: now)
        case .heard:
            if case .open(_, _, let pause) = stream { stream = .open(number, heard: now, pause: pause) }
        case .event(let event, let id):
            inbox.append(.init(event: event, id: id))
            if inbox.isFull { closeStream() }
        case .reconnect(let pause): stream = .open(number, heard: now, pause: pause ?? .seconds(1))
        case .replaced:
            closeStream()
            isReplaced = true
            inbox.append(.init(event: .replaced))
        case .unregistered: loseRegistration(now: now)
        case .refused(let refusal): refused(refusal, now: now)
        case .ended(let reason): ended(reason, now: now)
        }
        advance(now: now)
    }

    private mutating func opened(_ number: UInt64, now: Duration) {
        stream = .open(number, heard: now, pause: nil)
        reopening.succeed()
        succeeded()
        // The server can be reached again.
        gate.wake()
        for topic in backoffs.keys { backoffs[topic]?.wake() }
        reconciliation.ask(now: now)
        inbox.append(.init(event: .connected))
    }

    private mutating func refused(_ refusal: Refusal, now: Duration) {
        if loses(by: refusal, now: now) { return }
        ended(refusal.error.message, now: now, retryAfter: refusal.retryAfter)
    }

    private mutating func ended(_ reason: String, now: Duration, retryAfter: Duration? = nil) {
        if case .open(_, _, .some(let pause)) = stream {
            reopening.hold(until: now + pause)
        } else {
            reopening.fail(
                now: now, longest: Machine.reopenMax, retryAfter: retryAfter, random: &random)
        }
        closeStream()
        inbox.append(.init(event: .reconnecting(after: reopening.notBefore - now, reason: reason)))
    }

    mutating func closeStream() {
        guard let number = stream.number else { return }
        stream = .closed
        emit(.closeStream(number))
    }

    /// Opens the stream if it is wanted, and ends one that is dead.
    mutating func runStream(_ registration: Registration, now: Duration) {
        if case .open(_, let heard, _) = stream, now >= heard + Machine.silenceMax {
            ended("The stream was silent for \(Machine.silenceMax.components.seconds) s.", now: now)
        }
        guard stream == .closed, inbox.listener != nil, !isReplaced, inbox.isMostlyEmpty,
            now >= reopening.notBefore
        else { return }
        let number = newNumber()
        stream = .opening(number)
        store()
        emit(.openStream(number, registration, resume: state.position))
        // The server takes the position as an acknowledgement.
        inbox.acknowledgeSent()
    }

    // MARK: Acknowledgements

    mutating func acknowledge(_ registration: Registration, now: Duration) {
        guard let due = inbox.acknowledgeDue, now >= max(due, gate.notBefore), let event = state.position
        else { return }
        if hasCall(where: { if case .acknowledge = $0 { true } else { false } }) { return }
        inbox.acknowledgeSent()
        _ = send(.acknowledge(registration, event: event))
    }

    mutating func acknowledged(_ event: String, _ answer: Answer, now: Duration) {
        switch answer {
        case .done: break
        case .unreachable: inbox.acknowledgeAgain(at: now + Inbox.acknowledgePause)
        case .refused(let refusal):
            if loses(by: refusal, now: now) { return }
            // After other refusals the next stream sends the position again.
            if refusal.meaning == .retry {
                inbox.acknowledgeAgain(at: now + (refusal.retryAfter ?? Inbox.acknowledgePause))
            }
        }
    }
}
