import Model
import PushMessages
import PushScheduling

/// A simulated process's client for Apple's push service: the machines of the real one (`ConnectionPools`,
/// `APNsTokens`), with the work of its shells (`APNsDispatch` and the client's event loop).
final class SimulatedAppleClient {
    typealias Ticket = ConnectionPools.Ticket
    private struct Message {
        var request: PushRequest
        var pool: APNsPool
        /// The token with which the message left.
        var token = ""
        /// Whether Apple has found the token of this message too old already.
        var isSecond = false
    }
    /// As `SimulatedRelay.againWithin`.
    private static let againWithin: TimeSpan = .seconds(6)

    unowned let process: SimulatedProcess
    private unowned let world: ClusterSimulation
    private let tell: (PushOutcome, PushRequest) -> Void
    private var machine: ConnectionPools
    private var tokens: [String: APNsTokens] = [:]
    private var oldNews = APNsOldNews()
    private var messages: [Ticket: Message] = [:]
    private var connections: [APNsConnectionID: SimulatedApple.Connection] = [:]
    private var begun: [APNsPool: MonotonicTime] = [:]
    private var lastTicket: Ticket = 0
    private var isTurnPlanned = false
    private var wakesAt: MonotonicTime?

    private var now: MonotonicTime { process.monotonic }

    init(_ process: SimulatedProcess, tell: @escaping (PushOutcome, PushRequest) -> Void) {
        self.process = process
        world = process.world
        self.tell = tell
        machine = ConnectionPools(
            process.world.options.apns, random: SeededGenerator(seed: process.world.random.next()))
        #if DEBUG
            machine.planted = process.world.options.plantedInScheduling
        #endif
    }

    func send(_ request: PushRequest, isSecond: Bool = false) {
        guard let pool = SimulatedAppleClient.pool(of: request) else {
            return tell(.unsent("an address that no device told"), request)
        }
        lastTicket += 1
        messages[lastTicket] = Message(request: request, pool: pool, isSecond: isSecond)
        machine.submit(lastTicket, to: pool, now: now)
        turnSoon()
    }

    /// Projects with odd numbers have one team, the others another.
    private static func pool(of request: PushRequest) -> APNsPool? {
        guard let address = APNsAddress(packed: request.job.transport.address) else { return nil }
        return APNsPool(
            host: address.isSandbox ? "sandbox.example" : "apple.example",
            teamID: "TEAM00000\(request.job.project.rawValue % 2)", keyID: "KEY0000001")
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
            guard let message = messages.removeValue(forKey: ticket) else { return }
            tell(.transient(retryAfterSeconds: nil), message.request)
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
        guard var message = messages[ticket], let connection = connections[id] else {
            return machine.refused(ticket, reason: "the connection ended", now: now)
        }
        guard let text = authorization(message.pool.teamID), process.hindrance == nil else {
            messages[ticket] = nil
            tell(.unsent(process.hindrance ?? "no token"), message.request)
            return machine.notPrepared(ticket, now: now)
        }
        check(connection)
        message.token = text
        messages[ticket] = message
        connection.known.streams.insert(ticket)
        world.pushChecks.leaves(message.request, of: process, waitMax: world.options.apns.waitMax)
        world.pushServices.apple.receive(
            .init(
                ticket: ticket, message: message.request, team: message.pool.teamID,
                token: SimulatedAppleToken(text), isSecond: message.isSecond),
            on: connection)
    }

    private func authorization(_ team: String) -> String? {
        if tokens[team] == nil, let key = try? P256Key(privateBytes: [UInt8](repeating: 7, count: 32)) {
            let signer = APNsSigner(key: key, keyID: "KEY0000001", teamID: team)
            var made = APNsTokens(signer, world.options.apnsTokens)
            #if DEBUG
                made.planted = world.options.plantedInTokens
            #endif
            tokens[team] = made
        }
        return try? tokens[team]?.authorization(now: process.clock.wall)
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
        if let message = messages.removeValue(forKey: ticket) { judge(answer, of: message, on: connection) }
        turnSoon()
    }

    private func judge(
        _ answer: SimulatedPushServices.Answer, of message: Message, on connection: SimulatedApple.Connection
    ) {
        let (job, wall) = (message.request.job, process.clock.wall)
        let id = "\(job.device.rawValue) \(world.number(ofBody: job.event))"
        let verdict = APNsAnswer.verdict(
            status: answer.status, body: Array(answer.body.utf8),
            retryAfter: answer.retryAfter.map(String.init), registered: job.registered, now: wall,
            isRepeated: { oldNews.isRepeated(id) })
        let team = message.pool.teamID
        switch verdict.remedy {
        case .newConnection: machine.renew(message.pool, connection: connection.id, now: now)
        case .newToken:
            guard !message.isSecond, tokens[team]?.expired(message.token, now: wall) ?? false else { break }
            guard now.since(message.request.since) < SimulatedAppleClient.againWithin else {
                return tell(.transient(retryAfterSeconds: nil), message.request)
            }
            return send(message.request, isSecond: true)
        case .formerToken: tokens[team]?.changedTooOften(message.token, now: wall)
        case nil: break
        }
        tell(verdict.outcome, message.request)
    }
}
