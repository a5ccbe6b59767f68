import Model
import NodeCore
import PushClient
import PushMessages
import Synchronization

/// A node's way to the Firebase projects of its projects: gets access tokens, and relays messages with them.
///
/// `AccessTokens` decides who gets which token and when one is fetched; this class carries out.
final class RelayDispatch: Sendable {
    /// A message that waits for a token or for its answer.
    struct Message: Sendable {
        var ticket: PushTicket
        var sender: RelaySender
        var body: [UInt8]
        /// Throws where the message must not leave any more.
        var mayLeave: @Sendable () throws -> Void
        /// When the loop handed the message over.
        var since = Clock.monotonic()
        /// Whether FCM has refused an access token with this message already.
        var isSecond = false
    }
    private struct State {
        var last: UInt64 = 0
        /// By the machine's ticket.
        var messages: [UInt64: Message] = [:]
    }

    private let state = Mutex(State())
    private let dispatch: PushDispatch

    init(_ dispatch: PushDispatch) { self.dispatch = dispatch }

    func send(_ message: Message) {
        let number = state.withLock { state in
            state.last += 1
            state.messages[state.last] = message
            return state.last
        }
        decide(message.sender) { $0.want(number, now: $1, into: &$2) }
    }

    /// Asks the sender's machine, and carries out what it says.
    private func decide(
        _ sender: RelaySender,
        _ body: (inout AccessTokens, MonotonicTime, inout [AccessTokens.Effect]) -> Void
    ) {
        let now = Clock.monotonic()
        let effects = sender.tokens.withLock { tokens in
            var effects: [AccessTokens.Effect] = []
            body(&tokens, now, &effects)
            return effects
        }
        for effect in effects {
            switch effect {
            case .use(let number, let token): relay(number, token)
            case .giveUp(let number, let outcome):
                guard let message = removeMessage(number) else { continue }
                dispatch.notices.tell(outcome, message.ticket)
                dispatch.post(outcome, message.ticket)
            case .fetch(let number): fetch(number, sender)
            }
        }
    }

    private func removeMessage(_ number: UInt64) -> Message? {
        state.withLock { $0.messages.removeValue(forKey: number) }
    }

    // MARK: Access tokens

    private func fetch(_ number: UInt64, _ sender: RelaySender) {
        let request = PushHTTPRequest(
            number: 0, share: UInt64(sender.project.rawValue), url: sender.tokenURL, caPEM: sender.authority,
            mayDial: { sender.mayDialForToken($0) },
            prepare: {
                let body = try sender.account.request(now: Clock.now().wall)
                return ([("content-type", "application/x-www-form-urlencoded")], body)
            })
        dispatch.submit(request) { [weak self] result in
            guard let self else { return }
            let answer: AccessTokenAnswer
            switch result {
            case .answered(let status, let fields, let body):
                answer = AccessTokenAnswer(
                    status: status, body: body, retryAfter: PushDispatch.retryAfter(fields),
                    now: Clock.now().wall)
            case .notTried(let reason): answer = .notTried(reason)
            case .notPrepared(let error):
                dispatch.notices.unreached(.fcm, at: sender.tokenURL, because: "\(error)")
                answer = .failed(retryAfterSeconds: nil)
            case .failed(let reason, _):
                dispatch.notices.unreached(.fcm, at: sender.tokenURL, because: reason)
                answer = .failed(retryAfterSeconds: nil)
            }
            decide(sender) { $0.fetched(number, answer, now: $1, into: &$2) }
        }
    }

    // MARK: Messages

    private func relay(_ number: UInt64, _ token: String) {
        guard let message = removeMessage(number) else { return }
        guard Clock.monotonic().since(message.since) < PushDispatch.againWithin else {
            return dispatch.post(.transient(retryAfterSeconds: nil), message.ticket)
        }
        let sender = message.sender
        let request = PushHTTPRequest(
            number: 0, share: UInt64(message.ticket.project.rawValue), url: sender.url,
            caPEM: sender.authority, mayDial: { sender.mayDial($0) },
            mayLeave: message.mayLeave,
            prepare: {
                try message.mayLeave()
                let fields = [("authorization", "Bearer \(token)"), ("content-type", "application/json")]
                return (fields, message.body)
            })
        dispatch.submit(request) { [weak self] result in self?.answered(message, with: token, result) }
    }

    private func answered(_ message: Message, with token: String, _ result: PushHTTPAnswer.Result) {
        let ticket = message.ticket
        switch result {
        case .answered(let status, let fields, let body):
            let verdict = FCMAnswer.verdict(
                status: status, body: body, retryAfter: PushDispatch.retryAfter(fields),
                now: Clock.now().wall)
            if verdict.needsAccessToken, !message.isSecond { return again(message, rejected: token) }
            if let alarm = verdict.alarm {
                dispatch.notices.alarm(alarm, of: ticket, because: "FCM: \(status)")
            }
            dispatch.notices.tell(verdict.outcome, ticket)
            dispatch.post(verdict.outcome, ticket)
        case .notPrepared(let error): dispatch.post(dispatch.withheld(ticket, because: error), ticket)
        case .notTried(let reason): dispatch.post(dispatch.untried(ticket, because: reason), ticket)
        case .failed(let reason, _): dispatch.post(dispatch.unreached(ticket, because: reason), ticket)
        }
    }

    /// FCM has refused the access token of a message: once more with another one.
    private func again(_ message: Message, rejected token: String) {
        var message = message
        message.isSecond = true
        let number = state.withLock { state in
            state.last += 1
            state.messages[state.last] = message
            return state.last
        }
        decide(message.sender) { $0.rejected(number, token: token, now: $1, into: &$2) }
    }
}
