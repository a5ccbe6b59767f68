import Model
import PushMessages
import PushScheduling

/// A simulated process's client for Apple's push service: the machines of the real one (`ConnectionPools`,
/// `APNsTokens`, `PushUnderWay`), with the work of its shells (`APNsDispatch` and the client's event loop).
final class SimulatedAppleClient {
    typealias Ticket = ConnectionPools.Ticket
    private struct Message {
        var request: PushRequest
        var pool: APNsPool
        var underWay: PushUnderWay
    }

    unowned let process: SimulatedProcess
    private unowned let world: ClusterSimulation
    private unowned let pushes: SimulatedPushes
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

    func send(_ request: PushRequest) {
        let underWay = pushes.underWay(request)
        guard let pool = SimulatedAppleClient.pool(of: request) else {
            return pushes.finish(
                underWay.end(.unsent("an address that no device told"), revision: 0), of: request)
        }
        submit(Message(request: request, pool: pool, underWay: underWay))
    }

    private func submit(_ message: Message) {
        makeTokens(of: message.pool.teamID)
        pushes.checks.submits(message.request, now: now)
        lastTicket += 1
        messages[lastTicket] = message
        machine.submit(lastTicket, to: message.pool, now: now)
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
            if let message = messages.removeValue(forKey: ticket) { judge(.unanswered, of: message) }
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
            judge(.notMade(process.hindrance ?? "no token"), of: message)
            return machine.notPrepared(ticket, now: now)
        }
        guard message.underWay.leaves(with: text) else {
            messages[ticket] = nil
            judge(.notMade(PushUnderWay.refusedToken), of: message)
            return machine.notPrepared(ticket, now: now)
        }
        check(connection)
        messages[ticket] = message
        pushes.checks.leaves(message.request, with: text)
        connection.known.streams.insert(ticket)
        world.pushChecks.leaves(message.request, of: process, waitMax: world.options.apns.waitMax)
        world.pushServices.apple.receive(
            .init(
                ticket: ticket, message: message.request, team: message.pool.teamID,
                token: SimulatedAppleToken(text), isSecond: message.underWay.isSecond),
            on: connection)
    }

    private func makeTokens(of team: String) {
        guard tokens[team] == nil, let key = try? P256Key(privateBytes: [UInt8](repeating: 7, count: 32))
        else { return }
        let signer = APNsSigner(key: key, keyID: "KEY0000001", teamID: team)
        var made = APNsTokens(signer, world.options.apnsTokens)
        #if DEBUG
            made.planted = world.options.plantedInTokens
        #endif
        tokens[team] = made
    }

    private func authorization(_ team: String) -> String? {
        let text = try? tokens[team]?.authorization(now: process.clock.wall)
        if let text { pushes.checks.uses(text, of: team, now: process.clock.wall) }
        return text
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
            pushes.checks.apple(answer, to: message.request, of: message.pool.teamID, now: process.clock.wall)
            judge(answer.result, of: message, on: connection)
        }
        turnSoon()
    }

    private func judge(
        _ result: PushResult, of message: Message, on connection: SimulatedApple.Connection? = nil
    ) {
        var message = message
        let (job, team) = (message.request.job, message.pool.teamID)
        guard var known = tokens[team] else { return }
        pushes.checks.hears(result, of: message.request)
        let id = APNsMessage.id(
            message: "\(world.number(ofBody: job.event))", token: Array("\(job.device.rawValue)".utf8))
        let step = message.underWay.judge(
            apple: result, of: APNsPush(id: id, registered: job.registered),
            tokens: &known, oldNews: &oldNews, revision: 0, now: process.clock)
        tokens[team] = known
        if step.renewsConnection { machine.renew(message.pool, connection: connection?.id, now: now) }
        guard let end = step.end else { return submit(message) }
        pushes.finish(end, of: message.request)
    }
}
