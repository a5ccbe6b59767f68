// How the device gets and loses its registration, and sends its address at Apple's push service.

extension Machine {
    var isAutoInitEnabled: Bool { state.isAutoInitEnabled ?? true }

    /// Whether anything needs a registration that the device does not have.
    var needsRegistration: Bool {
        guard registration == nil, !isQuiet, hasRoom else { return false }
        return isAutoInitEnabled || !tokenWaiters.isEmpty || inbox.listener != nil
            || state.wishes.values.contains { $0.isWanted }
    }

    var needsToTell: Bool { state.address != nil && state.address != state.confirmedAddress }

    mutating func setAutoInit(_ isEnabled: Bool, now: Duration) {
        guard isAutoInitEnabled != isEnabled else { return }
        state.isAutoInitEnabled = isEnabled
        if isEnabled { isQuiet = false }
        changed(isUrgent: true)
        advance(now: now)
    }

    mutating func token(_ waiter: UInt64, now: Duration) {
        isQuiet = false
        if registration != nil {
            storing.tokenWaiters.append(waiter)
        } else {
            tokenWaiters.append(waiter)
            registering.wake()
            gate.wake()
        }
        advance(now: now)
    }

    mutating func register(now: Duration) {
        if !hasRoom { answerTokens(.failure(.endsWait)) }
        let isUnderWay = calls.contains { $0.value.call == .register && !unwanted.contains($0.key) }
        guard needsRegistration, now >= max(gate.notBefore, registering.notBefore), !isUnderWay else {
            return
        }
        _ = send(.register)
    }

    mutating func registered(_ number: UInt64, _ answer: Answer, now: Duration) {
        if unwanted.remove(number) != nil {
            if case .done(.registration(let late)) = answer { end(late) }
            return completeDeletions()
        }
        switch answer {
        case .done(.registration(let new)):
            registration = new
            state.reset(fid: new.fid)
            reconciliation.finished(now: now)
            changedRegistrations()
            storing.tokenWaiters += tokenWaiters
            tokenWaiters = []
        case .done: refuse(.unexpected, now: now)
        case .refused(let refusal): refuse(refusal, now: now)
        case .unreachable(let reason): answerTokens(.failure(MessagingError(.network, reason)))
        }
    }

    private mutating func refuse(_ refusal: Refusal, now: Duration) {
        registering.fail(now: now, retryAfter: refusal.retryAfter, random: &random)
        answerTokens(.failure(refusal.error))
        guard refusal.meaning != .retry else { return }
        // The app must learn of a key that does not count. Its wishes stay: a later start may have the right
        // key.
        for topic in waiters.keys.sorted() { complete(topic, refusal.error) }
    }

    private mutating func answerTokens(_ result: Result<String, MessagingError>) {
        guard !tokenWaiters.isEmpty else { return }
        emit(.answerToken(tokenWaiters, result))
        tokenWaiters = []
    }

    // MARK: The end of a registration

    /// The server says that the registration is gone: the client creates another, and repeats all
    /// subscriptions. Pauses grow until a call with a registration succeeds, so that a server which forgets
    /// each device at once does not get a new device every second.
    mutating func loseRegistration(now: Duration) {
        guard registration != nil else { return }
        forgetRegistration()
        if inbox.listener != nil { inbox.append(.init(event: .unregistered)) }
        registering.fail(now: now, random: &random)
    }

    /// So many replaced registrations are kept, the newest ones.
    static let replacedMax = 24

    /// Whether the client gives up its registration on this refusal. One that the server has never made is
    /// replaced, and its end stays a wish, because the right server may come back.
    mutating func loses(by refusal: Refusal, now: Duration) -> Bool {
        guard let registration else { return false }
        switch refusal.meaning {
        case .registrationGone: break
        case .registrationUnknown:
            guard doubt.isConfirmed(now: now) else { return false }
            replace(registration)
        case .retry, .final, .unproven: return false
        }
        loseRegistration(now: now)
        return true
    }

    /// The client goes on asking to end this registration, and no caller waits for that.
    private mutating func replace(_ registration: Registration) {
        replaced = (replaced + [registration]).suffix(Machine.replacedMax)
    }

    /// The server takes the registration.
    mutating func succeeded() {
        registering.succeed()
        doubt = Doubt()
    }

    private mutating func forgetRegistration() {
        doubt = Doubt()
        // Answers to calls of the previous registration no longer count.
        calls = calls.filter {
            switch $0.value.call {
            case .register, .unregister: true
            default: false
            }
        }
        underWay = [:]
        backoffs = [:]
        closeStream()
        inbox.forgetPositions()
        registration = nil
        let settled = state.wishes.filter { !$0.value.isWanted }.keys
        state.reset(fid: nil)
        changedRegistrations()
        announce()
        // Without a registration there is no subscription.
        for topic in settled.sorted() { complete(topic, nil) }
    }

    /// So many ended registrations may wait for the server's answer. Past them the client creates no further
    /// registration, so that it never has to forget an end.
    static let endedMax = 16

    private var hasRoom: Bool { ended.count + unwanted.count < Machine.endedMax }

    /// Ends the registration, here immediately, and at the server as soon as that can be reached. Wishes
    /// stay, and are repeated for the next registration.
    mutating func deleteToken(_ waiter: UInt64, now: Duration) {
        isQuiet = true
        answerTokens(.failure(.deleted))
        for topic in waiters.keys.sorted() { complete(topic, .deleted) }
        for (number, pending) in calls where pending.call == .register { unwanted.insert(number) }
        if let registration {
            ended.append(registration)
            forgetRegistration()
            inbox.forgetWaiting()
        }
        deletionWaiters.append(waiter)
        ending.wake()
        gate.wake()
        completeDeletions()
        advance(now: now)
    }

    private mutating func end(_ registration: Registration) {
        ended.append(registration)
        changedRegistrations()
    }

    /// Sends the server all ends that it has not confirmed.
    mutating func endRegistrations(now: Duration) {
        guard now >= max(gate.notBefore, ending.notBefore) else { return }
        for device in ended + replaced where !hasCall(where: { $0 == .unregister(device) }) {
            _ = send(.unregister(device))
        }
    }

    mutating func unregistered(_ device: Registration, _ answer: Answer, now: Duration) {
        switch answer {
        case .done: endConfirmed(device)
        case .refused(let refusal):
            if refusal.meaning == .registrationGone { return endConfirmed(device) }
            ending.fail(now: now, retryAfter: refusal.retryAfter, random: &random)
            guard ended.contains(device) else { return }
            guard refusal.meaning == .registrationUnknown,
                endDoubts[device.fid, default: Doubt()].isConfirmed(now: now)
            else { return failDeletions(refusal.error) }
            ended.removeAll { $0 == device }
            endDoubts[device.fid] = nil
            replace(device)
            changedRegistrations()
            completeDeletions()
        case .unreachable(let reason):
            if ended.contains(device) { failDeletions(MessagingError(.network, reason)) }
        }
    }

    private mutating func endConfirmed(_ device: Registration) {
        ending.succeed()
        ended.removeAll { $0 == device }
        replaced.removeAll { $0 == device }
        endDoubts[device.fid] = nil
        changedRegistrations()
        completeDeletions()
    }

    /// Reports success to the callers if no end is open.
    private mutating func completeDeletions() {
        guard ended.isEmpty, unwanted.isEmpty else { return }
        completeStored(deletionWaiters)
        deletionWaiters = []
    }

    private mutating func failDeletions(_ error: MessagingError) {
        if !deletionWaiters.isEmpty { emit(.complete(deletionWaiters, error)) }
        deletionWaiters = []
    }

    /// Ends the registration, and forgets all wishes.
    mutating func deleteData(_ waiter: UInt64, now: Duration) {
        state.wishes = [:]
        backoffs = [:]
        changed(isUrgent: true)
        deleteToken(waiter, now: now)
    }

    // MARK: The address

    mutating func setAddress(_ address: PushAddress?, now: Duration) {
        guard state.address != address else { return }
        state.address = address
        telling.wake()
        changed(isUrgent: true)
        advance(now: now)
    }

    mutating func tellAddress(_ registration: Registration, now: Duration) {
        guard needsToTell, now >= max(gate.notBefore, telling.notBefore) else { return }
        let isUnderWay = hasCall {
            switch $0 {
            case .authToken, .tell: true
            default: false
            }
        }
        if !isUnderWay { _ = send(.authToken(registration)) }
    }

    mutating func authorized(_ device: Registration, _ answer: Answer, now: Duration) {
        switch answer {
        case .done(.authToken(let token)):
            guard let address = state.address else { return }
            _ = send(.tell(device, address, authToken: token))
        case .done: telling.fail(now: now, random: &random)
        case .refused(let refusal): addressRefused(refusal, now: now)
        case .unreachable: break
        }
    }

    mutating func told(_ address: PushAddress, _ answer: Answer, now: Duration) {
        switch answer {
        case .done:
            telling.succeed()
            state.confirmedAddress = address
            changed(isUrgent: false)
        case .refused(let refusal): addressRefused(refusal, now: now)
        case .unreachable: break
        }
    }

    private mutating func addressRefused(_ refusal: Refusal, now: Duration) {
        if loses(by: refusal, now: now) { return }
        telling.fail(now: now, retryAfter: refusal.retryAfter, random: &random)
    }
}

extension Refusal {
    /// An answer of 200 without what the call asked for.
    static let unexpected = Refusal(
        status: 502, message: "The server's answer is not what the call asked for.", isFromServer: false)
}

extension MessagingError {
    static let deleted = MessagingError(.cancelled, "The app has deleted the registration.")
    static let endsWait = MessagingError(
        .network,
        "\(Machine.endedMax) ended registrations wait for the server, and no further one is made before.")
}
