import APNsClient
import Model
import NodeCore
import PushClient
import PushDesk
import PushMessages
import PushScheduling
import Synchronization

/// A node's way to push services: carries out what the desk decides, with one client for Apple's service and
/// one for all others. The answers go back to the loops' mailboxes.
///
/// A client begins with its first message, so a node without push services has no thread for them.
final class PushDispatch: Sendable {
    typealias Desk = PushDesk<PushContent>
    private struct Clients {
        var http: PushClient?
        var apple: APNsClient?
        var isStopped = false
    }
    private let desk = Mutex(Desk())
    private let clients = Mutex(Clients())
    private let vapidTokens = VAPIDTokens()
    private let connectionsMax: Int
    private let mailboxes: @Sendable () -> [Mailbox]
    let notices: PushNotices

    /// - Parameter mailboxes: the loops' mailboxes, in the order of the loops.
    init(connectionsMax: Int, mailboxes: @escaping @Sendable () -> [Mailbox], notices: PushNotices) {
        self.connectionsMax = connectionsMax
        self.mailboxes = mailboxes
        self.notices = notices
    }

    // MARK: Events

    /// A loop hands a message over.
    func want(_ ticket: PushTicket, to target: Desk.Target, _ content: PushContent, now: MonotonicTime) {
        decide { $0.want(ticket, to: target, content, now: now, into: &$1) }
    }

    /// Projects have other settings.
    func change(_ routes: [ProjectNumber: PushRoutes]) { decide { $0.change(routes, into: &$1) } }

    private func answered(_ number: UInt64, _ result: PushResult, on connection: APNsConnectionID? = nil) {
        decide { $0.answered(number, result, on: connection, now: Clock.now(), into: &$1) }
    }

    private func decide(_ body: (inout Desk, inout [Desk.Effect]) -> Void) {
        let effects = desk.withLock { desk in
            var effects: [Desk.Effect] = []
            body(&desk, &effects)
            return effects
        }
        for effect in effects { carryOut(effect) }
    }

    // MARK: Effects

    private func carryOut(_ effect: Desk.Effect) {
        switch effect {
        case .send(let number, let ticket, let way, let content):
            attempt(number) { try send(content, number, of: ticket.project, by: way) }
        case .fetchToken(let number, let project, let route):
            attempt(number) { try submit(route.tokenRequest(number, of: project)) }
        case .renew(let pool, let connection):
            clients.withLock(\.apple)?.renew(pool, connection: connection)
        case .end(let ticket, let end): finish(end, ticket)
        }
    }

    private func attempt(_ number: UInt64, _ send: () throws -> Void) {
        do {
            try send()
        } catch {
            answered(number, .notMade("\(error)"))
        }
    }

    private func send(
        _ content: PushContent, _ number: UInt64, of project: ProjectNumber, by way: Desk.Way
    ) throws {
        switch way {
        case .web(let route, let endpoint):
            let origin = endpoint.origin
            let token = try vapidTokens.token(of: route.vapid, origin: origin, now: Clock.now().wall)
            try submit(content.request(number, of: project, by: route, to: endpoint, token: token))
        case .fcm(let route, let token):
            try submit(content.request(number, of: project, by: route, token: token))
        case .apns(let route, let push):
            let request = content.request(number, by: route, push) { [weak self] in
                guard let self else { throw NoClient() }
                let token = desk.withLock { desk in
                    Result { try desk.authorization(for: number, now: Clock.now().wall) }
                }
                return try token.get()
            }
            guard let request, let client = appleClient else { throw NoClient() }
            client.submit([request])
        }
    }

    /// Tells operators and the loop what became of a message.
    func finish(_ end: PushInFlight.End, _ ticket: PushTicket) {
        if let alarm = end.alarm { notices.alarm(alarm, of: ticket, because: end.reason) }
        notices.tell(end.outcome, ticket, isFormer: end.isFormer)
        let boxes = mailboxes()
        if boxes.indices.contains(ticket.loop) {
            boxes[ticket.loop].post(.pushed(ticket.number, end.outcome))
        }
    }

    // MARK: Clients

    private func submit(_ request: PushHTTPRequest?) throws {
        let client = clients.withLock { clients in
            if clients.http == nil, !clients.isStopped { clients.http = makeClient() }
            return clients.http
        }
        guard let request, let client else { throw NoClient() }
        client.submit([request])
    }

    private func makeClient() -> PushClient? {
        do throws(PushClientError) {
            var settings = PushClientSettings()
            settings.connectionsMax = max(1, connectionsMax * 2 / 3)
            // Otherwise requests wait inside libcurl, where the queue's shares do not count.
            settings.transfersMax = min(settings.transfersMax, settings.connectionsMax)
            return try PushClient(settings: settings) { [weak self] answers in
                for answer in answers { self?.receive(answer) }
            }
        } catch {
            notices.error("there is no client for push services", "\(error)")
            return nil
        }
    }

    private var appleClient: APNsClient? {
        clients.withLock { clients in
            if let client = clients.apple { return client }
            guard !clients.isStopped else { return nil }
            var settings = APNsClientSettings()
            settings.connectionsMax = max(1, connectionsMax / 3)
            let client = APNsClient(
                settings: settings,
                onAnswer: { [weak self] answers in
                    for answer in answers { self?.receive(answer) }
                },
                onNews: { [notices] pool, news in notices.tell(news, of: pool) })
            clients.apple = client
            return client
        }
    }

    /// Ends the clients' threads. Messages that are not answered stay in the journal.
    func stop() {
        let clients = clients.withLock { clients in
            defer { (clients.http, clients.apple) = (nil, nil) }
            clients.isStopped = true
            return clients
        }
        clients.http?.stop()
        clients.apple?.stop()
    }

    // MARK: Answers

    private func receive(_ answer: PushHTTPAnswer) {
        switch answer.result {
        case .answered(let status, let fields, let body):
            answered(answer.number, PushDispatch.answer(status, fields, body: body))
        case .notPrepared(let error):
            noteUnfetched(answer.number, error)
            answered(answer.number, PushDispatch.withheld(error))
        case .notTried(let reason): answered(answer.number, .notTried(reason))
        case .failed(let reason, _): unanswered(answer.number, reason)
        }
    }

    private func receive(_ answer: APNsResponse) {
        switch answer.result {
        case .answered(let status, let fields, let body):
            let result = PushDispatch.answer(status, fields, body: body)
            answered(answer.number, result, on: answer.connection)
        case .notPrepared(let error): answered(answer.number, PushDispatch.withheld(error))
        case .notSent(let reason), .failed(let reason): unanswered(answer.number, reason)
        }
    }

    private static func answer(
        _ status: Int, _ fields: [(name: String, value: String)], body: [UInt8]
    ) -> PushResult {
        let retryAfter = fields.first { $0.name == "retry-after" }?.value
        return .answered(status: status, retryAfter: retryAfter, body: body)
    }

    /// What it means that `mayLeave` or the making of a request threw this.
    static func withheld(_ error: any Error) -> PushResult {
        error is TimeIsOver ? .expired : .notMade("\(error)")
    }

    private func unanswered(_ number: UInt64, _ reason: String) {
        if let place = desk.withLock({ $0.place(of: number) }) {
            notices.unreached(place.kind, at: place.host, for: place.project, because: reason)
        }
        answered(number, .unanswered)
    }

    /// A message that is not made has its own line for operators.
    private func noteUnfetched(_ number: UInt64, _ error: any Error) {
        guard let place = desk.withLock({ $0.place(of: number) }), place.isOfToken else { return }
        notices.unreached(place.kind, at: place.host, for: place.project, because: "\(error)")
    }
}

private struct NoClient: Error, CustomStringConvertible {
    let description = "there is no client for push services, or the node ends"
}
