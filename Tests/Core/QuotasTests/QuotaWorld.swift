import Model
import VirtualTime

@testable import Quotas

/// Several spenders and one owner after another, with clocks of their own. Links lose, double, delay and
/// reorder messages. One seed draws everything. The world records each admission and judges nothing.
struct QuotaWorld {
    struct Options {
        var spenders = 3
        var rate = QuotaRate(count: 2_000, burst: 6_000)
        /// Messages of a thousand.
        var lost = 0
        var doubled = 0
        var delayMin = TimeSpan.zero
        var delayMax: TimeSpan = .milliseconds(1)
        /// Operations offered a second, by each spender.
        var offered: UInt64 = 4_000
        /// In how many of a thousand steps of 5 ms each of these happens.
        var spenderRestarts = 0
        var ownerCrashes = 0
        var handovers = 0
        var cuts = 0
        /// The largest number of tokens that an operation takes.
        var tokensMax: UInt64 = 1
        var accountingBug: LeaseAccounting.PlantedBug?
        var spenderBug: QuotaSpender.PlantedBug?
        /// A planted bug: a new owner ignores the former owner's grants, and begins full, or at once.
        var ownerBeginsFull = false
        var ownerBeginsAtOnce = false
    }

    struct Admission {
        var at: MonotonicTime
        var count: UInt64
    }

    struct Spender {
        var machine: QuotaSpender
        /// What the spender's clock shows at the world's zero.
        var clock: TimeSpan
        var isCut = false
        var cutEnd = MonotonicTime.zero
        var waiting: [UInt64] = []
    }

    enum Event {
        case offer(Int)
        case request(QuotaRequest)
        case grant(Int, QuotaGrant)
        case wake(Int, SpenderID)
        /// With what the former owner left in order; `nil` after a crash.
        case ownerBegins(left: [UInt64]?)
        case disaster
    }

    let options: Options
    var random: SeededGenerator
    var now: MonotonicTime { queue.now }
    var spenders: [Spender] = []
    var grantor: QuotaGrantor?
    var grantorClock = TimeSpan.zero
    /// When the owner began, on its own clock.
    var ownerBegan = MonotonicTime.zero
    /// What the former owner left, until this owner has opened the project.
    var left: [UInt64]?
    var epoch: UInt64 = 1
    var nextID: UInt64 = 1
    var queue = EventQueue<Event>(began: .zero)

    var history: [Admission] = []
    var refused = 0
    var fallbackAdmitted: UInt64 = 0
    let project = ProjectNumber(1)

    init(_ options: Options, seed: UInt64) {
        self.options = options
        random = SeededGenerator(seed: seed)
        for number in 0..<options.spenders {
            spenders.append(newSpender())
            schedule(TimeSpan.random(in: .zero ... .milliseconds(1), using: &random), .offer(number))
        }
        beginOwner(left: nil)
        schedule(.milliseconds(5), .disaster)
    }

    mutating func newSpender() -> Spender {
        var machine = QuotaSpender(SpenderID(nextID))
        machine.plantedBug = options.spenderBug
        nextID += 1
        return Spender(machine: machine, clock: TimeSpan.random(in: .zero ... .seconds(1000), using: &random))
    }

    mutating func beginOwner(left: [UInt64]?) {
        grantorClock = TimeSpan.random(in: .seconds(2) ... .seconds(1000), using: &random)
        (grantor, ownerBegan, self.left) = (QuotaGrantor(), now + grantorClock, left)
    }

    /// As a loop does that serves the project's home partition. False while the owner must not answer.
    mutating func openProject() -> Bool {
        let beginning = QuotaGrantor.beginning(
            isFirst: epoch == 1 || options.ownerBeginsFull, left: left,
            since: options.ownerBeginsAtOnce ? .zero : ownerBegan, now: now + grantorClock)
        guard let beginning else { return false }
        left = nil
        var limits = QuotaLimits.standard
        limits.sends = options.rate
        grantor?.open(
            project, limits, epoch: Epoch(epoch), beginning: beginning, now: queue.now + grantorClock)
        grantor?.projects[project]?.accountings[0].plantedBug = options.accountingBug
        return true
    }

    mutating func receive(_ request: QuotaRequest) {
        var effects: [QuotaGrantor.Effect] = []
        grantor?.receive(request, now: queue.now + grantorClock, into: &effects)
        for effect in effects {
            switch effect {
            case .grant(let grant):
                guard let number = spenders.firstIndex(where: { $0.machine.id == grant.spender }) else {
                    continue
                }
                transmit(.grant(number, grant), with: number)
            case .unknown(let request): if openProject() { receive(request) }
            }
        }
    }

    mutating func schedule(_ delay: TimeSpan, _ event: Event) { queue.push(after: delay, event) }

    mutating func transmit(_ event: Event, with spender: Int?) {
        if let spender, spenders[spender].isCut { return }
        if Int.random(in: 0..<1_000, using: &random) < options.lost { return }
        let copies = Int.random(in: 0..<1_000, using: &random) < options.doubled ? 2 : 1
        for _ in 0..<copies {
            schedule(TimeSpan.random(in: options.delayMin...options.delayMax, using: &random), event)
        }
    }

    mutating func run(for length: TimeSpan) {
        let end = now + length
        while let event = queue.next(until: end) { handle(event) }
    }

    mutating func handle(_ event: Event) {
        switch event {
        case .offer(let number):
            let tokens = UInt64.random(in: 1...options.tokensMax, using: &random)
            offer(tokens, number)
            let mean = TimeSpan.seconds(1) * options.tokensMax / options.offered
            schedule(TimeSpan.random(in: .zero...2 * mean, using: &random), .offer(number))
        case .request(let request): receive(request)
        case .grant(let number, let grant):
            if spenders[number].isCut { return }
            var effects: [QuotaSpender.Effect] = []
            spenders[number].machine.receive(grant, now: local(number), into: &effects)
            carryOut(effects, number)
        case .wake(let number, let id):
            guard spenders[number].machine.id == id else { return }
            var effects: [QuotaSpender.Effect] = []
            spenders[number].machine.woke(now: local(number), into: &effects)
            carryOut(effects, number)
        case .ownerBegins(let left): beginOwner(left: left)
        case .disaster: disaster()
        }
    }

    func local(_ number: Int) -> MonotonicTime { now + spenders[number].clock }

    mutating func offer(_ tokens: UInt64, _ number: Int) {
        var effects: [QuotaSpender.Effect] = []
        let shareBefore = spenders[number].machine.leasedTokens.first?.shareSpent ?? 0
        let answer = spenders[number].machine.take(
            tokens, .sends, of: project, now: local(number), into: &effects)
        switch answer {
        case .admitted(let count):
            history.append(Admission(at: now, count: count))
            fallbackAdmitted += (spenders[number].machine.leasedTokens.first?.shareSpent ?? 0) - shareBefore
        case .refused, .unanswered: refused += 1
        case .wait: if spenders[number].waiting.count < 256 { spenders[number].waiting.append(tokens) }
        }
        carryOut(effects, number)
    }

    mutating func carryOut(_ effects: [QuotaSpender.Effect], _ number: Int) {
        for effect in effects {
            switch effect {
            case .request(let request): transmit(.request(request), with: number)
            case .ready:
                let waiting = spenders[number].waiting
                spenders[number].waiting = []
                for tokens in waiting { offer(tokens, number) }
            case .wake(let time):
                schedule(
                    time.since(local(number)),
                    .wake(number, spenders[number].machine.id))
            }
        }
    }

    mutating func disaster() {
        schedule(.milliseconds(5), .disaster)
        func happens(_ perThousand: Int) -> Bool { Int.random(in: 0..<1_000, using: &random) < perThousand }
        let number = Int.random(in: 0..<options.spenders, using: &random)
        if happens(options.spenderRestarts) { spenders[number] = newSpender() }
        for index in spenders.indices where spenders[index].isCut && spenders[index].cutEnd <= now {
            spenders[index].isCut = false
        }
        if happens(options.cuts) {
            spenders[number].isCut = true
            spenders[number].cutEnd = now + TimeSpan.random(in: .zero ... .seconds(3), using: &random)
        }
        guard grantor != nil else { return }
        if happens(options.ownerCrashes) {
            changeOwner(within: .seconds(2), left: nil)
        } else if happens(options.handovers) {
            let remainder = grantor?.remainders(now: queue.now + grantorClock)[project]
            changeOwner(within: .milliseconds(200), left: remainder ?? left)
        }
    }

    mutating func changeOwner(within length: TimeSpan, left: [UInt64]?) {
        grantor = nil
        epoch += 1
        schedule(TimeSpan.random(in: .zero...length, using: &random), .ownerBegins(left: left))
    }
}

/// Judges a history of admissions by the promise alone: over any window, admitted ≤ burst + rate × window.
struct QuotaChecker {
    let rate: QuotaRate

    /// The largest excess over any window, in tokens rounded up; 0 where the promise was kept.
    func excess(_ history: [QuotaWorld.Admission]) -> UInt64 {
        let scale = Int128(rate.seconds) * 1_000_000_000
        // A window from admission i to admission j holds sum(i...j); the promise is
        // sum × scale − count × (tj − ti) ≤ burst × scale. With p(j) = sum(...j) × scale − count × tj, that
        // is p(j) − (p(i) − own part of i) ≤ burst × scale.
        var least = Int128.max
        var sum: Int128 = 0
        var worst: Int128 = 0
        for admission in history {
            let slope = Int128(rate.count) * Int128(admission.at.nanoseconds)
            least = min(least, sum * scale - slope)
            sum += Int128(admission.count)
            worst = max(worst, sum * scale - slope - least)
        }
        let over = worst - Int128(rate.burst) * scale
        return over > 0 ? UInt64((over + scale - 1) / scale) : 0
    }

    func total(_ history: [QuotaWorld.Admission]) -> UInt64 { history.reduce(0) { $0 + $1.count } }
}
