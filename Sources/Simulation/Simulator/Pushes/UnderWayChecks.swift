import Model
import PushDesk
import PushMessages

/// What a node promises about messages under way to push services (rules: push-services-are-spared,
/// former-keys-say-nothing). A message goes again once at most, in time, because its token was refused, and
/// with another token of the present account. Outcomes say of a service only what the service has said, and
/// nothing of the present settings once these have changed. Kept beside the desk.
final class UnderWayChecks {
    private struct Name: Hashable {
        var loop: Int
        var number: UInt64
    }
    private struct Known {
        var submissions = 0
        /// How often the project's settings had changed when the loop handed the message over.
        var changes: Int
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
    /// The tokens of one of Apple's keys.
    private struct Key {
        var newest: SimulatedAppleToken?
        var former: SimulatedAppleToken?
        /// The token that Apple wants in the place of the newest one.
        var wanted: SimulatedAppleToken?
    }

    private unowned let process: SimulatedProcess
    private unowned let world: ClusterSimulation
    private unowned let pushes: SimulatedPushes
    private var messages: [Name: Known] = [:]
    private var oldNews: [Push: Int] = [:]
    private var keys: [String: Key] = [:]

    init(_ process: SimulatedProcess, _ pushes: SimulatedPushes) {
        self.process = process
        self.pushes = pushes
        world = process.world
    }

    private func violate(_ guarantee: String, by name: Name, _ sentence: String) {
        world.violate(guarantee, "\(process.index), loop \(name.loop): message \(name.number) \(sentence)")
    }

    private func name(_ request: PushRequest) -> Name { Name(loop: request.loop, number: request.number) }

    /// A loop hands the message over.
    func hands(_ request: PushRequest) { messages[name(request)] = Known(changes: request.changes) }

    /// The message goes to a client, by the route of this setting.
    func submits(_ request: PushRequest, by setting: UInt64, now: MonotonicTime) {
        let name = name(request)
        guard let known = messages[name] else { return }
        if known.submissions > 1 {
            violate("again", by: name, "goes for the \(known.submissions + 1)th time")
        } else if known.submissions == 1, known.refused == nil {
            violate("again", by: name, "goes again, and its token was not refused")
        }
        let passed = now.since(request.since)
        if passed >= world.options.underWay.againWithin {
            violate("again", by: name, "goes after \(passed.milliseconds) ms")
        }
        if setting != request.setting {
            violate("former", by: name, "leaves by another setting than that of the time when it came")
        }
        let kind = request.job.transport.kind
        if known.submissions > 0 || kind == .fcm, pushes.setting(of: request.job.project, kind) != setting {
            violate("former", by: name, "gets a token for a setting that counts no more")
        }
        messages[name]?.submissions += 1
    }

    /// Whether a message whose token is refused now waits for another one.
    func mayGoAgain(_ request: PushRequest) -> Bool {
        messages[name(request)]?.submissions == 1
            && request.changes == pushes.changes(of: request.job.project)
    }

    /// The message leaves with a token.
    func leaves(_ request: PushRequest, with token: String) {
        if messages[name(request)]?.refused == token {
            violate("tokens", by: name(request), "goes with the token that the service has refused with it")
        }
        messages[name(request)]?.token = token
    }

    /// The client reports what became of the request.
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
    func ends(_ end: PushInFlight.End, of ticket: PushTicket) {
        let (name, outcome) = (Name(loop: ticket.loop, number: ticket.number), end.outcome)
        guard let known = messages.removeValue(forKey: name) else { return }
        func expect(_ isRight: Bool, _ what: String) {
            if !isRight { violate("outcomes", by: name, "\(what), and counts as \(outcome.word)") }
        }
        let isFormer = known.changes != pushes.changes(of: ticket.project)
        if isFormer { world.count("pushes under former settings") }
        if end.isFormer != isFormer || isFormer && end.alarm != nil {
            violate("former", by: name, "is judged by \(isFormer ? "former" : "present") settings as if not")
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

    // MARK: Tokens of Apple's keys

    /// A message is about to leave with this token of a key.
    func uses(_ text: String, of key: String, now: WallTime) {
        var known = keys[key] ?? Key()
        defer { keys[key] = known }
        if let wanted = known.wanted {
            guard isOld(wanted, now) else {
                if wanted.text == text { return }
                return world.violate(
                    "tokens", "\(process.index) uses a token of \(key) that Apple finds changed too often")
            }
            known.wanted = nil
        }
        guard known.newest?.text != text else { return }
        (known.former, known.newest) = (known.newest, SimulatedAppleToken(text))
    }

    /// Apple answers a message that left with a token of a key.
    func apple(
        _ answer: SimulatedPushServices.Answer, to request: PushRequest, of key: String, now: WallTime
    ) {
        guard let known = messages[name(request)] else { return }
        if answer.body.contains("ExpiredProviderToken"), known.submissions == 1 { keys[key]?.wanted = nil }
        guard answer.body.contains("TooManyProviderTokenUpdates"), known.token == keys[key]?.newest?.text,
            let former = keys[key]?.former, !isOld(former, now)
        else { return }
        keys[key]?.wanted = former
    }

    private func isOld(_ token: SimulatedAppleToken, _ now: WallTime) -> Bool {
        now.milliseconds / 1000 - token.issued >= world.options.apnsTokens.ageMax
    }
}
