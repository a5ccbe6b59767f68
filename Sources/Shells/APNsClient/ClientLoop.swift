import Model
import NIOCore
import NIOPosix
import PushMessages
import PushScheduling
import TLS

/// The client on its event loop: carries out what the machine decides, and passes it the events.
final class ClientLoop {
    /// A connection from the attempt to its end.
    private final class Attempt {
        /// The channel, once there is one to the service.
        var channel: (any Channel)?
        /// The channel's handler, once TLS is done. A name with several addresses makes several channels.
        var connection: ServiceConnection?
        var failure: String?
    }

    let settings: APNsClientSettings
    private let eventLoop: any EventLoop
    private let inbox: ClientInbox
    private let onAnswer: ([APNsResponse]) -> Void
    private let onNews: (APNsPool, APNsNews) -> Void
    private var machine: ConnectionPools
    private var requests: [ConnectionPools.Ticket: APNsRequest] = [:]
    private var attempts: [APNsConnectionID: Attempt] = [:]
    private var answers: [APNsResponse] = []
    private var dirty: [ServiceConnection] = []
    private var lastTicket: ConnectionPools.Ticket = 0
    private var isScheduled = false
    private var isStopped = false
    private var wake: (task: Scheduled<Void>, at: MonotonicTime)?

    init(
        _ eventLoop: any EventLoop, _ settings: APNsClientSettings, inbox: ClientInbox,
        onAnswer: @escaping ([APNsResponse]) -> Void, onNews: @escaping (APNsPool, APNsNews) -> Void
    ) {
        self.eventLoop = eventLoop
        self.settings = settings
        self.inbox = inbox
        self.onAnswer = onAnswer
        self.onNews = onNews
        machine = ConnectionPools(settings, random: SystemRandomNumberGenerator())
    }

    private var now: MonotonicTime { MonotonicTime(nanoseconds: NIODeadline.now().uptimeNanoseconds) }

    var second: UInt64 { now.nanoseconds / 1_000_000_000 }

    private var bound: NIOLoopBound<ClientLoop> { NIOLoopBound(self, eventLoop: eventLoop) }

    // MARK: Turns

    func schedule() {
        guard !isScheduled else { return }
        isScheduled = true
        let bound = bound
        eventLoop.execute { bound.value.turn() }
    }

    private func turn() {
        isScheduled = false
        guard !isStopped else { return }
        takeMail()
        carryOut()
        startRequests()
        flush()
        carryOut()
        deliver()
        planWake()
        if machine.isReady || !dirty.isEmpty { schedule() }
    }

    private func takeMail() {
        let mail = inbox.drain()
        let now = now
        for request in mail.requests {
            lastTicket += 1
            requests[lastTicket] = request
            machine.submit(lastTicket, to: request.pool, now: now)
        }
        for renewal in mail.renewals {
            machine.renew(renewal.pool, connection: renewal.connection, now: now)
        }
    }

    private func startRequests() {
        var begun = 0
        while begun < settings.begunAtOnceMax, let (ticket, id) = machine.next(now: now) {
            begun += 1
            start(ticket, id)
        }
        carryOut()
    }

    private func start(_ ticket: ConnectionPools.Ticket, _ id: APNsConnectionID) {
        guard let request = requests[ticket], let connection = attempts[id]?.connection else {
            return machine.refused(ticket, reason: "the connection ended", now: now)
        }
        do {
            let content = try request.prepare()
            let head = SentHead(
                authority: SentHead.authority(of: request.pool), path: request.path, fields: content.fields)
            if let mistake = head.mistake(bodyBytes: content.body.count, settings) {
                throw APNsClientError(description: mistake)
            }
            guard connection.start(head, body: content.body, ticket: ticket) else {
                // Streams have numbers, and a connection runs out of them after a billion.
                machine.refused(ticket, reason: "the connection takes no further request", now: now)
                return machine.renew(request.pool, connection: id, now: now)
            }
        } catch {
            answer(ticket, .notPrepared(error))
            machine.notPrepared(ticket, now: now)
        }
    }

    private func flush() {
        var connections: [ServiceConnection] = []
        swap(&connections, &dirty)
        for connection in connections { connection.flush() }
    }

    private func deliver() {
        guard !answers.isEmpty else { return }
        var taken: [APNsResponse] = []
        swap(&taken, &answers)
        onAnswer(taken)
    }

    private func planWake() {
        guard let next = machine.nextWake else { return }
        if let wake, wake.at <= next { return }
        wake?.task.cancel()
        let bound = bound
        let task = eventLoop.scheduleTask(deadline: .uptimeNanoseconds(next.nanoseconds)) {
            bound.value.woke()
        }
        wake = (task, next)
    }

    private func woke() {
        wake = nil
        guard !isStopped else { return }
        machine.woke(now: now)
        turn()
    }

    // MARK: Effects

    private func carryOut() {
        while true {
            let effects = machine.takeEffects()
            guard !effects.isEmpty else { return }
            for effect in effects { carryOut(effect) }
        }
    }

    private func carryOut(_ effect: ConnectionPools.Effect) {
        switch effect {
        case .connect(let id, let pool): connect(id, to: pool)
        case .close(let id): close(id)
        case .cancel(let ticket, let id): cancel(ticket, id)
        case .ping(let id): attempts[id]?.connection?.ping()
        case .answer(let ticket, .notSent(let reason)): answer(ticket, .notSent(reason: reason))
        case .answer(let ticket, .failed(let reason)): answer(ticket, .failed(reason: reason))
        case .news(let pool, let news): onNews(pool, news)
        }
    }

    private func answer(
        _ ticket: ConnectionPools.Ticket, _ result: APNsResponse.Result, on id: APNsConnectionID? = nil
    ) {
        guard let request = requests.removeValue(forKey: ticket) else { return }
        answers.append(APNsResponse(number: request.number, result: result, connection: id))
        schedule()
    }

    private func close(_ id: APNsConnectionID) {
        guard let attempt = attempts.removeValue(forKey: id) else { return }
        finish(id, reason: "the client closed the connection", end(attempt))
    }

    private func end(_ attempt: Attempt) -> [(stream: ClientStream, end: StreamEnd)] {
        guard let connection = attempt.connection else {
            attempt.channel?.close(promise: nil)
            return []
        }
        return connection.close()
    }

    private func cancel(_ ticket: ConnectionPools.Ticket, _ id: APNsConnectionID) {
        let reason = "no answer within \(settings.answerMax.milliseconds) ms"
        if let (stream, end) = attempts[id]?.connection?.cancel(ticket, reason: reason) {
            closed(stream, end, on: id)
        } else {
            machine.lost(ticket, reason: reason, now: now)
        }
    }

    // MARK: Connections

    private func connect(_ id: APNsConnectionID, to pool: APNsPool) {
        attempts[id] = Attempt()
        let tls: TLSContext
        do throws(TLSError) {
            // A separate context: a changed store of authorities counts from the next connection on.
            tls = try TLSContext(authorityPEM: pool.caPEM, protocols: ["h2"])
        } catch {
            return fail(id, error.description)
        }
        let bound = bound
        // The name is resolved for each connection: Apple spreads senders over its servers by names.
        ClientBootstrap(group: eventLoop)
            .connectTimeout(.nanoseconds(Int64(clamping: settings.connectMax.nanoseconds)))
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try bound.value.prepare(channel, id, tls: tls, host: pool.host)
                }
            }
            .connect(host: pool.host, port: pool.port)
            .whenComplete { result in
                switch result {
                case .success(let channel):
                    // `close` has forgotten the attempt if it took too long.
                    guard let attempt = bound.value.attempts[id] else {
                        return channel.close(promise: nil)
                    }
                    attempt.channel = channel
                    channel.closeFuture.whenComplete { _ in
                        bound.value.fail(id, "the service closed the connection")
                    }
                case .failure(let error): bound.value.fail(id, ServiceConnection.reason(error))
                }
            }
    }

    private func prepare(
        _ channel: any Channel, _ id: APNsConnectionID, tls: TLSContext, host: String
    ) throws {
        let connection = ServiceConnection(id, self)
        let handler = TLSHandler(tls, side: .client(host: host)) { _, name in
            try connection.established(name)
        }
        guard let handler else { throw APNsClientError(description: "libssl gives no memory") }
        try channel.pipeline.syncOperations.addHandlers([handler, connection])
    }

    /// A channel of a connection in the making has failed.
    func noteFailure(_ id: APNsConnectionID, _ reason: String) {
        if let attempt = attempts[id], attempt.connection == nil { attempt.failure = reason }
    }

    /// Whether the channel is the attempt's; only the first to be done with TLS is.
    func took(_ connection: ServiceConnection) -> Bool {
        guard let attempt = attempts[connection.id], attempt.connection == nil else { return false }
        attempt.connection = connection
        return true
    }

    func opened(_ id: APNsConnectionID) {
        machine.opened(id, now: now)
        schedule()
    }

    /// A connection could not be made.
    private func fail(_ id: APNsConnectionID, _ reason: String) {
        guard let attempt = attempts.removeValue(forKey: id) else { return }
        finish(id, reason: attempt.failure ?? reason, [])
    }

    func ended(
        _ connection: ServiceConnection, reason: String, _ rest: [(stream: ClientStream, end: StreamEnd)]
    ) {
        guard attempts[connection.id]?.connection === connection else { return }
        attempts[connection.id] = nil
        finish(connection.id, reason: reason, rest)
    }

    private func finish(
        _ id: APNsConnectionID, reason: String, _ rest: [(stream: ClientStream, end: StreamEnd)]
    ) {
        var unsent: Set<ConnectionPools.Ticket> = []
        for (stream, end) in rest {
            switch end {
            case .answered: closed(stream, end, on: id)
            case .refused: unsent.insert(stream.ticket)
            case .lost: break
            }
        }
        machine.ended(id, reason: reason, unsent: unsent, now: now)
        schedule()
    }

    func heard(_ id: APNsConnectionID) {
        machine.heard(id, now: now)
        schedule()
    }

    func blocked(_ isBlocked: Bool, _ id: APNsConnectionID) {
        machine.blocked(isBlocked, id, now: now)
        schedule()
    }

    func allowed(_ streams: Int, on id: APNsConnectionID) { machine.allowed(streams, on: id, now: now) }

    func goneAway(_ id: APNsConnectionID, _ debugData: [UInt8]) {
        machine.goneAway(id, reason: APNsAnswer.reason(ofGoAway: debugData), now: now)
    }

    func closed(_ stream: ClientStream, _ end: StreamEnd, on id: APNsConnectionID) {
        switch end {
        case .answered(let status):
            answer(
                stream.ticket, .answered(status: status, fields: stream.fields, body: stream.answer), on: id)
            machine.answered(stream.ticket, status: status, now: now)
        case .refused(let reason): machine.refused(stream.ticket, reason: reason, now: now)
        case .lost(let reason): machine.lost(stream.ticket, reason: reason, now: now)
        }
        schedule()
    }

    func markDirty(_ connection: ServiceConnection) {
        dirty.append(connection)
        schedule()
    }

    // MARK: The end

    /// Answers all requests, and closes all connections.
    func stop() {
        guard !isStopped else { return }
        takeMail()
        carryOut()
        isStopped = true
        wake?.task.cancel()
        let all = attempts
        attempts = [:]
        for attempt in all.values {
            for (stream, end) in end(attempt) {
                if case .answered = end, let id = attempt.connection?.id { closed(stream, end, on: id) }
            }
        }
        let reason = "the client has stopped"
        for (ticket, isUnderWay) in machine.takeAll() {
            answer(ticket, isUnderWay ? .failed(reason: reason) : .notSent(reason: reason))
        }
        deliver()
    }
}
