import APNsClient
import Logging
import Model
import NodeCore
import PushMessages
import PushScheduling
import Synchronization

/// A node's way to Apple's push service: one client for all loops. The answers go back to the loops'
/// mailboxes.
///
/// The client begins with the first message, so a node without devices of Apple's has no thread for them.
final class APNsDispatch: Sendable {
    /// A message on its way.
    struct Message: Sendable {
        var ticket: PushTicket
        var sender: APNsSender
        var content: APNsMessage
        var address: APNsAddress
        /// When the device last told its token.
        var registered: WallTime
        /// Throws where the message must not leave any more.
        var mayLeave: @Sendable () throws -> Void
        /// The token with which the message left.
        var token = ""
        /// When the loop handed the message over.
        var since = Clock.monotonic()
        /// Whether Apple has found the token of this message too old already.
        var isSecond = false
        /// The same at each try.
        var id: String { APNsMessage.id(message: content.messageID, token: address.token) }
    }
    private struct State {
        var client: APNsClient?
        var isStopped = false
        var last: UInt64 = 0
        var underWay: [UInt64: Message] = [:]
        var oldNews = APNsOldNews()
    }
    private let state = Mutex(State())
    private let dispatch: PushDispatch
    private let connectionsMax: Int

    init(_ dispatch: PushDispatch, connectionsMax: Int) {
        self.dispatch = dispatch
        self.connectionsMax = connectionsMax
    }

    func send(_ message: Message) {
        let begun: (client: APNsClient, number: UInt64)? = state.withLock { state in
            guard !state.isStopped else { return nil }
            let client = state.client ?? makeClient()
            state.client = client
            state.last += 1
            state.underWay[state.last] = message
            return (client, state.last)
        }
        guard let (client, number) = begun else {
            return dispatch.post(.unsent("the node ends"), message.ticket)
        }
        client.submit([request(message, number)])
    }

    private func request(_ message: Message, _ number: UInt64) -> APNsRequest {
        APNsRequest(
            number: number, pool: message.sender.pool, path: message.content.path(to: message.address),
            prepare: { [weak self] in
                try message.mayLeave()
                let token = try message.sender.tokens.authorization()
                self?.state.withLock { $0.underWay[number]?.token = token }
                let content = message.content
                let fields = content.fields(to: message.address, authorization: token, id: message.id)
                return (fields, content.payload)
            })
    }

    private func makeClient() -> APNsClient {
        var settings = APNsClientSettings()
        settings.connectionsMax = connectionsMax
        return APNsClient(
            settings: settings,
            onAnswer: { [weak self] answers in self?.receive(answers) },
            onNews: { [weak self] pool, news in self?.tell(news, of: pool) })
    }

    /// Closes the connections of pools whose keys are in use no more.
    func retire(_ pools: [APNsPool]) {
        let client = state.withLock { $0.client }
        for pool in pools { client?.renew(pool) }
    }

    /// Ends the client's thread. Messages that are not answered stay in the journal.
    func stop() {
        let client = state.withLock { state in
            state.isStopped = true
            defer { state.client = nil }
            return state.client
        }
        client?.stop()
    }

    // MARK: Answers

    private func receive(_ answers: [APNsResponse]) {
        for answer in answers {
            guard let message = state.withLock({ $0.underWay.removeValue(forKey: answer.number) }) else {
                continue
            }
            let ticket = message.ticket
            switch answer.result {
            case .answered(let status, let fields, let body):
                let verdict = APNsAnswer.verdict(
                    status: status, body: body, retryAfter: PushDispatch.retryAfter(fields),
                    registered: message.registered,
                    isAboutAddress: message.content.isAbout(message.address), now: Clock.now().wall,
                    isRepeated: { state.withLock { $0.oldNews.isRepeated(message.id) } })
                answered(message, verdict, on: answer.connection)
            case .notPrepared(let error):
                dispatch.post(dispatch.withheld(ticket, because: error), ticket)
            case .notSent(let reason), .failed(let reason):
                dispatch.post(dispatch.unreached(ticket, because: reason), ticket)
            }
        }
    }

    private func answered(
        _ message: Message, _ verdict: APNsAnswer.Verdict, on connection: APNsConnectionID?
    ) {
        let ticket = message.ticket
        let reason = verdict.reason ?? "no reason"
        switch verdict.remedy {
        case .newConnection:
            state.withLock { $0.client }?.renew(message.sender.pool, connection: connection)
        case .newToken:
            if !message.isSecond, message.sender.tokens.expired(message.token) {
                guard Clock.monotonic().since(message.since) < PushDispatch.againWithin else {
                    return dispatch.post(.transient(retryAfterSeconds: nil), ticket)
                }
                var message = message
                message.isSecond = true
                return send(message)
            }
            dispatch.notices.alarm(.clock, of: ticket, because: reason)
        case .formerToken: message.sender.tokens.changedTooOften(message.token)
        case nil: break
        }
        if let alarm = verdict.alarm { dispatch.notices.alarm(alarm, of: ticket, because: reason) }
        dispatch.notices.tell(verdict.outcome, ticket)
        dispatch.post(verdict.outcome, ticket)
    }

    private func tell(_ news: APNsNews, of pool: APNsPool) {
        let host = "\(pool.host):\(pool.port)"
        switch news {
        case .connected: break
        case .unreachable(let reason): dispatch.notices.unreached(.apns, at: host, because: reason)
        case .broke(let reason):
            dispatch.notices.note("a connection to Apple's push service broke", at: host, because: reason)
        case .goAway(let reason):
            dispatch.notices.note(
                "Apple's push service ends a connection", at: host, because: reason ?? "no reason")
        }
    }
}
