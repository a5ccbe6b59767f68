import Model
import PushMessages
import PushScheduling

/// A simulated process's way to FCM for one project: the machines of the real one (`AccessTokens`,
/// `PushUnderWay`), with the work of their shell (`RelayDispatch`).
final class SimulatedRelay {
    private struct Message {
        var request: PushRequest
        var underWay: PushUnderWay
    }

    private unowned let process: SimulatedProcess
    private unowned let world: ClusterSimulation
    private unowned let pushes: SimulatedPushes
    private let project: ProjectNumber
    private var tokens: AccessTokens
    private var checks: AccessTokenChecks
    private var messages: [UInt64: Message] = [:]
    private var lastTicket: UInt64 = 0

    init(_ process: SimulatedProcess, _ pushes: SimulatedPushes, of project: ProjectNumber) {
        self.process = process
        world = process.world
        self.pushes = pushes
        self.project = project
        tokens = AccessTokens(process.world.options.accessTokens)
        checks = AccessTokenChecks(process.world.options.accessTokens)
        #if DEBUG
            tokens.planted = process.world.options.plantedInTokens
        #endif
    }

    func send(_ request: PushRequest) {
        lastTicket += 1
        let ticket = lastTicket
        messages[ticket] = Message(request: request, underWay: pushes.underWay(request))
        decide { $0.want(ticket, now: $1, into: &$2) }
    }

    private func decide(_ body: (inout AccessTokens, MonotonicTime, inout [AccessTokens.Effect]) -> Void) {
        var effects: [AccessTokens.Effect] = []
        body(&tokens, process.monotonic, &effects)
        carryOut(effects)
    }

    private func carryOut(_ effects: [AccessTokens.Effect]) {
        for effect in effects {
            switch effect {
            case .use(let ticket, let token):
                violate(checks.uses(token, now: process.monotonic))
                relay(ticket, token)
            case .giveUp(let ticket, let outcome):
                if let message = messages[ticket] {
                    finish(ticket, message.underWay.end(outcome, revision: 0))
                }
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
        pushes.client.submit(
            SimulatedRequest(
                key: .init(share: UInt64(project.rawValue), origin: "tokens.example"), asked: .token(project),
                since: process.monotonic, hindrance: { nil },
                done: { [weak self] result in
                    guard let self else { return }
                    let answer = AccessTokenAnswer(result, now: process.clock.wall)
                    checks.fetched(number, answer, now: process.monotonic)
                    decide { $0.fetched(number, answer, now: $1, into: &$2) }
                }))
    }

    private func relay(_ ticket: UInt64, _ token: String) {
        guard let message = messages[ticket] else { return }
        let end = messages[ticket]?.underWay.leaves(relayed: token, revision: 0, now: process.monotonic)
        if let end { return finish(ticket, end) }
        pushes.checks.submits(message.request, now: process.monotonic)
        pushes.checks.leaves(message.request, with: token)
        pushes.client.submit(
            SimulatedRequest(
                key: .init(share: UInt64(project.rawValue), origin: "fcm.example"),
                asked: .message(message.request, token: token), since: process.monotonic,
                hindrance: { [unowned process] in process.hindrance },
                done: { [weak self] in self?.answered(ticket, with: token, $0) }))
    }

    private func answered(_ ticket: UInt64, with token: String, _ result: PushResult) {
        guard let request = messages[ticket]?.request else { return }
        pushes.checks.hears(result, of: request)
        var effects: [AccessTokens.Effect] = []
        let end = messages[ticket]?.underWay.judge(
            relay: result, number: ticket, tokens: &tokens, revision: 0, now: process.clock, into: &effects)
        if let end {
            finish(ticket, end)
        } else {
            world.count("access tokens refused")
            checks.rejected(token, now: process.monotonic)
        }
        carryOut(effects)
    }

    private func finish(_ ticket: UInt64, _ end: PushUnderWay.End) {
        if let message = messages.removeValue(forKey: ticket) { pushes.finish(end, of: message.request) }
    }
}
