import Model
import Partitions
import Routing

// Messages that clients send, and those that devices acknowledge.

extension ClusterSimulation {
    func send(_ client: Int) {
        if chance(options.burstPerMille) { return burst(client) }
        let first = anyTopic(client)
        let target: History.Send.Target
        switch roll(10) {
        case 0:
            let begin = first - first % options.topicCount
            let other = begin + (first + 1) % options.topicCount
            target = nextMessage % 2 == 0 ? .either(first, other) : .butNot(first, other)
        case 1, 2: target = .device(client)
        default: target = .topic(first)
        }
        let isShort = roll(8) == 0
        let key = roll(6) == 0 ? "key-\(roll(2))" : ""
        trySend(client, target, key: key, isShort: isShort, triesLeft: 4) { self.later(client) }
    }

    /// Sends many messages at once, as backends do that do not wait for each other.
    private func burst(_ client: Int) {
        let topic = anyTopic(client)
        let size = 1 + roll(options.burstMax)
        count("bursts")
        for _ in 0..<size { trySend(client, .topic(topic), triesLeft: 1) {} }
        later(client)
    }

    /// A message's body: the number, and a filling. Both follow from the number alone, so that the simulation
    /// can compare what arrives.
    private func body(of message: UInt64) -> [UInt8] {
        let name = Array("\(message)".utf8)
        guard options.bodyBytesMax > 0 else { return name }
        var random = SeededGenerator(seed: options.seed &+ message)
        let size = Int(random.next(upperBound: UInt64(options.bodyBytesMax)))
        // Half of the bodies are easy to compress.
        let fill = random.next(upperBound: UInt64(2)) == 0
        let filling = (0..<size).map { _ in fill ? 46 : UInt8(64 + random.next(upperBound: UInt64(50))) }
        return name + [32] + filling
    }

    /// The number of the message whose body this is; 0 if there is none.
    func number(ofBody bytes: [UInt8]) -> UInt64 {
        let name = Array(bytes.prefix { $0 != 32 })
        guard let number = UInt64(String(decoding: name, as: UTF8.self)) else { return 0 }
        return body(of: number) == bytes ? number : 0
    }

    /// The sender of a condition is answered without some partitions, but not before they had their time to
    /// answer.
    func note(undecided message: UInt64, at partitions: [PartitionID], isOver: Bool) {
        count(isOver ? "conditions that ended undecided" : "conditions answered undecided")
        guard !isOver else { return }
        undecided[message, default: []].formUnion(partitions)
        // Partitions for which a former condition has waited may be left out immediately.
        let new = partitions.filter { !silent.contains($0) }
        silent.formUnion(partitions)
        guard !new.isEmpty, let send = history.sends.last(where: { $0.message == message }) else { return }
        // A machine's clock may be fast.
        let least = options.partition.conditionPatience.milliseconds * 9 / 10
        if now.since(send.began).milliseconds < least {
            violate("G2", "the sender of message \(message) was answered before the devices had decided")
        }
    }

    /// Sends as an SDK does: an unavailable or unanswered send goes out again, as another message.
    func trySend(
        _ client: Int, _ target: History.Send.Target, key: String = "", isShort: Bool = false,
        triesLeft: Int, done: @escaping () -> Void
    ) {
        let again = { [self] in
            trySend(client, target, key: key, isShort: isShort, triesLeft: triesLeft, done: done)
        }
        guard !putsOff(client, again) else { return }
        nextMessage += 1
        let times = timesToLive(nextMessage, isShort: isShort)
        let envelope = Envelope(
            id: MessageID(time: nextMessage, random: options.seed), event: body(of: nextMessage),
            collapseKey: Array(key.utf8), sent: wall, times: times)
        guard let to = self.address(target) else { return done() }
        let index = history.sends.count
        var sent = History.Send(
            message: nextMessage, target: target, key: key, began: now, outcome: .unknown,
            bytes: envelope.event.count, project: Int(project(of: target).rawValue))
        note(times, of: &sent)
        history.sends.append(sent)
        let send = Send(
            project: project(of: target), target: to, message: envelope, validateOnly: false)
        let number = nextMessage
        let stored = clients[client].stored
        debug("send \(number) to \(target)")
        call("send", by: client, .send(send)) { outcome in
            self.debug("send \(number): \(String(describing: outcome))")
            self.note(outcome, of: .send(number))
            switch outcome {
            case .accepted?:
                self.history.sends[index].outcome = .ok(at: self.now)
                return done()
            case .refused(.deadlineExceeded)?:
                self.count("504")
                self.mayBeInDoubt(number, since: self.history.sends[index].began)
                return done()
            case .refused(.unregistered)?:
                self.history.sends[index].outcome = .refused(at: self.now)
                // A device whose address is gone is no target either, until it shows itself.
                if case .device = target, self.mayBeUnreachable(client, since: stored) {
                    self.count("sends to gone addresses")
                } else {
                    self.isUnregistered(client)
                }
                return done()
            case .refused(let refusal)?:
                self.history.sends[index].outcome = .refused(at: self.now)
                if case .quota = refusal {
                    self.count("429")
                    return done()
                }
                self.count("503")
            default:
                // A backend that was ended may have forgotten what it was about to send.
                if self.clients[client].isReturning, self.roll(2) == 0 {
                    self.count("sends forgotten")
                    return done()
                }
            }
            guard triesLeft > 1 else { return done() }
            self.after(self.pause(client, from: 300, to: 1200), .client) {
                self.trySend(client, target, key: key, isShort: isShort, triesLeft: triesLeft - 1, done: done)
            }
        }
    }

    /// If devices have addresses, some messages end at another time there than on streams: at all services
    /// alike if devices have addresses of one kind. The times follow from the message's number alone, so that
    /// runs without addresses roll no dice for them.
    private func timesToLive(_ message: UInt64, isShort: Bool) -> TimesToLive {
        let long = longTime
        guard options.pushedPerMille > 0, !isShort, !sendsLong else { return TimesToLive(isShort ? 1 : long) }
        var random = SeededGenerator(seed: options.seed &* 31 &+ message)
        func times(stream: UInt32, web: UInt32) -> TimesToLive {
            TimesToLive(stream: stream, web: web, apns: web, fcm: web)
        }
        if options.addressKindsMax > 1, random.next(upperBound: UInt64(2)) == 0 {
            func end() -> UInt32 { [0, 1, long, long][Int(random.next(upperBound: UInt64(4)))] }
            return TimesToLive(stream: end(), web: end(), apns: end(), fcm: end())
        }
        switch random.next(upperBound: UInt64(10)) {
        case 0: return times(stream: 0, web: long)
        case 1: return times(stream: 1, web: long)
        case 2: return times(stream: long, web: 1)
        case 3: return times(stream: long, web: 0)
        case 4: return TimesToLive(0)
        default: return TimesToLive(long)
        }
    }

    /// A TTL-0 message comes to streams whenever its partition can, and is attempted at a push service within
    /// half a minute.
    private func note(_ times: TimesToLive, of sent: inout History.Send) {
        let long = longTime
        if times.stream < long, times.stream > 0 { sent.expires = now + .seconds(UInt64(times.stream)) }
        for kind in Transport.Kind.allCases where times[kind] < long {
            let seconds = UInt64(times[kind])
            sent.pushExpires[kind] = now + .seconds(seconds == 0 ? 30 : seconds)
            guard seconds > 0 else { continue }
            sent.pushEnds[kind] = WallTime(milliseconds: wall.milliseconds + Int64(seconds) * 1000)
        }
        sent.waitsOnStreams = times.stream == long
        sent.waitsAt = Set(Transport.Kind.allCases.filter { times[$0] == long })
    }

    /// A 504 must have a reason: an owner may have looked at the send, and something was broken lately.
    private func mayBeInDoubt(_ message: UInt64, since began: MonotonicTime) {
        if !(copies[message]?.values.contains { $0 > 0 } ?? false) {
            violate("504", "message \(message) is in doubt, and nobody has looked at it")
        }
        guard troubledUntil + .seconds(30) < began else { return }
        violate("504", "message \(message) is in doubt, and nothing was broken for half a minute")
    }

    private func project(of target: History.Send.Target) -> ProjectNumber {
        switch target {
        case .topic(let number), .butNot(let number, _), .either(let number, _): project(ofTopic: number)
        case .device(let device): clients[device].project
        }
    }

    private func address(_ target: History.Send.Target) -> Send.Target? {
        switch target {
        case .topic(let number): return .topic(topic(number))
        case .butNot(let wanted, let other):
            return .condition(
                Condition(topics: [topic(wanted), topic(other)], root: .and(.topic(0), .not(.topic(1)))))
        case .either(let one, let other):
            return .condition(
                Condition(topics: [topic(one), topic(other)], root: .or(.topic(0), .topic(1))))
        case .device(let device): return clients[device].registration.map { .device($0) }
        }
    }

    func acknowledge(_ client: Int) {
        let position = clients[client].lastPosition
        guard position > 0, let registration = clients[client].registration,
            let credential = clients[client].credential, let event = event(client)
        else { return later(client) }
        let operation = Operation.acknowledge(registration, by: .device(credential), event)
        call("acknowledge", by: client, operation) { outcome in
            if case .done? = outcome {
                self.history.acknowledgements.append(.init(device: client, position: position, at: self.now))
            }
            self.later(client)
        }
    }

    func event(_ client: Int) -> EventID? {
        guard clients[client].lastPosition > 0, let registration = clients[client].registration else {
            return nil
        }
        return EventID(
            position: Position(clients[client].lastPosition),
            history: UInt16(truncatingIfNeeded: UInt64(registration.partition.rawValue) + 7))
    }
}
