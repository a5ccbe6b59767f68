import Model
import Partitions
import Placement
import Routing

/// A device, and the backend that speaks for it: one operation at a time, through any gateway.
struct ClusterClient {
    let number: Int
    var registration: Registration?
    var credential: DeviceProof?
    var listener: Listener?
    var wantsToListen = true
    var lastPosition: UInt64 = 0
    init(number: Int) { self.number = number }
}

extension ClusterSimulation {
    func topic(_ number: Int) -> TopicName { TopicName(checked: Array("topic-\(number)".utf8)) }
    func topicNumber(_ name: TopicName) -> Int {
        Int(String(decoding: name.utf8.dropFirst(6), as: UTF8.self)) ?? -1
    }

    // MARK: Calls

    /// Some process that takes requests, as a client finds one.
    func anyGateway() -> SimulatedProcess? {
        let places = slots.indices.filter { slots[$0].isGateway }
        let place = places[Int(roll(UInt64(places.count)))]
        if let ghost = ghosts.first(where: { $0.place == place && $0.isRunning }), roll(2) == 0 {
            return ghost
        }
        return slots[place].process.flatMap { $0.isRunning && !$0.isRetiring ? $0 : nil }
    }

    /// Asks a gateway; answered with nothing where the connection breaks or nobody answers.
    func call(_ what: String, _ operation: Operation, _ answered: @escaping (Outcome?) -> Void) {
        lastCall += 1
        let id = lastCall
        underWay[id] = (what, now)
        let finish = { [unowned self] (outcome: Outcome?) in
            guard let began = underWay.removeValue(forKey: id)?.began else { return }
            note(id)
            slowest = max(slowest, now - began)
            answered(outcome)
        }
        after(100_000 + roll(1_000_000), .client) {
            guard let process = self.anyGateway() else {
                return self.after(1_000_000, .client) { finish(nil) }
            }
            process.calls[id] = { finish(nil) }
            self.after(0, .client, process) {
                process.anyLoop.submit(operation) { outcome in
                    self.after(100_000 + self.roll(1_000_000), .client) {
                        guard process.calls.removeValue(forKey: id) != nil else { return }
                        finish(outcome)
                    }
                }
            }
        }
        after(.seconds(40), .client) { finish(nil) }
    }

    func later(_ client: Int) {
        guard isLoading, !isHealing else { return }
        after(roll(options.pauseMax), .client) { self.operate(client) }
    }

    /// One random operation of a client; the next when it is answered.
    func operate(_ client: Int) {
        guard isLoading, !isHealing else { return }
        guard clients[client].registration != nil else { return register(client) }
        switch roll(100) {
        case ..<30: change(client)
        case ..<75: send(client)
        case ..<85: toggle(client)
        default: acknowledge(client)
        }
    }

    private func register(_ client: Int) {
        call("register", .register(project: ClusterSimulation.project)) { outcome in
            if case .registered(let new)? = outcome {
                self.clients[client].registration = new.registration
                self.clients[client].credential = DeviceProof(high: new.secret, low: 2)
                self.listen(client)
            }
            self.later(client)
        }
    }

    // MARK: Subscriptions

    /// Subscribes or unsubscribes this device, and now and then others with it, until it is done.
    private func change(_ client: Int) {
        let number = Int(roll(UInt64(options.topicCount)))
        var devices = [client]
        for other in clients.indices where other != client && roll(6) == 0 { devices.append(other) }
        devices = devices.filter { device in
            clients[device].registration != nil
                && quiet[Pair(device: device, topic: number), default: 0] < now
        }
        guard !devices.isEmpty else { return later(client) }
        for device in devices { quiet[Pair(device: device, topic: number)] = .max }
        let subscribes = roll(3) > 0
        let first = history.changes.count
        for device in devices {
            history.changes.append(
                History.Change(
                    device: device, topic: number, subscribe: subscribes, began: now, outcome: .unknown))
        }
        let places = Array(first..<history.changes.count)
        tryChange(subscribes ? .subscribe : .unsubscribe, number, devices, places, doubted: 0)
        later(client)
    }

    /// `places` of the devices' changes in the history; `doubted`: when an earlier try ended without an
    /// answer, after which it may still take effect for as long as its gateway's deadline.
    private func tryChange(
        _ kind: SubscriptionChange.Kind, _ topic: Int, _ devices: [Int], _ places: [Int], doubted: UInt64
    ) {
        guard !isAsking else { return }
        let change = SubscriptionChange(
            project: ClusterSimulation.project, kind: kind, topic: self.topic(topic),
            devices: devices.compactMap { clients[$0].registration })
        call("change", .changeSubscriptions(change)) { outcome in
            var doubted = doubted
            var left: [Int] = []
            if case .changes(let outcomes)? = outcome {
                for (number, outcome) in outcomes.enumerated() {
                    if case .refused = outcome {
                        left.append(number)
                        continue
                    }
                    self.history.changes[places[number]].outcome = .ok(at: self.now)
                    let quiet = doubted == 0 ? self.now : doubted + .seconds(45)
                    self.quiet[Pair(device: devices[number], topic: topic)] = quiet
                }
            } else {
                doubted = self.now
                left = Array(devices.indices)
            }
            guard !left.isEmpty else { return }
            self.after(.milliseconds(200) + self.roll(.milliseconds(800)), .client) {
                self.tryChange(
                    kind, topic, left.map { devices[$0] }, left.map { places[$0] }, doubted: doubted)
            }
        }
    }

    // MARK: Sends

    private func send(_ client: Int) {
        let first = Int(roll(UInt64(options.topicCount)))
        let target: History.Send.Target
        switch roll(10) {
        case 0: target = .butNot(first, (first + 1) % options.topicCount)
        case 1, 2: target = .device(client)
        default: target = .topic(first)
        }
        let isShort = roll(8) == 0
        let key = roll(6) == 0 ? "key-\(roll(2))" : ""
        trySend(client, target, key: key, isShort: isShort, triesLeft: 4) { self.later(client) }
    }

    /// Sends as an SDK does: what was refused as unavailable is sent again, as another message.
    func trySend(
        _ client: Int, _ target: History.Send.Target, key: String = "", isShort: Bool = false,
        triesLeft: Int, _ done: @escaping () -> Void
    ) {
        nextMessage += 1
        let envelope = Envelope(
            id: MessageID(time: nextMessage, random: options.seed), event: Array("\(nextMessage)".utf8),
            collapseKey: Array(key.utf8), sent: wall, ttlSeconds: isShort ? 1 : 86_400)
        guard let to = address(target) else { return done() }
        let place = history.sends.count
        history.sends.append(
            History.Send(
                message: nextMessage, target: target, key: key, expires: isShort ? now + .seconds(1) : nil,
                began: now, outcome: .unknown))
        let send = Send(
            project: ClusterSimulation.project, target: to, message: envelope, validateOnly: false)
        let number = nextMessage
        debug("send \(number) to \(target)")
        call("send", .send(send)) { outcome in
            self.debug("send \(number): \(String(describing: outcome))")
            switch outcome {
            case .accepted?:
                self.history.sends[place].outcome = .ok(at: self.now)
                return done()
            case .refused(.deadlineExceeded)?: return done()
            case .refused(let refusal)?:
                self.history.sends[place].outcome = .refused(at: self.now)
                if case .quota = refusal {
                    self.count("429")
                    return done()
                }
            default: break
            }
            guard triesLeft > 1 else { return done() }
            self.after(.milliseconds(300) + self.roll(.milliseconds(900)), .client) {
                self.trySend(client, target, key: key, isShort: isShort, triesLeft: triesLeft - 1, done)
            }
        }
    }

    private func address(_ target: History.Send.Target) -> Send.Target? {
        switch target {
        case .topic(let number): return .topic(topic(number))
        case .butNot(let wanted, let other):
            return .condition(
                Condition(topics: [topic(wanted), topic(other)], root: .and(.topic(0), .not(.topic(1)))))
        case .device(let device): return clients[device].registration.map { .device($0) }
        }
    }

    private func acknowledge(_ client: Int) {
        let position = clients[client].lastPosition
        guard position > 0, let registration = clients[client].registration,
            let credential = clients[client].credential, let event = event(client)
        else { return later(client) }
        let operation = Operation.acknowledge(registration, by: .device(credential), event)
        call("acknowledge", operation) { outcome in
            if case .done? = outcome {
                self.history.acknowledgements.append(.init(device: client, position: position, at: self.now))
            }
            self.later(client)
        }
    }

    private func event(_ client: Int) -> EventID? {
        guard clients[client].lastPosition > 0, let registration = clients[client].registration else {
            return nil
        }
        return EventID(
            position: Position(clients[client].lastPosition),
            history: UInt16(truncatingIfNeeded: UInt64(registration.partition.rawValue) + 7))
    }

    // MARK: Streams

    func listen(_ client: Int) {
        guard clients[client].listener == nil, clients[client].wantsToListen,
            let registration = clients[client].registration, let credential = clients[client].credential
        else { return }
        guard let process = anyGateway() else { return listenLater(client) }
        let listener = Listener(device: client, began: now)
        clients[client].listener = listener
        let resume = roll(4) > 0 || !isLoading ? event(client) : nil
        lastCall += 1
        let id = lastCall
        process.calls[id] = { self.hungUp(listener) }
        after(100_000 + roll(1_000_000), .client, process) {
            process.calls[id] = nil
            guard listener.isOpenAtDevice, !process.isRetiring else { return self.hungUp(listener) }
            let loop = process.anyLoop
            listener.loop = loop
            loop.listen(listener, registration, credential, resume: resume)
        }
    }

    func listenLater(_ client: Int) {
        after(.milliseconds(300) + roll(.milliseconds(1500)), .client) { self.listen(client) }
    }

    /// The device closes its stream; its gateway hears of it soon, or much later.
    func hangUp(_ client: Int) {
        guard let listener = clients[client].listener else { return }
        clients[client].listener = nil
        listener.isOpenAtDevice = false
        guard let loop = listener.loop else { return }
        let delay = roll(5) == 0 ? roll(.seconds(20)) : roll(3_000_000)
        after(delay, .client, loop.process) { loop.cancelled(listener) }
    }

    private func toggle(_ client: Int) {
        if clients[client].listener == nil {
            clients[client].wantsToListen = true
            listen(client)
        } else {
            clients[client].wantsToListen = roll(3) > 0
            hangUp(client)
            listenLater(client)
        }
        later(client)
    }

    /// The gateway's end of a stream is gone.
    func hungUp(_ listener: Listener) {
        guard listener.isOpenAtDevice else { return }
        listener.isOpenAtDevice = false
        guard clients[listener.device].listener === listener else { return }
        clients[listener.device].listener = nil
        listenLater(listener.device)
    }

    /// Something came to a device.
    func arrived(_ chunk: SimulatedLoop.Chunk, _ listener: Listener) {
        guard listener.isOpenAtDevice else { return }
        let device = listener.device
        switch chunk {
        case .event(let body, let position):
            let message = UInt64(String(decoding: body, as: UTF8.self)) ?? 0
            note(message << 8 ^ UInt64(device))
            debug("device \(device) gets \(message) at \(position.rawValue), \(listener.name)")
            if position.rawValue <= listener.lastPosition {
                violate("G2", "device \(device) gets message \(message) twice on one stream")
            }
            listener.lastPosition = max(listener.lastPosition, position.rawValue)
            history.deliveries.append(
                .init(
                    device: device, message: message, position: position.rawValue, at: now,
                    streamBegan: listener.began))
            clients[device].lastPosition = max(clients[device].lastPosition, position.rawValue)
        case .deleted: history.told[device] = now
        }
    }
}
