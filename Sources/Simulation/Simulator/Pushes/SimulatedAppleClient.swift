import Model
import PushMessages
import PushScheduling

/// A simulated process's client for Apple's push service: the machine of the real one (`ConnectionPools`),
/// with the work of its event loop.
final class SimulatedAppleClient {
    typealias Ticket = ConnectionPools.Ticket
    private struct Message {
        /// The number of the desk.
        var number: UInt64
        var request: PushRequest
        var pool: APNsPool
    }

    unowned let process: SimulatedProcess
    private unowned let world: ClusterSimulation
    private unowned let pushes: SimulatedPushes
    private var machine: ConnectionPools
    private var messages: [Ticket: Message] = [:]
    private var connections: [APNsConnectionID: SimulatedApple.Connection] = [:]
    private var begun: [APNsPool: MonotonicTime] = [:]
    private var lastTicket: Ticket = 0
    private var isTurnPlanned = false
    private var wakesAt: MonotonicTime?

    private var now: MonotonicTime { process.monotonic }

    init(_ process: SimulatedProcess, _ pushes: SimulatedPushes) {
        self.process = process
        world = process.world
        self.pushes = pushes
        machine = ConnectionPools(
            process.world.options.apns, random: SeededGenerator(seed: process.world.random.next()))
        #if DEBUG
            machine.planted = process.world.options.plantedInScheduling
        #endif
    }

    func send(_ number: UInt64, _ request: PushRequest, to pool: APNsPool) {
        lastTicket += 1
        messages[lastTicket] = Message(number: number, request: request, pool: pool)
        machine.submit(lastTicket, to: pool, now: now)
        turnSoon()
    }

    func renew(_ pool: APNsPool, _ connection: APNsConnectionID?) {
        machine.renew(pool, connection: connection, now: now)
        turnSoon()
    }

    // MARK: Turns

    private func turnSoon() {
        guard !isTurnPlanned else { return }
        isTurnPlanned = true
        world.after(.microseconds(20), .network, process: process) { [weak self] in
            self?.isTurnPlanned = false
            self?.turn()
        }
    }

    private func turn() {
        carryOut()
        while let (ticket, id) = machine.next(now: now) { begin(ticket, on: id) }
        carryOut()
        guard let next = machine.nextWake, wakesAt.map({ next < $0 }) ?? true else { return }
        wakesAt = next
        process.wake(at: next) { [weak self] in
            guard let self, wakesAt == next else { return }
            wakesAt = nil
            machine.woke(now: now)
            turn()
        }
    }

    private func carryOut() {
        while case let effects = machine.takeEffects(), !effects.isEmpty {
            for effect in effects { carryOut(effect) }
        }
    }

    private func carryOut(_ effect: ConnectionPools.Effect) {
        switch effect {
        case .connect(let id, let pool): connect(id, pool)
        case .close(let id):
            guard let connection = connections.removeValue(forKey: id) else { return }
            world.pushServices.apple.close(connection)
            machine.ended(id, reason: "the client closed the connection", now: now)
        case .cancel(let ticket, let id):
            if let connection = connections[id], connection.known.streams.remove(ticket) != nil {
                world.pushServices.apple.cancel(ticket, on: connection)
            }
            machine.lost(ticket, reason: "no answer in time", now: now)
        case .ping(let id): if let connection = connections[id] { world.pushServices.apple.ping(connection) }
        case .answer(let ticket, _):
            if let message = messages.removeValue(forKey: ticket) { tell(.unanswered, of: message) }
        case .news: break
        }
    }

    private func connect(_ id: APNsConnectionID, _ pool: APNsPool) {
        // The client begins a connection in its next turn, a moment after the machine has asked for it.
        let least = world.options.apns.connectSpacing.reduced(by: .milliseconds(1))
        if let last = begun[pool], now.since(last) < least {
            let passed = now.since(last).milliseconds
            world.violate("pools", "\(process.index) connects to \(pool.host) again after \(passed) ms")
        }
        begun[pool] = now
        world.count("connections to Apple")
        let connection = SimulatedApple.Connection(id, of: pool, client: self)
        connections[id] = connection
        world.pushServices.apple.connect(connection)
    }

    private func begin(_ ticket: Ticket, on id: APNsConnectionID) {
        guard let message = messages[ticket], let connection = connections[id] else {
            return machine.refused(ticket, reason: "the connection ended", now: now)
        }
        let text: String
        do {
            if let hindrance = process.hindrance { throw Hindrance(description: hindrance) }
            text = try pushes.authorization(for: message.number, of: message.pool.key)
        } catch {
            messages[ticket] = nil
            tell(.notMade("\(error)"), of: message)
            return machine.notPrepared(ticket, now: now)
        }
        check(connection)
        pushes.checks.leaves(message.request, with: text)
        connection.known.streams.insert(ticket)
        world.pushChecks.leaves(message.request, of: process, waitMax: world.options.apns.waitMax)
        world.pushServices.apple.receive(
            .init(
                ticket: ticket, message: message.request, key: message.pool.key,
                token: SimulatedAppleToken(text)),
            on: connection)
    }

    private struct Hindrance: Error, CustomStringConvertible {
        var description: String
    }

    /// A connection has one stream until the service has taken a token, then as many as the service allows at
    /// the moment (rule: push-services-are-spared). There is no further one when the service ends the
    /// connection.
    private func check(_ connection: SimulatedApple.Connection) {
        let known = connection.known
        let most = min(known.streamsMax ?? 1, known.isProven ? world.options.apns.streamsMax : 1)
        if known.streams.count >= most {
            let count = known.streams.count
            world.violate("pools", "\(process.index) opens a stream beside \(count), where \(most) may be")
        }
        if known.isEnding {
            world.violate("pools", "\(process.index) opens a stream that the service will not process")
        }
    }

    // MARK: What the service says

    private func isOpen(_ connection: SimulatedApple.Connection) -> Bool {
        connections[connection.id] === connection
    }

    func opened(_ connection: SimulatedApple.Connection, streams: Int) {
        guard isOpen(connection) else { return }
        machine.opened(connection.id, now: now)
        allowed(streams, on: connection)
    }

    func allowed(_ streams: Int, on connection: SimulatedApple.Connection) {
        guard isOpen(connection) else { return }
        connection.known.streamsMax = streams
        machine.allowed(streams, on: connection.id, now: now)
        turnSoon()
    }

    func heard(_ connection: SimulatedApple.Connection) {
        guard isOpen(connection) else { return }
        machine.heard(connection.id, now: now)
        turnSoon()
    }

    func ended(_ connection: SimulatedApple.Connection, _ reason: String) {
        guard isOpen(connection) else { return }
        connections[connection.id] = nil
        machine.ended(connection.id, reason: reason, now: now)
        turnSoon()
    }

    func goneAway(_ connection: SimulatedApple.Connection) {
        guard isOpen(connection) else { return }
        connection.known.isEnding = true
        machine.goneAway(connection.id, reason: world.roll(2) == 0 ? "Shutdown" : nil, now: now)
        turnSoon()
    }

    func refused(_ ticket: Ticket, on connection: SimulatedApple.Connection) {
        guard isOpen(connection), connection.known.streams.remove(ticket) != nil else { return }
        machine.refused(ticket, reason: "refused", now: now)
        turnSoon()
    }

    func lost(_ ticket: Ticket, on connection: SimulatedApple.Connection) {
        guard isOpen(connection), connection.known.streams.remove(ticket) != nil else { return }
        machine.lost(ticket, reason: "reset", now: now)
        turnSoon()
    }

    func answered(
        _ ticket: Ticket, _ answer: SimulatedPushServices.Answer, on connection: SimulatedApple.Connection
    ) {
        guard isOpen(connection), connection.known.streams.remove(ticket) != nil else { return }
        if (200..<300).contains(answer.status) || answer.status == 410 { connection.known.isProven = true }
        machine.heard(connection.id, now: now)
        machine.answered(ticket, status: answer.status, now: now)
        // The service does not want the connection any more.
        if answer.body.contains("Shutdown") { connection.known.isEnding = true }
        if let message = messages.removeValue(forKey: ticket) {
            pushes.checks.apple(answer, to: message.request, of: message.pool.key, now: process.clock.wall)
            tell(answer.result, of: message, on: connection.id)
        }
        turnSoon()
    }

    private func tell(_ result: PushResult, of message: Message, on connection: APNsConnectionID? = nil) {
        pushes.answered(message.number, result, of: message.request, on: connection)
    }
}

extension APNsPool {
    /// Apple's service binds a connection to a key, and counts the changes of a key's token.
    var key: String { "\(teamID) \(keyID)" }
}
