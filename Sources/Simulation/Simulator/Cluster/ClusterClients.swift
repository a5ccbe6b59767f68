import Model
import Partitions
import Routing

/// A device and its backend: one operation at a time, through any gateway.
struct ClusterClient {
    let number: Int
    let project: ProjectNumber
    /// The device has unregistered or is about to, and another client has taken its place.
    var isGone = false
    var registration: Registration?
    var credential: DeviceMAC?
    var listener: Listener?
    var wantsToListen = true
    var lastPosition: UInt64 = 0
    /// How many push addresses the device has registered.
    var addresses = 0
    /// Of each kind the newest of these, and the newest of which the device knows that it is stored.
    var told: [Transport.Kind: Int] = [:]
    var stored: [Transport.Kind: Int] = [:]
    /// When the first of each kind was.
    var addressed: [Transport.Kind: MonotonicTime] = [:]
    /// Of each kind the addresses that may be stored after a newer one: the device had registered that before
    /// it knew of them.
    var doubtful: [Transport.Kind: Set<Int>] = [:]
    /// When something came last on a stream of the device.
    var heard = MonotonicTime.zero
    var life = Life.running
    /// What the client does with the answers for which it waits, by call. Empty if no client ends early.
    var awaited: [UInt64: (Outcome?) -> Void] = [:]
    /// What a client that has ended does when it is back.
    var putOff: [() -> Void] = []
    init(number: Int, project: ProjectNumber) {
        self.number = number
        self.project = project
    }
}

extension ClusterSimulation {
    func topic(_ number: Int) -> TopicName { TopicName(checked: Array("topic-\(number)".utf8)) }
    func topicNumber(_ name: TopicName) -> Int {
        Int(String(decoding: name.utf8.dropFirst(6), as: UTF8.self)) ?? -1
    }

    /// All topics of all projects.
    var topics: Range<Int> { 0..<options.topicCount * projects.count }
    func project(ofTopic number: Int) -> ProjectNumber { projects[number / options.topicCount] }
    /// A topic of the client's project.
    func anyTopic(_ client: Int) -> Int {
        let first = (Int(clients[client].project.rawValue) - 1) * options.topicCount
        return first + Int(roll(UInt64(options.topicCount)))
    }

    // MARK: Calls

    /// A random gateway, as a client chooses one; `nil` if its process takes no requests.
    func anyGateway() -> SimulatedProcess? {
        let indices = slots.indices.filter { slots[$0].isGateway }
        let index = indices[Int(roll(UInt64(indices.count)))]
        if let ghost = ghosts.first(where: { $0.index == index && $0.isRunning }), roll(2) == 0 {
            return ghost
        }
        return slots[index].process.flatMap { $0.takesClients ? $0 : nil }
    }

    /// Asks a gateway. `answered` gets `nil` if the connection breaks, no answer comes within 40 s, or the
    /// client ends.
    func call(
        _ what: String, by client: Int? = nil, _ operation: Operation,
        answered: @escaping (Outcome?) -> Void
    ) {
        lastCall += 1
        let id = lastCall
        underWay[id] = (what, now)
        let answered = awaiting(what, by: client, call: id, answered: answered)
        let finish = { [unowned self] (outcome: Outcome?) in
            guard let began = underWay.removeValue(forKey: id)?.began else { return }
            note(id)
            slowest = max(slowest, now.since(began))
            answered(outcome)
        }
        after(.microseconds(100) + roll(.milliseconds(1)), .client) {
            guard let process = self.anyGateway() else {
                return self.after(.milliseconds(1), .client) { finish(nil) }
            }
            process.calls[id] = { finish(nil) }
            self.after(.zero, .client, process: process) {
                process.anyLoop.submit(operation) { outcome in
                    self.after(.microseconds(100) + self.roll(.milliseconds(1)), .client) {
                        guard process.calls.removeValue(forKey: id) != nil else { return }
                        finish(outcome)
                    }
                }
            }
        }
        after(.seconds(40), .client) { finish(nil) }
    }

    func later(_ client: Int) {
        guard isLoading, !isHealing, !clients[client].isGone else { return }
        after(roll(options.pauseMax), .client) { self.operate(client) }
    }

    /// Begins a random operation of a client; `later` plans the next one.
    func operate(_ client: Int) {
        guard isLoading, !isHealing, !clients[client].isGone else { return }
        guard !putsOff(client, { self.operate(client) }) else { return }
        guard clients[client].registration != nil else { return register(client) }
        if chance(options.unregisterPerMille) { return unregister(client) }
        let kind = pushKind(client)
        if kind.isPushed, chance(options.addressPerMille) { tellAddress(client, anyOf: kind.kinds) }
        switch roll(100) {
        case ..<30: change(client)
        case ..<75: send(client)
        case ..<85 where !kind.isSilent: toggle(client)
        default: acknowledge(client)
        }
    }

    private func register(_ client: Int) {
        call("register", by: client, .register(project: clients[client].project)) { outcome in
            if case .registered(let new)? = outcome {
                self.clients[client].registration = new.registration
                self.clients[client].credential = DeviceMAC(high: new.secret, low: 2)
                for kind in self.pushKind(client).kinds { self.tellAddress(client, kind) }
                self.listen(client)
            }
            self.later(client)
        }
    }

    // MARK: Subscriptions

    /// Subscribes or unsubscribes this device, and sometimes others with it, until each change is settled.
    private func change(_ client: Int) {
        let number = anyTopic(client)
        var devices = [client]
        for other in clients.indices
        where other != client && clients[other].project == clients[client].project
            && chance(options.companionsPerMille)
        {
            devices.append(other)
        }
        devices = devices.filter { device in
            clients[device].registration != nil && !clients[device].isGone
                && quiet[Pair(device: device, topic: number), default: .zero] < now
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
        let indices = Array(first..<history.changes.count)
        tryChange(
            subscribes ? .subscribe : .unsubscribe, number, by: client, devices: devices, indices: indices,
            doubted: nil)
        later(client)
    }

    /// `indices`: the devices' changes in the history. `doubted`: when an earlier try ended without an
    /// answer. Such a try may still take effect until its gateway's deadline.
    private func tryChange(
        _ kind: SubscriptionChange.Kind, _ topic: Int, by client: Int, devices: [Int], indices: [Int],
        doubted: MonotonicTime?
    ) {
        let again = { [self] in
            tryChange(kind, topic, by: client, devices: devices, indices: indices, doubted: doubted)
        }
        guard !isAsking, !putsOff(client, again) else { return }
        let change = SubscriptionChange(
            project: project(ofTopic: topic), kind: kind, topic: self.topic(topic),
            devices: devices.compactMap { clients[$0].registration })
        call("change", by: client, .changeSubscriptions(change)) { outcome in
            if case .changes(let outcomes)? = outcome {
                for case (let index, .refused(let refusal)) in zip(indices, outcomes) {
                    self.note(.refused(refusal), of: .change(index))
                }
            } else {
                for index in indices { self.note(outcome, of: .change(index)) }
            }
            var doubted = doubted
            var left: [Int] = []
            if case .changes(let outcomes)? = outcome {
                for (number, outcome) in outcomes.enumerated() {
                    if case .refused(.unregistered) = outcome {
                        self.isUnregistered(devices[number])
                        continue
                    }
                    // This refusal is final once no earlier try can take effect any more.
                    if case .refused(.tooManyTopics) = outcome,
                        doubted.map({ self.now > $0 + .seconds(45) }) ?? true
                    {
                        self.history.changes[indices[number]].outcome = .refused(at: self.now)
                        self.quiet[Pair(device: devices[number], topic: topic)] = self.now
                        self.count("too many topics")
                        continue
                    }
                    if case .refused = outcome {
                        left.append(number)
                        continue
                    }
                    self.history.changes[indices[number]].outcome = .ok(at: self.now)
                    let quiet = doubted.map { $0 + .seconds(45) } ?? self.now
                    self.quiet[Pair(device: devices[number], topic: topic)] = quiet
                }
            } else {
                doubted = self.now
                left = Array(devices.indices)
            }
            guard !left.isEmpty else { return }
            self.after(self.pause(client, from: 200, to: 1000), .client) {
                self.tryChange(
                    kind, topic, by: client, devices: left.map { devices[$0] },
                    indices: left.map { indices[$0] }, doubted: doubted)
            }
        }
    }

    // MARK: Unregistering

    /// Unregisters the device, and lets another device begin in its place.
    private func unregister(_ client: Int) {
        guard let registration = clients[client].registration else { return later(client) }
        clients[client].isGone = true
        clients[client].wantsToListen = false
        history.gone[client] = History.Ending(began: now)
        tryUnregister(client, registration)
        let new = clients.count
        clients.append(ClusterClient(number: new, project: clients[client].project))
        later(new)
    }

    private func tryUnregister(_ client: Int, _ registration: Registration) {
        guard !putsOff(client, { self.tryUnregister(client, registration) }) else { return }
        call("unregister", by: client, .unregister(registration, by: .backend)) { outcome in
            self.note(outcome, of: .end(client))
            switch outcome {
            case .done?, .refused(.unregistered)?: self.history.gone[client]?.ended = self.now
            default:
                self.after(self.pause(client, from: 300, to: 1200), .client) {
                    self.tryUnregister(client, registration)
                }
            }
        }
    }

    /// An answer says that a device is unregistered. Either the device's own client has asked for that, or
    /// the device was unreachable for long; its app then registers another device.
    func isUnregistered(_ device: Int) {
        guard history.gone[device] == nil else { return }
        guard let gone = unreachable(device) else {
            return violate("G1", "device \(device) is unregistered, and nobody asked")
        }
        count("unreachable devices ended")
        clients[device].isGone = true
        clients[device].wantsToListen = false
        history.gone[device] = History.Ending(began: gone, ended: now)
        let new = clients.count
        clients.append(ClusterClient(number: new, project: clients[device].project))
        later(new)
    }

    // MARK: Streams

    func listen(_ client: Int) {
        guard clients[client].listener == nil, !clients[client].isGone, clients[client].wantsToListen,
            clients[client].life != .ended, !pushKind(client).isSilent,
            let registration = clients[client].registration, let credential = clients[client].credential
        else { return }
        guard let process = anyGateway() else { return listenLater(client) }
        let listener = Listener(device: client, began: now)
        clients[client].listener = listener
        let resume = roll(4) > 0 || !isLoading ? event(client) : nil
        lastCall += 1
        let id = lastCall
        process.calls[id] = { self.hungUp(listener) }
        drawDeath(before: listener)
        after(.microseconds(100) + roll(.milliseconds(1)), .client, process: process) {
            process.calls[id] = nil
            guard listener.isOpenAtDevice || listener.isDeserted, !process.isRetiring else {
                return self.hungUp(listener)
            }
            let loop = process.anyLoop
            listener.loop = loop
            loop.listen(listener, registration, credential: credential, resume: resume)
            if listener.isDeserted { self.leave(listener, at: loop) }
        }
    }

    func listenLater(_ client: Int) {
        after(.milliseconds(300) + roll(.milliseconds(1500)), .client) { self.listen(client) }
    }

    /// The device closes its stream; its gateway learns of that soon, or up to 20 s later.
    func hangUp(_ client: Int) {
        guard let listener = clients[client].listener else { return }
        clients[client].listener = nil
        listener.isOpenAtDevice = false
        if let loop = listener.loop { leave(listener, at: loop) }
    }

    private func leave(_ listener: Listener, at loop: SimulatedLoop) {
        let delay = roll(5) == 0 ? roll(.seconds(20)) : roll(.milliseconds(3))
        after(delay, .client, process: loop.process) { loop.cancelled(listener) }
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

    /// A chunk comes to a device.
    func arrived(_ chunk: SimulatedLoop.Chunk, _ listener: Listener) {
        endIfDoomed(listener)
        guard listener.isOpenAtDevice else { return }
        observer?.arrives(chunk, at: listener)
        let device = listener.device
        clients[device].heard = now
        switch chunk {
        case .event(let body, let position):
            let message = number(ofBody: body)
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
        case .deleted:
            history.told[device] = now
            history.tellings.append(.init(device: device, at: now))
        }
    }
}
