import Model
import NodeCore
import PushMessages

/// What a node promises about messages under way to push services (rule: push-services-are-spared): a message
/// goes again once at most, in time, because its token was refused, and with another token; outcomes say of a
/// service only what the service has said. Kept beside the decisions, from what goes in and comes out.
final class UnderWayChecks {
    private struct Name: Hashable {
        var loop: Int
        var number: UInt64
    }
    private struct Known {
        var submissions = 0
        var token: String?
        /// The token that the service has refused with this message.
        var refused: String?
        var result: PushResult?
        /// How often the service has answered this message, to this device, with old news.
        var oldNews: Int?
    }
    /// A message to a device, whichever loop hands it over.
    private struct Push: Hashable {
        var device: UInt32
        var message: UInt64
    }
    /// The tokens of one of Apple's teams.
    private struct Team {
        var newest: SimulatedAppleToken?
        var former: SimulatedAppleToken?
        /// The token that Apple wants in the place of the newest one.
        var wanted: SimulatedAppleToken?
    }

    private unowned let process: SimulatedProcess
    private unowned let world: ClusterSimulation
    private var messages: [Name: Known] = [:]
    private var oldNews: [Push: Int] = [:]
    private var teams: [String: Team] = [:]

    init(_ process: SimulatedProcess) {
        self.process = process
        world = process.world
    }

    private func violate(_ guarantee: String, by request: PushRequest, _ sentence: String) {
        world.violate(
            guarantee, "\(process.index), loop \(request.loop): message \(request.number) \(sentence)")
    }

    private func name(_ request: PushRequest) -> Name { Name(loop: request.loop, number: request.number) }

    /// The message goes to a client.
    func submits(_ request: PushRequest, now: MonotonicTime) {
        let known = messages[name(request)] ?? Known()
        if known.submissions > 1 {
            violate("again", by: request, "goes for the \(known.submissions + 1)th time")
        } else if known.submissions == 1, known.refused == nil {
            violate("again", by: request, "goes again, and its token was not refused")
        }
        let passed = now.since(request.since)
        if passed >= world.options.underWay.againWithin {
            violate("again", by: request, "goes after \(passed.milliseconds) ms")
        }
        messages[name(request), default: known].submissions += 1
    }

    /// The message leaves with a token.
    func leaves(_ request: PushRequest, with token: String) {
        if messages[name(request)]?.refused == token {
            violate("tokens", by: request, "goes with the token that the service has refused with it")
        }
        messages[name(request)]?.token = token
    }

    /// The client tells what became of the request.
    func hears(_ result: PushResult, of request: PushRequest) {
        guard var known = messages[name(request)] else { return }
        defer { messages[name(request)] = known }
        known.result = result
        guard case .answered(let status, _, let body) = result else { return }
        let text = String(decoding: body, as: UTF8.self)
        if status == 401 || text.contains("ExpiredProviderToken") { known.refused = known.token }
        guard status == 410, text.contains("timestamp") else { return }
        let push = Push(device: request.job.device.rawValue, message: world.number(ofBody: request.job.event))
        oldNews[push, default: 0] += 1
        known.oldNews = oldNews[push]
        if oldNews[push] == 2 { oldNews[push] = nil }
    }

    /// The loop is to hear of the message's end.
    func ends(_ outcome: PushOutcome, of request: PushRequest) {
        guard let known = messages.removeValue(forKey: name(request)) else { return }
        func expect(_ isRight: Bool, _ what: String) {
            if !isRight { violate("outcomes", by: request, "\(what), and counts as \(outcome.word)") }
        }
        switch known.result {
        case .unanswered: expect(outcome == .transient(retryAfterSeconds: nil), "has no answer")
        case .notTried, .notMade: expect(outcome.word == "unsent", "did not leave")
        case .expired: expect(outcome == .expired, "has expired")
        case .answered, nil: break
        }
        switch known.oldNews {
        case 1?: expect(outcome.word == "failed", "has old news for the first time")
        case 2?: expect(outcome.word == "refused", "has old news again")
        default: break
        }
    }

    // MARK: Tokens of Apple's teams

    /// A team's message is about to leave with this token.
    func uses(_ text: String, of team: String, now: WallTime) {
        var known = teams[team] ?? Team()
        defer { teams[team] = known }
        if let wanted = known.wanted {
            guard isOld(wanted, now) else {
                if wanted.text == text { return }
                return world.violate(
                    "tokens", "\(process.index) uses a token of \(team) that Apple finds changed too often")
            }
            known.wanted = nil
        }
        guard known.newest?.text != text else { return }
        (known.former, known.newest) = (known.newest, SimulatedAppleToken(text))
    }

    /// Apple answers a team's message.
    func apple(
        _ answer: SimulatedPushServices.Answer, to request: PushRequest, of team: String, now: WallTime
    ) {
        guard let known = messages[name(request)] else { return }
        if answer.body.contains("ExpiredProviderToken"), known.submissions == 1 { teams[team]?.wanted = nil }
        guard answer.body.contains("TooManyProviderTokenUpdates"), known.token == teams[team]?.newest?.text,
            let former = teams[team]?.former, !isOld(former, now)
        else { return }
        teams[team]?.wanted = former
    }

    private func isOld(_ token: SimulatedAppleToken, _ now: WallTime) -> Bool {
        now.milliseconds / 1000 - token.issued >= world.options.apnsTokens.ageMax
    }
}
