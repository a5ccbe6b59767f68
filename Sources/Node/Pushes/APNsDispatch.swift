import APNsClient
import Logging
import Model
import NodeCore
import PushMessages
import PushScheduling
import Synchronization

private struct RefusedToken: Error, CustomStringConvertible {
    let description = PushUnderWay.refusedToken
}

/// A node's way to Apple's push service: one client for all loops. The answers go back to the loops'
/// mailboxes. `PushUnderWay` decides what an answer means.
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
        var underWay: PushUnderWay
        /// Throws where the message must not leave any more.
        var mayLeave: @Sendable () throws -> Void
        /// The same at each try.
        var id: String { APNsMessage.id(message: content.messageID, token: address.token) }
        /// What answers are judged by.
        var push: APNsPush {
            APNsPush(id: id, registered: registered, isAboutAddress: content.isAbout(address))
        }
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
            let end = message.underWay.end(
                .unsent("the node ends"), revision: dispatch.revisions[message.ticket.project])
            return dispatch.finish(end, message.ticket)
        }
        client.submit([request(message, number)])
    }

    private func request(_ message: Message, _ number: UInt64) -> APNsRequest {
        APNsRequest(
            number: number, pool: message.sender.pool, path: message.content.path(to: message.address),
            prepare: { [weak self] in
                try message.mayLeave()
                let token = try message.sender.tokens.authorization()
                let leaves = self?.state.withLock { $0.underWay[number]?.underWay.leaves(with: token) }
                if leaves == false { throw RefusedToken() }
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
            judge(message, result(answer.result, message.ticket), on: answer.connection)
        }
    }

    private func result(_ result: APNsResponse.Result, _ ticket: PushTicket) -> PushResult {
        switch result {
        case .answered(let status, let fields, let body):
            return .answered(status: status, retryAfter: PushDispatch.retryAfter(fields), body: body)
        case .notPrepared(let error): return PushDispatch.withheld(error)
        case .notSent(let reason), .failed(let reason):
            dispatch.notices.unreached(
                ticket.kind, at: ticket.host, for: ticket.project, because: reason)
            return .unanswered
        }
    }

    private func judge(_ message: Message, _ result: PushResult, on connection: APNsConnectionID?) {
        var message = message
        let (ticket, push, now) = (message.ticket, message.push, Clock.now())
        let step = message.sender.tokens.withLock { tokens in
            state.withLock { state in
                message.underWay.judge(
                    apple: result, of: push, tokens: &tokens, oldNews: &state.oldNews,
                    revision: dispatch.revisions[ticket.project], now: now)
            }
        }
        if step.renewsConnection {
            state.withLock { $0.client }?.renew(message.sender.pool, connection: connection)
        }
        guard let end = step.end else { return send(message) }
        dispatch.finish(end, ticket)
    }

    private func tell(_ news: APNsNews, of pool: APNsPool) {
        let host = "\(pool.host):\(pool.port)"
        switch news {
        case .connected: break
        case .unreachable(let reason): dispatch.notices.unreached(.apns, at: host, for: nil, because: reason)
        case .broke(let reason):
            dispatch.notices.note("a connection to Apple's push service broke", at: host, because: reason)
        case .goAway(let reason):
            dispatch.notices.note(
                "Apple's push service ends a connection", at: host, because: reason ?? "no reason")
        }
    }
}
