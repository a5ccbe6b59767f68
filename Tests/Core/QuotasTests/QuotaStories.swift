import Model
import StoryTelling
import Testing
import VirtualTime

@testable import Quotas

/// The stories in `Stories` tell how gateways share one project's tokens.
@Suite("Stories of quotas") struct QuotaStories {
    static let stories = Stories()

    @Test("go as they are told", arguments: stories.names)
    func told(_ name: String) throws {
        try QuotaStories.stories.expect(name) { text in
            let told = ToldQuotas()
            return Stories.play(text) { told.perform($0) }
        }
    }

    @Test("are there: this suite is not green for want of stories")
    func areThere() { #expect(QuotaStories.stories.names.count >= 3) }
}

/// Plays the lines of a story with some gateways, each with a spender, and the owner of the project's bucket.
/// A message takes 1 ms. Changes of owners are told in `Tests/Simulation/SimulatorTests/ClusterStories`.
///
/// `quota 100 a second, 50 at once`. `gateways 2` starts gateway-1 and gateway-2. `gateway-1 sends 5` (at
/// once), `gateway-1 sends 5 every 10ms`, `gateway-1 stops`, `gateway-1 is cut` (off from the owner),
/// `gateway-1 is back`. `run 50ms`; `run 2s unseen` tells nothing.
private final class ToldQuotas {
    private struct Gateway {
        var spender: QuotaSpender
        var isCut = false
        /// Sends that wait for tokens.
        var waiting = 0
        /// Sends that were admitted and not told of yet, those of the share apart, and when the last was.
        var admitted = 0
        var shared = 0
        var admittedAt = MonotonicTime.zero
        var gap = TimeSpan.zero
    }
    private enum Happening {
        case request(QuotaRequest)
        case grant(QuotaGrant)
        case wake(Int)
        case send(Int, count: Int)
    }
    private static let began = MonotonicTime(.seconds(100))
    private static let messageTime: TimeSpan = .milliseconds(1)
    private let project = ProjectNumber(1)
    private var time = EventQueue<Happening>(began: began)
    private var teller = Teller(began: began)
    private var gateways: [Gateway] = []
    private var grantor = QuotaGrantor()

    private var now: MonotonicTime { time.now }

    func perform(_ words: [String]) -> [String] {
        switch words[0] {
        case "quota":
            var limits = QuotaLimits.standard
            limits.sends = QuotaRate(count: UInt64(words[1]) ?? 0, burst: UInt64(words[4]) ?? 0)
            grantor.open(project, limits, epoch: Epoch(1), beginning: .full, now: now)
        case "gateways":
            gateways = (1...(UInt64(words[1]) ?? 1)).map { Gateway(spender: QuotaSpender(SpenderID($0))) }
        case "run":
            run(until: time.now + (Stories.length(words[1]) ?? .zero))
            let told = teller.drain()
            return words.last == "unseen" ? [] : told
        default:
            guard let number = gateways.indices.first(where: { name($0) == words[0] }) else {
                return ["what is \(words[0])?"]
            }
            act(number, words)
        }
        return []
    }

    private func act(_ number: Int, _ words: [String]) {
        switch words[1] {
        case "sends":
            gateways[number].gap = words.count > 4 ? Stories.length(words[4]) ?? .zero : .zero
            time.push(after: .zero, .send(number, count: Int(words[2]) ?? 0))
        case "stops": gateways[number].gap = .zero
        case "is": gateways[number].isCut = words[2] == "cut"
        default: break
        }
    }

    private func run(until end: MonotonicTime) {
        while let happening = time.next(until: end) {
            switch happening {
            case .request(let request): receive(request)
            case .grant(let grant):
                let number = Int(grant.spender.rawValue) - 1
                var effects: [QuotaSpender.Effect] = []
                gateways[number].spender.receive(grant, now: now, into: &effects)
                carryOut(effects, number)
            case .wake(let number):
                var effects: [QuotaSpender.Effect] = []
                gateways[number].spender.woke(now: now, into: &effects)
                carryOut(effects, number)
            case .send(let number, let count):
                spend(number, count)
                if gateways[number].gap > .zero {
                    time.push(after: gateways[number].gap, .send(number, count: count))
                }
            }
        }
        for number in gateways.indices { tellAdmitted(number) }
    }

    // MARK: The owner

    private func receive(_ request: QuotaRequest) {
        guard !gateways[Int(request.spender.rawValue) - 1].isCut else {
            return teller.tell(time.now, "the network", "loses what \(name(request.spender)) said")
        }
        var effects: [QuotaGrantor.Effect] = []
        grantor.receive(request, now: now, into: &effects)
        for case .grant(let grant) in effects { answer(grant) }
    }

    private func answer(_ grant: QuotaGrant) {
        let spender = name(grant.spender)
        var text = "grants \(spender) \(tokens(grant.tokens)) for \(milliseconds(grant.leaseLength))"
        if grant.shareRate > 0 {
            text += ", and a share of \(grant.shareRate) a second for \(milliseconds(grant.shareLength))"
        }
        if grant.retryAfter > .zero {
            let again = "\(spender) may ask again in \(milliseconds(grant.retryAfter))"
            text = grant.tokens == 0 ? "has no token, and \(again)" : "\(text); \(again)"
        }
        tellOwner(text)
        time.push(after: ToldQuotas.messageTime, .grant(grant))
    }

    // MARK: The gateways

    private func spend(_ number: Int, _ count: Int) {
        var (waiting, unanswered) = (0, 0)
        var refused: (count: Int, refusal: QuotaRefusal)?
        for _ in 0..<count {
            var effects: [QuotaSpender.Effect] = []
            let before = gateways[number].spender.leasedTokens.first?.shareSpent ?? 0
            switch gateways[number].spender.take(1, .sends, of: project, now: now, into: &effects) {
            case .admitted:
                let after = gateways[number].spender.leasedTokens.first?.shareSpent ?? 0
                if after > before { gateways[number].shared += 1 } else { gateways[number].admitted += 1 }
                gateways[number].admittedAt = time.now
            case .refused(let refusal): refused = ((refused?.count ?? 0) + 1, refusal)
            case .unanswered: unanswered += 1
            case .wait:
                gateways[number].waiting += 1
                waiting += 1
            }
            carryOut(effects, number)
        }
        if let (count, refusal) = refused {
            tell(
                number,
                "refuses \(sends(count)): the limit is \(refusal.limit) a minute, try again in "
                    + milliseconds(refusal.retryDelay))
        }
        if unanswered > 0 { tell(number, "cannot answer \(sends(unanswered)): the owner is silent") }
        if waiting > 0 { tell(number, "lets \(sends(waiting)) wait") }
    }

    private func carryOut(_ effects: [QuotaSpender.Effect], _ number: Int) {
        for effect in effects {
            switch effect {
            case .request(let request):
                let spent = "\(request.spent + request.shareSpent) spent in all"
                if request.isRelease {
                    tell(number, "gives back what it holds, and reports \(spent)")
                } else {
                    let needed = request.needed > 0 ? " (for a send that waits)" : ""
                    let held = "\(request.held) held"
                    tell(number, "asks for \(tokens(request.demand))\(needed), and reports \(spent), \(held)")
                }
                time.push(after: ToldQuotas.messageTime, .request(request))
            case .ready:
                let waiting = gateways[number].waiting
                gateways[number].waiting = 0
                spend(number, waiting)
            case .wake(let at): time.push(after: at.since(now), .wake(number))
            }
        }
    }

    // MARK: What is told

    private func name(_ number: Int) -> String { "gateway-\(number + 1)" }
    private func name(_ spender: SpenderID) -> String { "gateway-\(spender.rawValue)" }

    private func tell(_ number: Int, _ deed: String) {
        tellAdmitted(number)
        teller.tell(time.now, name(number), deed)
    }

    private func tellAdmitted(_ number: Int) {
        let (admitted, shared) = (gateways[number].admitted, gateways[number].shared)
        (gateways[number].admitted, gateways[number].shared) = (0, 0)
        let at = gateways[number].admittedAt
        if admitted > 0 { teller.tell(at, name(number), "has admitted \(sends(admitted))") }
        if shared > 0 {
            let text = "hears nothing of the owner, and has admitted \(sends(shared)) by its share"
            teller.tell(at, name(number), text)
        }
    }

    private func tellOwner(_ deed: String) { teller.tell(time.now, "the owner", deed) }

    private func tokens(_ count: UInt64) -> String { count == 1 ? "1 token" : "\(count) tokens" }
    private func sends(_ count: Int) -> String { count == 1 ? "1 send" : "\(count) sends" }
    private func milliseconds(_ length: TimeSpan) -> String {
        "\((length + .nanoseconds(999_999)).milliseconds) ms"
    }
}
