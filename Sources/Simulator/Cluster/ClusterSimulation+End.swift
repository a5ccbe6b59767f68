import Journal
import Model
import Partitions
import Routing

// The end of a run: nothing breaks any more, everything comes to rest, and what was promised is looked at.

extension ClusterSimulation {
    /// Everything heals; the cluster serves again within `recovery`, and nothing hangs (G7).
    func settle() {
        isHealing = true
        network.healAll()
        for database in databases {
            database.unreachable = []
            database.isAway = false
        }
        for process in slots.compactMap(\.process) + ghosts where process.frozenUntil > now {
            process.frozenUntil = now
            thaw(process)
        }
        for place in slots.indices where slots[place].process?.isRunning != true {
            restart(place, in: 100_000_000 + roll(.seconds(1)))
        }
        let healed = now
        while now < healed + ClusterSimulation.recovery, !isServed || !underWay.isEmpty {
            run(until: now + .milliseconds(200))
        }
        if !isServed { violate("G7", "long after the last fault \(unserved) are not served") }
        for (_, call) in underWay.sorted(by: { $0.key < $1.key }) where call.began <= healed {
            violate("G7", "a \(call.what) hangs since \(call.began / 1_000_000) ms")
        }
        isLoading = false
        finishChanges()
        sendToAll()
        listenAgain()
        ask()
        run(until: now + .seconds(3))
    }

    /// Changes that were not answered are tried until they are.
    private func finishChanges() {
        let limit = now + .seconds(60)
        while now < limit, history.changes.contains(where: { $0.outcome == .unknown }) {
            run(until: now + .milliseconds(500))
        }
    }

    /// Who listens gets what is sent now, without coming back (design 5.8).
    private func sendToAll() {
        for client in clients.indices {
            clients[client].wantsToListen = true
            listen(client)
        }
        run(until: now + .seconds(8))
        let listening = clients.map(\.listener)
        let first = history.sends.count
        for number in 0..<options.topicCount {
            trySend(0, .topic(number), triesLeft: 20) {}
        }
        let limit = now + .seconds(30)
        while now < limit, !underWay.isEmpty { run(until: now + .milliseconds(200)) }
        run(until: now + .seconds(6))
        let checkers = Checkers(history)
        for send in history.sends[first...] {
            guard case .ok(let at) = send.outcome, case .topic(let topic) = send.target else { continue }
            for (device, listener) in listening.enumerated() {
                guard let listener, clients[device].listener === listener,
                    checkers.isSubscribed(device, topic, from: send.began, to: at),
                    !history.deliveries.contains(where: {
                        $0.device == device && $0.message == send.message
                    })
                else { continue }
                violate(
                    "G7", "device \(device) listens (\(listener.name)) and hears nothing of topic \(topic)")
            }
        }
    }

    /// Every device comes back once more, and what waited for it comes.
    private func listenAgain() {
        for client in clients.indices { hangUp(client) }
        run(until: now + .milliseconds(500))
        for client in clients.indices { listen(client) }
        run(until: now + .seconds(8))
    }

    /// What every device is subscribed to, and how many each topic has.
    private func ask() {
        isAsking = true
        let rest = now + .seconds(45)
        while now < rest, !underWay.isEmpty { run(until: now + .milliseconds(200)) }
        for (number, client) in clients.enumerated() {
            guard let registration = client.registration else { continue }
            persist("subscriptions", .subscriptions(of: registration, by: .backend)) { outcome in
                guard case .subscriptions(let list) = outcome else { return }
                self.history.final[number] = Set(list.map { self.topicNumber($0.topic) })
            }
        }
        for number in 0..<options.topicCount {
            let operation = Operation.topic(project: ClusterSimulation.project, topic(number))
            persist("topic", operation) { outcome in
                guard case .topic(let members) = outcome else { return }
                self.memberCounts[number] = Int(members)
            }
        }
        let limit = now + .seconds(30)
        while now < limit, !underWay.isEmpty { run(until: now + .milliseconds(200)) }
    }

    private func persist(_ what: String, _ operation: Operation, _ done: @escaping (Outcome) -> Void) {
        call(what, operation) { outcome in
            if let outcome {
                if case .refused(.unavailable) = outcome {} else { return done(outcome) }
            }
            self.after(.milliseconds(300), .client) { self.persist(what, operation, done) }
        }
    }

    // MARK: Checking

    func check() -> [Violation] {
        var rules = Checkers.Rules()
        rules.ordersUnanswered = false
        rules.underWay = .seconds(25)
        var found = Checkers(history, rules: rules).all()
        for (number, client) in clients.enumerated()
        where client.registration != nil && history.final[number] == nil {
            found.append(
                Violation(guarantee: "G7", description: "device \(number)'s subscriptions cannot be read"))
        }
        for (number, members) in memberCounts.sorted(by: { $0.key < $1.key }) {
            let devices = history.final.values.count { $0.contains(number) }
            if devices != members {
                found.append(
                    Violation(
                        guarantee: "G1",
                        description: "topic \(number) has \(members) members, and \(devices) devices say so"))
            }
        }
        return found + imagesDiffer()
    }

    /// Replaying the journal, from its newest snapshot and from the beginning, gives the state that lives
    /// (I4).
    private func imagesDiffer() -> [Violation] {
        var found: [Violation] = []
        for slot in slots {
            guard let process = slot.process, process.isRunning else { continue }
            for partition in process.partitions where partition.isIdle {
                let lived = partition.image()
                let id = partition.id
                var kept: [StoredPartition] = []
                if let stored = try? StoredPartition(id, from: database(of: id).engine) {
                    kept.append(stored)
                }
                let past = database(of: id).records(of: id)
                if !past.isEmpty { kept.append(StoredPartition(id, records: past)) }
                for stored in kept where stored.folded(options)?.image() != lived {
                    found.append(
                        Violation(
                            guarantee: "I4",
                            description: "partition \(id.rawValue) is not the fold of its journal"
                                + (stored.snapshot == nil ? "" : " behind a snapshot")))
                }
            }
        }
        return found
    }

    // MARK: Damaged frames

    /// Keeps a few of the frames that are sent.
    func keepSpecimen(_ bytes: [UInt8]) {
        guard options.poisons, eventCount % 7 == 0 else { return }
        if specimens.count < 400 { specimens.append(bytes) } else { specimens[eventCount % 400] = bytes }
    }

    /// Damaged frames are handed to every node; nothing that they say may end one (G8).
    func poison() {
        isPoisoning = true
        for bytes in specimens {
            var bytes = bytes
            for _ in 0...roll(3) where !bytes.isEmpty {
                bytes[Int(roll(UInt64(bytes.count)))] = UInt8(truncatingIfNeeded: random.next())
            }
            if roll(4) == 0 { bytes.removeLast(Int(roll(UInt64(bytes.count)))) }
            let running = slots.compactMap(\.process).filter(\.isRunning)
            guard !running.isEmpty else { return }
            let to = running[Int(roll(UInt64(running.count)))]
            let from = running[Int(roll(UInt64(running.count)))]
            after(roll(.seconds(1)), .arrived, to) { to.received(bytes, from: from.life, after: self.now) }
        }
        run(until: now + .seconds(3))
        for slot in slots where slot.process?.isRunning != true {
            violate("G8", "\(slot.name) has ended by a damaged frame")
        }
    }
}

extension StoredPartition {
    /// `nil` where the records do not fit together.
    fileprivate func folded(_ options: ClusterSimulation.Options) -> Partition? {
        let partition = Partition(
            id: id, history: ClusterSimulation.history(of: id), options: options.partition,
            names: TopicNames(), proofs: Proofs.shared)
        do {
            try fold(into: partition)
            return partition
        } catch {
            return nil
        }
    }
}
