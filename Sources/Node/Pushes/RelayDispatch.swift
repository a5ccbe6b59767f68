import Model
import NodeCore
import PushClient
import PushMessages
import Synchronization

/// A node's way to the Firebase projects of its projects: gets access tokens, and relays messages with them.
///
/// `AccessTokens` decides who gets which token and when one is fetched, and `PushUnderWay` what an answer
/// means; this class carries out.
final class RelayDispatch: Sendable {
    /// A message that waits for a token or for its answer.
    struct Message: Sendable {
        var ticket: PushTicket
        var sender: RelaySender
        var body: [UInt8]
        var underWay: PushUnderWay
        /// Throws where the message must not leave any more.
        var mayLeave: @Sendable () throws -> Void
    }
    private struct State {
        var last: UInt64 = 0
        /// By the number that the machine of tokens knows, until the message's end.
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
        carryOut(effects, sender)
    }

    private func carryOut(_ effects: [AccessTokens.Effect], _ sender: RelaySender) {
        for effect in effects {
            switch effect {
            case .use(let number, let token): relay(number, token)
            case .giveUp(let number, let outcome):
                finish(number) { $0.underWay.end(outcome, revision: $1) }
            case .fetch(let number): fetch(number, sender)
            }
        }
    }

    /// Ends a message, and tells.
    private func finish(_ number: UInt64, _ end: (Message, _ revision: UInt64) -> PushUnderWay.End) {
        guard let message = state.withLock({ $0.messages.removeValue(forKey: number) }) else { return }
        dispatch.finish(end(message, revision(message)), message.ticket)
    }

    private func revision(_ message: Message) -> UInt64 { dispatch.revisions[message.ticket.project] }

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
            if case .notPrepared(let error) = result {
                dispatch.notices.unreached(
                    .fcm, at: sender.tokenURL, for: sender.project, because: "\(error)")
            }
            let answer = AccessTokenAnswer(
                dispatch.result(result, .fcm, at: sender.tokenURL, for: sender.project), now: Clock.now().wall
            )
            decide(sender) { $0.fetched(number, answer, now: $1, into: &$2) }
        }
    }

    // MARK: Messages

    private func relay(_ number: UInt64, _ token: String) {
        let known: (message: Message, end: PushUnderWay.End?)? = state.withLock { state in
            guard let message = state.messages[number] else { return nil }
            let end = state.messages[number]?.underWay.leaves(
                relayed: token, revision: revision(message), now: Clock.monotonic())
            return (message, end)
        }
        guard let (message, end) = known else { return }
        if let end { return finish(number) { _, _ in end } }
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
        dispatch.submit(request) { [weak self] result in self?.answered(number, message, result: result) }
    }

    /// The message is judged where it stands: with another token it may leave at once, on another thread.
    private func answered(_ number: UInt64, _ message: Message, result: PushHTTPAnswer.Result) {
        let result = dispatch.result(
            result, .fcm, at: message.ticket.host, for: message.ticket.project)
        let (revision, now) = (revision(message), Clock.now())
        var effects: [AccessTokens.Effect] = []
        let end = message.sender.tokens.withLock { tokens in
            state.withLock { state in
                state.messages[number]?.underWay.judge(
                    relay: result, number: number, tokens: &tokens, revision: revision, now: now,
                    into: &effects)
            }
        }
        if let end { finish(number) { _, _ in end } }
        carryOut(effects, message.sender)
    }
}
