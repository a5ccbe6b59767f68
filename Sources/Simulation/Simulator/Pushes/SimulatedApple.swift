import Model
import PushScheduling

/// Apple's push service in a simulated cluster: its connections, and what it thinks of tokens. Its clock is
/// that of the world.
final class SimulatedApple {
    /// A connection, with both of its ends.
    final class Connection {
        let id: APNsConnectionID
        let pool: APNsPool
        unowned let client: SimulatedAppleClient
        /// The key of the connection's first request.
        var key: String?
        /// Streams that the service will answer.
        var streams: Set<ConnectionPools.Ticket> = []
        var isEnding = false
        var isOpen = true
        var isProven = false
        /// What the client knows: its streams, the service's bound, whether the service ends the connection.
        var known = Known()
        struct Known {
            var streams: Set<ConnectionPools.Ticket> = []
            var streamsMax: Int?
            var isProven = false
            var isEnding = false
        }
        /// When the last frame each way comes: frames keep their order.
        fileprivate var toService = MonotonicTime.zero
        fileprivate var toClient = MonotonicTime.zero

        init(_ id: APNsConnectionID, of pool: APNsPool, client: SimulatedAppleClient) {
            self.id = id
            self.pool = pool
            self.client = client
        }
    }
    /// A request as it comes over a connection.
    struct Arrival {
        var ticket: ConnectionPools.Ticket
        var message: PushRequest
        var key: String
        var token: SimulatedAppleToken
    }
    private struct Processed: Hashable {
        var process: SessionID
        var ticket: ConnectionPools.Ticket
    }
    private struct Sender: Hashable {
        var process: SessionID
        var key: String
    }

    private unowned let world: ClusterSimulation
    private var processed: Set<Processed> = []
    /// The present token of each process and key, and when the token took the place of another.
    private var tokens: [Sender: (issued: Int64, changed: MonotonicTime?)] = [:]
    /// When the service last said, for no reason, that a process changes a key's token too often.
    private var toldOdd: [Sender: MonotonicTime] = [:]
    /// So late a request may come over one connection after a later request over another.
    private static let overtakenMax: TimeSpan = .milliseconds(100)

    init(_ world: ClusterSimulation) { self.world = world }

    private var isWell: Bool { world.isHealing }
    private func mood(of connection: Connection) -> SimulatedPushServices.Mood {
        world.pushServices.mood(of: connection.pool.host)
    }

    // MARK: Frames

    /// A frame that a client has sent comes to the service, whatever becomes of the client's process.
    private func send(_ connection: Connection, _ body: @escaping () -> Void) {
        let at = max(
            connection.toService + .nanoseconds(1),
            world.now + .milliseconds(1) + world.roll(.milliseconds(20)))
        connection.toService = at
        world.after(at.since(world.now), .network, body: body)
    }

    /// A frame of the service comes to the client.
    private func reply(
        _ connection: Connection, after delay: TimeSpan = .zero,
        _ body: @escaping (SimulatedAppleClient) -> Void
    ) {
        let soon = world.now + delay + .milliseconds(1) + world.roll(.milliseconds(20))
        let at = delay == .zero ? max(connection.toClient + .nanoseconds(1), soon) : soon
        if delay == .zero { connection.toClient = at }
        let client = connection.client
        world.after(at.since(world.now), .network, process: client.process) { body(client) }
    }

    func connect(_ connection: Connection) {
        send(connection) { [self] in
            switch mood(of: connection) {
            case .silent: return
            case .unreachable: return reply(connection) { $0.ended(connection, "no connection") }
            default: break
            }
            // The service allows one stream until it has taken a token, or has no such bound.
            let streams = world.roll(3) == 0 ? world.options.appleStreams : 1
            reply(connection) { $0.opened(connection, streams: streams) }
        }
    }

    func close(_ connection: Connection) { send(connection) { connection.isOpen = false } }

    func ping(_ connection: Connection) {
        send(connection) { [self] in
            guard connection.isOpen, mood(of: connection) != .silent else { return }
            reply(connection) { $0.heard(connection) }
        }
    }

    func cancel(_ ticket: ConnectionPools.Ticket, on connection: Connection) {
        send(connection) { connection.streams.remove(ticket) }
    }

    // MARK: Requests

    func receive(_ request: Arrival, on connection: Connection) {
        send(connection) { [self] in
            guard connection.isOpen else { return }
            // Streams above a GOAWAY's last one are not processed.
            if connection.isEnding || !isWell && world.chance(10) {
                world.count("streams refused")
                return reply(connection) { $0.refused(request.ticket, on: connection) }
            }
            connection.streams.insert(request.ticket)
            process(request, on: connection)
        }
    }

    private func process(_ request: Arrival, on connection: Connection) {
        let mood = mood(of: connection)
        if mood == .silent { return world.count("pushes unanswered") }
        let answer = answer(to: request, on: connection, mood)
        if !isWell, world.chance(25), disturb(connection, request.ticket) { return }
        let isSlow = mood == .slow || world.chance(30)
        let delay = isSlow ? world.roll(world.options.apns.answerMax * 2) : .zero
        reply(connection, after: delay) { [self] client in
            guard connection.streams.remove(request.ticket) != nil else { return }
            client.answered(request.ticket, answer, on: connection)
            if connection.isProven, !isWell, world.chance(50) {
                // Streams that are open now are answered all the same.
                world.count("bounds of streams changed")
                let streams = 1 + Int(world.roll(UInt64(world.options.appleStreams)))
                return client.allowed(streams, on: connection)
            }
            guard answer.status == 200 || answer.status == 410, !connection.isProven else { return }
            connection.isProven = true
            client.allowed(world.options.appleStreams, on: connection)
        }
    }

    /// The request is processed, and the answer is lost; or the service ends the connection in order, and
    /// answers the streams before. Returns whether the answer is lost.
    private func disturb(_ connection: Connection, _ ticket: ConnectionPools.Ticket) -> Bool {
        switch world.roll(3) {
        case 0:
            world.count("streams reset")
            connection.streams.remove(ticket)
            reply(connection) { $0.lost(ticket, on: connection) }
            return true
        case 1:
            world.count("connections broken")
            connection.isOpen = false
            reply(connection) { $0.ended(connection, "reset by peer") }
            return true
        default:
            world.count("connections ended in order")
            connection.isEnding = true
            reply(connection) { $0.goneAway(connection) }
            return false
        }
    }

    private func answer(
        to request: Arrival, on connection: Connection, _ mood: SimulatedPushServices.Mood
    ) -> SimulatedPushServices.Answer {
        let own = connection.key ?? request.key
        connection.key = own
        if own != request.key {
            world.violate("pools", "a request of \(request.key) comes over a connection of \(own)")
        }
        let process = connection.client.process.session
        if let refusal = check(request, of: process) { return refusal }
        if !isWell, world.chance(world.options.tokensRefusedPerMille / 4) {
            let reasons = ["ExpiredProviderToken", "InvalidProviderToken"]
            return .init(status: 403, body: "{\"reason\":\"\(reasons[Int(world.roll(2))])\"}")
        }
        if mood == .denying { return world.pushServices.deny(request.message) }
        if mood == .refusing { return SimulatedPushServices.refusal }
        if !isWell, world.chance(world.options.appleOddPerMille) {
            return oddAnswer(to: request, of: process)
        }
        if case .overloaded(let status, let seconds) = mood {
            return .init(status: status, retryAfter: seconds)
        }
        if !processed.insert(Processed(process: process, ticket: request.ticket)).inserted {
            world.violate("pools", "a request comes again that the service has processed")
        }
        if let wrong = world.pushServices.wrongAnswer(request.message) { return wrong }
        return world.pushServices.answer(to: request.message)
    }

    // MARK: Tokens

    /// Apple wants a token that is neither too old nor changed within a time.
    private func check(
        _ request: Arrival, of process: SessionID
    ) -> SimulatedPushServices.Answer? {
        let bounds = world.options.apnsTokens
        let age = world.wall.milliseconds / 1000 - request.token.issued
        if age > world.options.appleHourSeconds {
            // A node's own clock may be apart so far.
            let apart = Int64(world.options.clocksApart.milliseconds / 1000)
            if areClocksRight, age > world.options.appleHourSeconds + apart {
                world.violate("tokens", "a token comes that is \(age) s old")
            }
            return .init(status: 403, body: "{\"reason\":\"ExpiredProviderToken\"}")
        }
        let sender = Sender(process: process, key: request.key)
        if let told = toldOdd[sender], world.now.since(told) < SimulatedApple.oddFor {
            tokens[sender] = (request.token.issued, nil)
            return nil
        }
        guard let known = tokens[sender], known.issued != request.token.issued else {
            if tokens[sender] == nil { tokens[sender] = (request.token.issued, nil) }
            return nil
        }
        let passed = known.changed.map { world.now.since($0) } ?? .max
        if request.token.issued < known.issued, passed < SimulatedApple.overtakenMax { return nil }
        tokens[sender] = (request.token.issued, world.now)
        // All processes change from one common time to the next at once, also a process that has just begun
        // to send.
        if [known.issued, request.token.issued].allSatisfy({ $0 % bounds.period == 0 }) { return nil }
        // A token that is signed because Apple has asked for one bears a time some seconds back, and the
        // first request with a token may have waited.
        let least = TimeSpan.seconds(UInt64(bounds.changeMin))
            .reduced(by: world.options.apns.waitMax + .seconds(6))
        guard passed < least else { return nil }
        if areClocksRight {
            world.violate("tokens", "a token is changed after \(passed.milliseconds) ms")
        }
        return .init(status: 429, body: "{\"reason\":\"TooManyProviderTokenUpdates\"}")
    }

    /// For so long after an odd word on tokens the service lets tokens change.
    private static let oddFor: TimeSpan = .seconds(60)

    /// The service ends a connection by an answer, finds a token changed too often, or reports when it last
    /// saw an earlier registration of the device.
    private func oddAnswer(to request: Arrival, of process: SessionID) -> SimulatedPushServices.Answer {
        world.count("odd answers of Apple")
        switch world.roll(3) {
        case 0: return .init(status: 503, body: "{\"reason\":\"Shutdown\"}")
        case 1:
            toldOdd[Sender(process: process, key: request.key)] = world.now
            return .init(status: 429, body: "{\"reason\":\"TooManyProviderTokenUpdates\"}")
        default:
            let device = PushAddress(request.message.job.transport)?.device ?? 0
            world.history.noteOldNews(of: world.number(ofBody: request.message.job.event), to: device)
            return .init(status: 410, body: "{\"reason\":\"Unregistered\",\"timestamp\":-1000000000}")
        }
    }

    private var areClocksRight: Bool {
        !world.options.faults.contains(where: \.isOfClocks) && world.options.wrongStartsPerMille == 0
    }
}

/// The value of `authorization`, and the time in it.
struct SimulatedAppleToken {
    var text: String
    /// Seconds since 1970.
    var issued: Int64

    /// Reads the claims of a signed token.
    init(_ text: String) {
        self.text = text
        let parts = text.split(separator: ".")
        let claims = parts.count == 3 ? Base64URL.decode(parts[1].utf8) ?? [] : []
        let digits = String(decoding: claims, as: UTF8.self).split(separator: ":").last ?? ""
        issued = Int64(digits.filter(\.isNumber)) ?? 0
    }
}
