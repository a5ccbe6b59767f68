import Model
import Partitions
import Routing

// The end of a run: faults end, everything comes to rest, and the checkers look at the guarantees.

extension ClusterSimulation {
    /// Everything heals. The cluster must serve again within `patience`, and no operation may hang (G7).
    func settle() {
        violations += bodiesMissing()
        isHealing = true
        setAllServices()
        for client in clients.indices { comeBack(client) }
        let plain = Options(seed: options.seed)
        writeMax = min(writeMax, plain.writeMax)
        latencyMax = min(latencyMax, plain.latencyMax)
        // Renewals that are under way stay slow, while other nodes' looks are fast again.
        for index in slots.indices where options.writeMin > .zero {
            hinder(index, until: now + options.writeMin)
        }
        network.healAll()
        noteClocks()
        for index in slots.indices { slots[index].clock = WallClock() }
        firstClocks.mayBelieve(0)
        for database in databases {
            database.unreachable = []
            database.isAway = false
        }
        for process in slots.compactMap(\.process) + ghosts where process.frozenUntil > now {
            process.frozenUntil = now
            thaw(process)
        }
        for index in slots.indices where slots[index].process?.isRunning != true {
            restart(index, in: .milliseconds(100) + roll(.seconds(1)))
        }
        settleCopy()
        let healed = now
        while now < healed + options.patience,
            !isServed || !underWay.isEmpty || !displaced.isEmpty || copy?.isServed == false
        {
            run(until: now + .milliseconds(200))
        }
        for world in [self, copy] {
            guard let world, !world.isServed else { continue }
            world.violate("G7", "long after the last fault \(world.unserved) are not served")
        }
        for found in displaced { violate("placement", "long after the last fault \(found)") }
        for (_, call) in underWay.sorted(by: { $0.key < $1.key }) where call.began <= healed {
            violate("G7", "a \(call.what) hangs since \(call.began.nanoseconds / 1_000_000) ms")
        }
        isLoading = false
        finishChanges()
        tellAddressesAgain()
        sendToAll()
        setLastServices()
        pushAll()
        let before = ownership
        listenAgain()
        ask()
        run(until: now + .seconds(3))
        let limit = now + options.patience
        while now < limit, outboxChecks.isWaiting { run(until: now + .milliseconds(500)) }
        standsStill(since: before)
    }

    /// Gives clients 60 s for the changes that are not answered yet; each one that is left needs an excuse.
    private func finishChanges() {
        let limit = now + .seconds(60)
        while now < limit, !unfinished.isEmpty {
            run(until: now + .milliseconds(500))
        }
        for one in unfinished { mustBeExcused(one) }
    }

    private var unfinished: [Undertaking] {
        let changes = history.changes.indices.filter {
            history.changes[$0].outcome == .unknown && history.gone[history.changes[$0].device] == nil
        }
        let ends = history.gone.filter { $0.value.ended == nil }.keys.sorted()
        return changes.map { .change($0) } + ends.map { .end($0) }
    }

    /// Each device that listens must get what clients send now, without a new stream
    /// (rule: streams-outlive-owners).
    private func sendToAll() {
        for client in clients.indices {
            clients[client].wantsToListen = true
            listen(client)
        }
        run(until: now + .seconds(8))
        let listening = clients.map(\.listener)
        // A message that ends immediately on streams may pass a device whose stream is cut off.
        sendsLong = true
        defer { sendsLong = false }
        let first = history.sends.count
        for number in topics { sendFinally(number, since: first, triesLeft: 3) }
        let limit = now + .seconds(90)
        while now < limit, !underWay.isEmpty { run(until: now + .milliseconds(200)) }
        run(until: now + .seconds(6))
        for number in topics {
            let sends = history.sends[first...].filter { $0.target == .topic(number) }
            guard let last = sends.last, !sends.contains(where: \.outcome.isOK) else { continue }
            mustBeExcused(.send(last.message))
        }
        let patience = now + options.patience
        while now < patience, !deaf(listening, history.sends[first...]).isEmpty {
            run(until: now + .milliseconds(500))
        }
        for found in deaf(listening, history.sends[first...]) { violate("G7", found) }
    }

    /// Sends a message to the topic, and another one if the first stays in doubt by a lost answer.
    private func sendFinally(_ topic: Int, since first: Int, triesLeft: Int) {
        trySend(0, .topic(topic), triesLeft: 20) { [self] in
            let sends = history.sends[first...].filter { $0.target == .topic(topic) }
            guard triesLeft > 1, sends.last?.outcome == .unknown else { return }
            sendFinally(topic, since: first, triesLeft: triesLeft - 1)
        }
    }

    /// Devices that have listened since before the sends, are surely subscribed, and lack the messages.
    private func deaf(_ listening: [Listener?], _ sends: ArraySlice<History.Send>) -> [String] {
        var found: [String] = []
        let checkers = Checkers(history)
        for send in sends {
            guard case .ok(let at) = send.outcome, case .topic(let topic) = send.target else { continue }
            for (device, listener) in listening.enumerated() {
                guard let listener, clients[device].listener === listener,
                    checkers.isSubscribed(device, topic, from: send.began, to: at),
                    history.told[device] ?? .zero < send.began,
                    !isReached(device, by: send.message)
                else { continue }
                found.append(
                    "device \(device) listens (\(listener.name)) and hears nothing of topic \(topic)")
            }
        }
        return found
    }

    /// Whether the message came on a stream, or a push service took it, which then takes it from the stream.
    private func isReached(_ device: Int, by message: UInt64) -> Bool {
        (history.deliveries + history.pushes).contains { $0.device == device && $0.message == message }
    }

    /// Every device closes its stream and opens another, so that all that waited for it comes.
    private func listenAgain() {
        for client in clients.indices { hangUp(client) }
        run(until: now + .milliseconds(500))
        for client in clients.indices { listen(client) }
        run(until: now + .seconds(8))
    }

    /// Asks for each device's subscriptions, and for each topic's number of members.
    private func ask() {
        isAsking = true
        let rest = now + .seconds(45)
        while now < rest, !underWay.isEmpty { run(until: now + .milliseconds(200)) }
        for (number, client) in clients.enumerated() {
            guard let registration = client.registration, !client.isGone else { continue }
            questionsLeft += 1
            persist("subscriptions", .subscriptions(of: registration, by: .backend)) { outcome in
                self.questionsLeft -= 1
                switch outcome {
                case .subscriptions(let list), .reachable(let list, _):
                    self.history.final[number] = Set(list.map { self.topicNumber($0.topic) })
                case .refused(.unregistered): self.isUnregistered(number)
                default: break
                }
            }
        }
        for number in topics {
            let operation = Operation.topic(project: project(ofTopic: number), topic(number))
            questionsLeft += 1
            persist("topic", operation) { outcome in
                self.questionsLeft -= 1
                guard case .topic(let members) = outcome else { return }
                self.memberCounts[number] = Int(members)
            }
        }
        // A gateway may take one question at a time; all other questions pause then.
        let limit = now + .seconds(60)
        while now < limit, questionsLeft > 0 { run(until: now + .milliseconds(200)) }
    }

    private func persist(_ what: String, _ operation: Operation, done: @escaping (Outcome) -> Void) {
        call(what, operation) { outcome in
            if let outcome {
                if case .refused(.unavailable) = outcome {} else { return done(outcome) }
            }
            self.after(.milliseconds(300), .client) { self.persist(what, operation, done: done) }
        }
    }

    // MARK: Checking

    func check() -> [Violation] {
        var rules = Checkers.Rules()
        // A message ends by the wall clocks, as far as nodes believe them.
        let believed = believedApart
        rules.mayEndLong = mayEndLong
        rules.mayFall = options.isLone && options.wrongStartsPerMille > 0
        rules.underWay =
            .seconds(options.hasFaults ? 25 : 4) + OutboxFrame.wayUncounted + believed + options.clocksApart
        rules.waitingMax = Int(options.partition.delivery.waitingMax)
        rules.waitingBytesMax = options.partition.waitingBytesMax
        rules.unexplainedMin = options.pushes.unexplainedMin
        rules.isSilent = { [unowned self] in pushKind($0).isSilent }
        rules.kinds = { [unowned self] in pushKind($0).kinds }
        rules.lastKind = { [unowned self] in lastKind($0) }
        rules.keepsMessages = { [unowned self] in pushKind($0).keepsMessages && !pushKind($0).isSilent }
        rules.isRung = { [unowned self] in pushKind($0).keepsMessages && pushKind($0).isSilent }
        rules.hasAddress = { [unowned self] device, time in
            lastKind(device).map { hasAddress(device, $0, since: time) } ?? false
        }
        rules.isUndecided = { [unowned self] message, device in
            guard let partition = clients[device].registration?.partition else { return false }
            return undecided[message]?.contains(partition) ?? false
        }
        rules.isHeld = { [unowned self] message, device in
            pushKind(device).kinds.contains { pushServices.hasDenied($0, of: device) }
                && stillWaits(message, for: device)
        }
        var found = Checkers(history, rules: rules).all()
        for (number, client) in clients.enumerated()
        where client.registration != nil && !client.isGone && history.final[number] == nil {
            found.append(Violation("G7", "device \(number)'s subscriptions cannot be read"))
        }
        for (number, members) in memberCounts.sorted(by: { $0.key < $1.key }) {
            let devices = history.final.values.count { $0.contains(number) }
            if devices != members {
                found.append(
                    Violation("G1", "topic \(number) has \(members) members, and \(devices) devices say so"))
            }
        }
        return found + imagesDiffer() + bodiesMissing() + streamsDiffer() + servicesDiffer()
            + wronglyMarked() + fanoutsLeft()
    }
}
