import Model
import Partitions
import Placement
import Routing

final class Proofs: DeviceMACMaker, Sendable {
    static let shared = Proofs()
    func tokenProof(secret: UInt64, key: UInt8) -> DeviceMAC? { DeviceMAC(high: secret, low: 1) }
    func credentialProof(secret: UInt64, key: UInt8) -> DeviceMAC? { DeviceMAC(high: secret, low: 2) }
}

/// A device and the backend that acts for it: one operation at a time.
struct Client {
    let number: Int
    var registration: Registration?
    var credential: DeviceMAC?
    /// The number of the device's stream at the gateway.
    var stream: UInt64?
    var lastPosition: UInt64 = 0
    init(number: Int) { self.number = number }
}

/// The gateway's side of streams: a chunk that is written is delivered.
final class Sink: StreamSink {
    enum Chunk {
        case event([UInt8], Position)
        case deleted(Position)
    }
    var write: ((Chunk, UInt64) -> Bool)?
    var ended: ((UInt64) -> Void)?
    /// The stream cannot begin now: its device comes back later.
    var postponed: ((UInt64) -> Void)?

    func event(_ body: [UInt8], position: Position, history: Model.History) -> Chunk {
        .event(body, position)
    }
    func deletedMessages(position: Position, history: Model.History) -> Chunk { .deleted(position) }
    func write(_ chunk: Chunk, to stream: UInt64) -> Bool { write?(chunk, stream) ?? false }
    func open(_ stream: UInt64) {}
    func refuse(_ stream: UInt64, _ refusal: Refusal) {
        if case .unavailable = refusal { postponed?(stream) } else { ended?(stream) }
    }
    func endReplaced(_ stream: UInt64) { ended?(stream) }
    func endUnregistered(_ stream: UInt64) { ended?(stream) }
    func endForReconnect(_ stream: UInt64) { ended?(stream) }
}

extension Simulation {
    static let project = ProjectNumber(1)

    func topic(_ number: Int) -> TopicName { TopicName(checked: Array("topic-\(number)".utf8)) }
    func topicNumber(_ name: TopicName) -> Int {
        Int(String(decoding: name.utf8.dropFirst(6), as: UTF8.self)) ?? -1
    }

    /// Asks a partition. Calls `answered` with its answer, or `crashed` where the node crashes first.
    private func ask(
        _ partition: PartitionID, _ request: Request, after delay: TimeSpan = .zero,
        answered: @escaping (Reply, MonotonicTime) -> Void, crashed: @escaping () -> Void
    ) {
        nextRequest += 1
        waiting[nextRequest] = answered
        lost[nextRequest] = crashed
        let id = RequestID(gateway: GatewayID(0), number: nextRequest)
        schedule(
            .partition(partition, .request(id, request)),
            in: delay + random.next(upperBound: .milliseconds(2)))
    }

    private func later(_ client: Int) {
        guard operationsLeft > 0 else { return }
        schedule(.operate(client: client), in: random.next(upperBound: .milliseconds(20)))
    }

    /// Begins a random operation of a client; `later` plans the next one.
    func operate(_ client: Int) {
        guard operationsLeft > 0 else { return }
        guard let registration = clients[client].registration else { return register(client) }
        operationsLeft -= 1
        switch random.next(upperBound: UInt64(100)) {
        case ..<35: change(client, registration)
        case ..<75: send(client)
        case ..<88: clients[client].stream == nil ? listen(client) : disconnect(client)
        default: acknowledge(client, registration)
        }
    }

    private func register(_ client: Int) {
        let partition = PartitionID(UInt16(random.next(upperBound: UInt64(options.partitionCount))))
        let request = Request.register(
            project: Simulation.project, limit: .max, nonce: UInt32(client), secret: random.next())
        ask(partition, request) { reply, _ in
            if case .registered(let index, let nonce, let secret) = reply {
                self.clients[client].registration = Registration(
                    project: Simulation.project, partition: partition, index: index, nonce: nonce, key: 0)
                self.clients[client].credential = DeviceMAC(high: secret, low: 2)
            }
            self.later(client)
        } crashed: {
            self.later(client)
        }
    }

    private func change(_ client: Int, _ registration: Registration) {
        let number = Int(random.next(upperBound: UInt64(options.topicCount)))
        let subscribe = random.next(upperBound: UInt64(3)) > 0
        let index = history.changes.count
        history.changes.append(
            History.Change(device: client, topic: number, subscribe: subscribe, began: now, outcome: .unknown)
        )
        let request = Request.change(
            subscribe ? .subscribe : .unsubscribe, project: Simulation.project, topic: topic(number),
            devices: [registration], by: .backend)
        ask(registration.partition, request) { reply, at in
            switch reply {
            case .changes(let changes):
                if case .refused = changes[0] {
                    self.history.changes[index].outcome = .refused(at: at)
                } else {
                    self.history.changes[index].outcome = .ok(at: at)
                }
            // The change may have taken effect without its answer (rule: unknown-is-an-outcome).
            case .refused(.unavailable): break
            default: self.history.changes[index].outcome = .refused(at: at)
            }
            self.later(client)
        } crashed: {
            self.later(client)
        }
    }

    private func send(_ client: Int) {
        nextMessage += 1
        let message = nextMessage
        let first = client % options.topicCount
        let isShort = random.next(upperBound: UInt64(8)) == 0
        let isKeyed = random.next(upperBound: UInt64(6)) == 0
        let key = isKeyed ? "key-\(random.next(upperBound: UInt64(2)))" : ""
        let envelope = Envelope(
            id: MessageID(time: message, random: options.seed), event: body(message),
            collapseKey: Array(key.utf8),
            sent: instant.wall, ttlSeconds: isShort ? 1 : 86_400)
        let fanoutsMax = options.fanoutsMax
        let target: History.Send.Target
        let request: (RequestKey) -> Request
        let to: PartitionID
        switch random.next(upperBound: UInt64(10)) {
        case 0:
            let other = (first + 1) % options.topicCount
            let isEither = message % 2 == 0
            target = isEither ? .either(first, other) : .butNot(first, other)
            let condition = Condition(
                topics: [topic(first), topic(other)],
                root: isEither ? .or(.topic(0), .topic(1)) : .and(.topic(0), .not(.topic(1))))
            request = {
                .sendToCondition($0, project: Simulation.project, condition, envelope, fanoutsMax: fanoutsMax)
            }
            to = home(first)
        case 1, 2:
            guard let registration = clients[client].registration else { return later(client) }
            target = .device(client)
            request = { .sendToDevice($0, registration, envelope) }
            to = registration.partition
        default:
            // Only one client sends to a topic, one message after the other, so that the order of the sends
            // is known.
            guard client < options.topicCount else { return later(client) }
            target = .topic(first)
            let name = topic(first)
            request = {
                .sendToTopic($0, project: Simulation.project, name, envelope, fanoutsMax: fanoutsMax)
            }
            to = home(first)
        }
        let index = history.sends.count
        history.sends.append(
            History.Send(
                message: message, target: target, key: key, expires: isShort ? now + .seconds(1) : nil,
                waitsOnStreams: !isShort, waitsAt: [], began: now, outcome: .unknown))
        sendNumbers[to, default: 0] += 1
        let numbered = request(RequestKey(session: incarnation, number: sendNumbers[to] ?? 0))
        submit(Submission(client: client, index: index, to: to, request: numbered), after: .zero)
    }

    /// The message's number, with zeros before it up to a drawn length.
    private func body(_ message: UInt64) -> [UInt8] {
        let digits = Array("\(message)".utf8)
        guard options.bodyBytesMax > 0 else { return digits }
        let length = Int(random.next(upperBound: options.bodyBytesMax))
        return Array(repeating: UInt8(ascii: "0"), count: max(0, length - digits.count)) + digits
    }

    /// A send under way, as its gateway has it. The gateway repeats it under the same number when no answer
    /// comes.
    private struct Submission {
        var client: Int
        var index: Int
        var to: PartitionID
        var request: Request
        var triesLeft = 3
        /// An earlier try may have been accepted.
        var mayBeIn = false
    }

    private func submit(_ submission: Submission, after delay: TimeSpan) {
        var submission = submission
        submission.triesLeft -= 1
        ask(submission.to, submission.request, after: delay) { [submission] reply, at in
            var next = submission
            switch reply {
            case .accepted:
                let isLost = self.random.next(upperBound: UInt64(100)) < self.options.lostAnswerPercent
                guard isLost, submission.triesLeft > 0, !self.isHealing else {
                    self.history.sends[submission.index].outcome = .ok(at: at)
                    return self.later(submission.client)
                }
                next.mayBeIn = true
                return self.submit(next, after: .milliseconds(300))
            case .refused(.unknown): next.mayBeIn = true
            default: break
            }
            if submission.triesLeft > 0, !self.isHealing, self.random.next(upperBound: UInt64(3)) > 0 {
                return self.submit(next, after: .milliseconds(20))
            }
            self.history.sends[submission.index].outcome = next.mayBeIn ? .unknown : .refused(at: at)
            self.later(submission.client)
        } crashed: {
            self.later(submission.client)
        }
    }

    private func home(_ number: Int) -> PartitionID {
        Placement.partition(of: topic(number), in: Simulation.project, count: options.partitionCount)
    }

    private func acknowledge(_ client: Int, _ registration: Registration) {
        let position = clients[client].lastPosition
        guard position > 0, let credential = clients[client].credential else { return later(client) }
        let event = EventID(
            position: Position(position),
            history: UInt16(truncatingIfNeeded: UInt64(registration.partition.rawValue) + 7))
        ask(registration.partition, .acknowledge(registration, by: .device(credential), event)) { reply, at in
            if case .done = reply {
                self.history.acknowledgements.append(.init(device: client, position: position, at: at))
            }
            self.later(client)
        } crashed: {
            self.later(client)
        }
    }

    // MARK: Streams

    func listen(_ client: Int) {
        guard let registration = clients[client].registration, let credential = clients[client].credential
        else { return }
        let resumes = random.next(upperBound: UInt64(2)) == 0 && clients[client].lastPosition > 0
        let resume =
            resumes
            ? EventID(
                position: Position(clients[client].lastPosition),
                history: UInt16(truncatingIfNeeded: UInt64(registration.partition.rawValue) + 7)) : nil
        let (stream, command) = streams.attach(registration, by: .device(credential), resume: resume)
        clients[client].stream = stream
        wire()
        schedule(
            .partition(registration.partition, .stream(command)),
            in: random.next(upperBound: .milliseconds(1)))
        later(client)
    }

    private func disconnect(_ client: Int) {
        if let stream = clients[client].stream, let (partition, command) = streams.detach(stream) {
            schedule(.partition(partition, .stream(command)), in: .milliseconds(1))
        }
        clients[client].stream = nil
        later(client)
    }

    func receive(_ frame: StreamFrame, _ from: PartitionID) {
        wire()
        var commands: [StreamCommand] = []
        streams.receive(frame, from: from, sink: sink, refusal: refusal, commands: &commands)
        // Commands to the partition come in order, like everything on this link.
        for command in commands { schedule(.partition(from, .stream(command)), in: .microseconds(500)) }
        for client in clients {
            guard let stream = client.stream, let (partition, command) = streams.drained(stream) else {
                continue
            }
            schedule(.partition(partition, .stream(command)), in: .milliseconds(3))
        }
    }

    private func refusal(_ refusal: PartitionRefusal) -> Refusal {
        if case .unavailable(let reason) = refusal { .unavailable(reason) } else { .unregistered }
    }

    private func wire() {
        guard sink.write == nil else { return }
        sink.postponed = { stream in
            for client in self.clients.indices where self.clients[client].stream == stream {
                self.clients[client].stream = nil
                if self.isHealing { self.schedule(.listen(device: client), in: .seconds(1)) }
            }
        }
        sink.ended = { stream in
            for client in self.clients.indices where self.clients[client].stream == stream {
                self.clients[client].stream = nil
            }
        }
        sink.write = { chunk, stream in
            guard let client = self.clients.firstIndex(where: { $0.stream == stream }) else { return false }
            // Now and then a stream is full.
            if !self.isHealing, self.random.next(upperBound: UInt64(20)) == 0 { return false }
            switch chunk {
            case .event(let body, let position):
                let message = UInt64(String(decoding: body, as: UTF8.self)) ?? 0
                self.history.deliveries.append(
                    .init(device: client, message: message, position: position.rawValue, at: self.now))
                self.clients[client].lastPosition = max(self.clients[client].lastPosition, position.rawValue)
            case .deleted: self.history.told[client] = self.now
            }
            return true
        }
    }
}
