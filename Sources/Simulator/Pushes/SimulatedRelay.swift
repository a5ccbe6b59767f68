import Model
import PushMessages
import PushScheduling

/// A simulated process's way to FCM for one project, in the place of `RelayDispatch`: the machine of the
/// project's access tokens (`AccessTokens`), with the work around it.
final class SimulatedRelay {
    private struct Message {
        var request: PushRequest
        /// Whether FCM has refused an access token with this message already.
        var isSecond = false
    }
    /// So long after its loop handed a message over the message may leave, or leave again. Later the sender
    /// would count the message as failed before the service answers.
    private static let againWithin: TimeSpan = .seconds(6)

    private unowned let process: SimulatedProcess
    private unowned let world: ClusterSimulation
    private let client: SimulatedHTTPClient
    private let project: ProjectNumber
    private let tell: (PushOutcome, PushRequest) -> Void
    private var tokens: AccessTokens
    private var checks: AccessTokenChecks
    private var messages: [UInt64: Message] = [:]
    private var lastTicket: UInt64 = 0

    init(
        _ process: SimulatedProcess, _ client: SimulatedHTTPClient, of project: ProjectNumber,
        tell: @escaping (PushOutcome, PushRequest) -> Void
    ) {
        self.process = process
        world = process.world
        self.client = client
        self.project = project
        self.tell = tell
        tokens = AccessTokens(process.world.options.accessTokens)
        checks = AccessTokenChecks(process.world.options.accessTokens)
        #if DEBUG
            tokens.planted = process.world.options.plantedInTokens
        #endif
    }

    func send(_ request: PushRequest) {
        let ticket = note(Message(request: request))
        decide { $0.want(ticket, now: $1, into: &$2) }
    }

    private func note(_ message: Message) -> UInt64 {
        lastTicket += 1
        messages[lastTicket] = message
        return lastTicket
    }

    private func decide(_ body: (inout AccessTokens, MonotonicTime, inout [AccessTokens.Effect]) -> Void) {
        var effects: [AccessTokens.Effect] = []
        body(&tokens, process.monotonic, &effects)
        for effect in effects {
            switch effect {
            case .use(let ticket, let token):
                violate(checks.uses(token, now: process.monotonic))
                relay(ticket, token)
            case .giveUp(let ticket, let outcome):
                if let message = messages.removeValue(forKey: ticket) { tell(outcome, message.request) }
            case .fetch(let number):
                violate(checks.fetches(number, now: process.monotonic))
                fetch(number)
            }
        }
    }

    private func violate(_ broken: Violation?) {
        guard let broken else { return }
        world.violate(
            broken.guarantee, "\(process.index), project \(project.rawValue): \(broken.description)")
    }

    private func fetch(_ number: UInt64) {
        world.count("access tokens fetched")
        client.submit(
            SimulatedRequest(
                key: .init(share: UInt64(project.rawValue), origin: "tokens.example"), asked: .token(project),
                since: process.monotonic, hindrance: { nil },
                done: { [weak self] result in
                    guard let self else { return }
                    var answer = AccessTokenAnswer.failed(retryAfterSeconds: nil)
                    if case .answered(let said) = result {
                        answer = AccessTokenAnswer(
                            status: said.status, body: Array(said.body.utf8),
                            retryAfter: said.retryAfter.map(String.init), now: process.clock.wall)
                    }
                    checks.fetched(number, answer, now: process.monotonic)
                    decide { $0.fetched(number, answer, now: $1, into: &$2) }
                }))
    }

    private func relay(_ ticket: UInt64, _ token: String) {
        guard let message = messages.removeValue(forKey: ticket) else { return }
        let request = message.request
        guard process.monotonic.since(request.since) < SimulatedRelay.againWithin else {
            return tell(.transient(retryAfterSeconds: nil), request)
        }
        client.submit(
            SimulatedRequest(
                key: .init(share: UInt64(project.rawValue), origin: "fcm.example"),
                asked: .message(request, token: token), since: process.monotonic,
                hindrance: { [unowned process] in process.hindrance },
                done: { [weak self] result in
                    switch result {
                    case .answered(let answer): self?.answered(message, with: token, answer)
                    case .failed: self?.tell(.transient(retryAfterSeconds: nil), request)
                    case .unsent(let why): self?.tell(.unsent(why), request)
                    }
                }))
    }

    private func answered(_ message: Message, with token: String, _ answer: SimulatedPushServices.Answer) {
        let verdict = FCMAnswer.verdict(
            status: answer.status, body: Array(answer.body.utf8),
            retryAfter: answer.retryAfter.map(String.init), now: process.clock.wall)
        guard verdict.needsAccessToken, !message.isSecond else {
            return tell(verdict.outcome, message.request)
        }
        world.count("access tokens refused")
        checks.rejected(token, now: process.monotonic)
        let ticket = note(Message(request: message.request, isSecond: true))
        decide { $0.rejected(ticket, token: token, now: $1, into: &$2) }
    }
}
