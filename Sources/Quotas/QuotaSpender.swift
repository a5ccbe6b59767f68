import Model

/// Spends leased tokens: one for each loop that admits operations.
///
/// Nearly every operation is admitted here by one comparison. When half of a lease is spent, more is asked
/// for, sized to the demand since the last request, so that the answer comes before the rest has gone. An
/// operation for which nothing is at hand waits for that answer; it is refused only when the owner said that
/// there is nothing (or not enough), or said nothing for too long.
///
/// When the owner is silent for a moment, the loop lives on its fallback share; what the share cannot carry
/// waits on. When it is silent for so long that it must be taken for gone, nothing waits any more: what the
/// share cannot carry is unanswered, which is not a refusal, since nobody said that the quota is used up.
public struct QuotaSpender: Sendable {
    public enum Answer: Hashable, Sendable {
        /// So many of the tokens were taken: all, or, when there is no more to be had, as many as there were.
        case admitted(UInt64)
        /// Nothing was taken: the bucket is empty.
        case refused(QuotaRefusal)
        /// Nothing was taken: the owner of the bucket is silent, and the share is used up.
        case unanswered
        /// Nothing was taken yet. Ask again when `.ready` names the project and kind, at the latest at the
        /// given time: from then on the answer is another one, unless a new wait began.
        case wait(until: MonotonicTime)
    }

    public enum Effect: Hashable, Sendable {
        /// To the owner of the project's home partition.
        case request(QuotaRequest)
        /// Operations of this project and kind that were told to wait should ask again, in their order.
        case ready(ProjectNumber, QuotaKind)
        /// Call `woke` at this time. Each such effect comes after the last one's time.
        case wake(at: MonotonicTime)
    }

    public let id: SpenderID
    public let bounds: QuotaBounds
    private(set) var table = ProjectTable()
    var numbers: [ProjectNumber] = []
    /// Three for each place, as in `QuotaGrantor.kinds`.
    var purses: [QuotaPurse] = []
    private(set) var free: [Int] = []
    /// Purses that hold or await something.
    var active: [Int] = []
    private(set) var isWakeSet = false
    /// Of the last request.
    public private(set) var lastNumber: UInt64 = 0
    public var laws = LawWatch()
    #if DEBUG
        /// For tests that show that the checker sees it.
        var plantedBug: PlantedBug?
        enum PlantedBug { case appliesTwice }
    #endif

    public init(_ id: SpenderID, _ bounds: QuotaBounds = QuotaBounds()) {
        self.id = id
        self.bounds = bounds
    }

    /// Takes `count` tokens of a leased kind (sends, subscription changes, registrations).
    @inline(__always)
    public mutating func take(
        _ count: UInt64, _ kind: QuotaKind, _ project: ProjectNumber, now: MonotonicTime,
        into effects: inout [Effect]
    ) -> Answer {
        if kind.rawValue < 3, let place = table.place(of: project) {
            let index = place * 3 + Int(kind.rawValue)
            if purses[index].takeQuickly(count, now) { return .admitted(count) }
        }
        return takeSlowly(count, kind, project, now, &effects)
    }

    @inline(never)
    private mutating func takeSlowly(
        _ count: UInt64, _ kind: QuotaKind, _ project: ProjectNumber, _ now: MonotonicTime,
        _ effects: inout [Effect]
    ) -> Answer {
        defer { checkInvariants() }
        guard QuotaGrantor.kinds.contains(kind) else {
            return .refused(QuotaRefusal(kind: kind, limit: 0, retryDelay: bounds.retryMax))
        }
        guard count > 0 else { return .admitted(0) }
        guard let index = purse(kind, project, now) else {
            return .refused(QuotaRefusal(kind: kind, limit: 0, retryDelay: bounds.retryMax))
        }
        purses[index].lapse(now)
        purses[index].asked =
            purses[index].asked.addingReportingOverflow(count).overflow ? .max : purses[index].asked + count
        let isBlocked = now < purses[index].blockedUntil
        if purses[index].held >= count {
            _ = purses[index].spend(count)
            if purses[index].held < purses[index].lowWater, !isBlocked, !purses[index].isAsking {
                ask(index, beside: 0, now, &effects)
            }
            return .admitted(count)
        }
        if purses[index].ownerIsSilent(now, bounds) {
            let isGone = purses[index].ownerIsGone(now, bounds)
            if isGone || purses[index].held + purses[index].accruedShare(now) >= count {
                let leased = purses[index].spend(count)
                let taken = leased + purses[index].spendShare(count - leased, now)
                return taken > 0 ? .admitted(taken) : .unanswered
            }
            purses[index].hasWaiting = true
            return .wait(until: purses[index].owedSince.advanced(by: bounds.patienceWithoutShare))
        }
        if isBlocked {
            let taken = purses[index].spend(count)
            return taken > 0 ? .admitted(taken) : refuse(count, kind, index, now)
        }
        if !purses[index].isAsking { ask(index, beside: count, now, &effects) }
        purses[index].hasWaiting = true
        return .wait(until: purses[index].owedSince.advanced(by: purses[index].patience(bounds)))
    }

    /// The refusal of one token, where that is what `take` would answer: it is then counted as asked for.
    /// `nil` says nothing.
    public mutating func refusal(
        of kind: QuotaKind, _ project: ProjectNumber, now: MonotonicTime
    ) -> QuotaRefusal? {
        guard kind.rawValue < 3, let place = table.place(of: project) else { return nil }
        let index = place * 3 + Int(kind.rawValue)
        guard now < purses[index].blockedUntil else { return nil }
        purses[index].lapse(now)
        guard purses[index].held == 0, !purses[index].ownerIsSilent(now, bounds),
            case .refused(let refusal) = refuse(1, kind, index, now)
        else { return nil }
        if purses[index].asked < .max { purses[index].asked += 1 }
        return refusal
    }

    private func refuse(_ count: UInt64, _ kind: QuotaKind, _ index: Int, _ now: MonotonicTime) -> Answer {
        let purse = purses[index]
        guard let rate = purse.rate, rate.count > 0 else {
            return .refused(QuotaRefusal(kind: kind, limit: 0, retryDelay: bounds.retryMax))
        }
        let refill = UInt128(count) * rate.scale / UInt128(rate.count)
        let delay = UInt64(clamping: refill) - min(now.since(purse.blockedSince), UInt64(clamping: refill))
        return .refused(
            QuotaRefusal(
                kind: kind, limit: kind == .sends ? rate.perMinute : rate.perSecond,
                retryDelay: max(delay, purse.blockedUntil.since(now), bounds.retryMin)))
    }

    /// What is held of a project: leased tokens, and what shares come to.
    public func atHand(_ kind: QuotaKind, _ project: ProjectNumber) -> UInt64 {
        guard kind.rawValue < 3, let place = table.place(of: project) else { return 0 }
        let purse = purses[place * 3 + Int(kind.rawValue)]
        let share = UInt128(purse.shareRate) * UInt128(bounds.share) / 1_000_000_000
        return purse.held + UInt64(clamping: share)
    }

    // MARK: Asking

    /// Asks the owner, `wanted` for an operation that waits, the rest by the demand since the last request.
    private mutating func ask(
        _ index: Int, beside wanted: UInt64, _ now: MonotonicTime, _ effects: inout [Effect]
    ) {
        let elapsed = max(now.since(purses[index].askedSince), .milliseconds(10))
        let asked = UInt128(purses[index].asked)
        // Until the answer to the next question, which goes out when half is spent.
        let cover = max(bounds.leaseCover, min(3 * purses[index].answerTime, purses[index].lease / 4 * 3))
        let estimate = UInt64(clamping: asked * UInt128(cover) / UInt128(elapsed))
        let perSecond = UInt64(clamping: asked * 1_000_000_000 / UInt128(elapsed))
        purses[index].demandPerSecond =
            min(perSecond, QuotaRate.countMax) / 2 + purses[index].demandPerSecond / 2
        let held = purses[index].held
        purses[index].demand = min(max(estimate > held ? estimate - held : 0, wanted, 1), QuotaRate.countMax)
        purses[index].needed = min(wanted, QuotaRate.countMax)
        purses[index].asked = 0
        purses[index].askedAtTick = 0
        purses[index].askedSince = now
        purses[index].owedSince = now
        (purses[index].question, purses[index].isAsking) = (lastNumber + 1, true)
        purses[index].repeats = 0
        // What the share had accrued is forgone: while the owner answers it is not needed, and the owner can
        // give it out. Only with a new question, so that a share goes on accruing while the owner is silent.
        (purses[index].shareStart, purses[index].shareUsed) = (now, 0)
        send(index, isRelease: false, now, &effects)
        activate(index, now, &effects)
    }

    private mutating func send(_ index: Int, isRelease: Bool, _ now: MonotonicTime, _ effects: inout [Effect])
    {
        lastNumber += 1
        if !isRelease {
            if purses[index].pending.count == bounds.pendingCountMax {
                purses[index].pending.removeFirst()
            }
            purses[index].pending.append(.init(number: lastNumber, sent: now, needed: purses[index].needed))
        }
        let purse = purses[index]
        effects.append(
            .request(
                QuotaRequest(
                    spender: id, project: numbers[index / 3], kind: QuotaGrantor.kinds[index % 3],
                    number: lastNumber, ledger: purse.ledger, applied: purse.applied,
                    floor: purse.pending.first?.number ?? lastNumber, spent: purse.spent,
                    shareSpent: purse.shareSpent,
                    shareOffset: purse.shareStart.since(purse.appliedAt), held: purse.held,
                    demand: isRelease ? 0 : purse.demand, needed: isRelease ? 0 : purse.needed,
                    demandPerSecond: purse.demandPerSecond, isRelease: isRelease)))
    }

    // MARK: Being answered

    public mutating func receive(_ grant: QuotaGrant, now: MonotonicTime, into effects: inout [Effect]) {
        defer { checkInvariants() }
        guard grant.spender == id, grant.kind.rawValue < 3, let place = table.place(of: grant.project) else {
            return
        }
        let index = place * 3 + Int(grant.kind.rawValue)
        let wasAsking = purses[index].isAsking
        guard let sent = answered(grant, index) else { return }
        purses[index].lapse(now)
        if grant.ledger > purses[index].ledger {
            // Another owner: what the former one granted is void before this one grants anything.
            purses[index].ledger = grant.ledger
            (purses[index].tokens, purses[index].nextTokens, purses[index].shareRate) = (0, 0, 0)
            (purses[index].spent, purses[index].shareSpent, purses[index].granted) = (0, 0, 0)
        }
        (purses[index].applied, purses[index].appliedAt) = (grant.number, now)
        (purses[index].answerTime, purses[index].lease) = (now.since(sent.sent), grant.leaseLength)
        purses[index].rate = grant.rate
        let leaseEnd = sent.sent.advanced(by: grant.leaseLength)
        if leaseEnd > now { purses[index].add(grant.tokens, until: leaseEnd) }
        purses[index].shareRate = grant.shareRate
        purses[index].shareStart = now
        purses[index].shareEnd = sent.sent.advanced(by: grant.shareLength)
        purses[index].shareUsed = 0
        // What a repetition brings is taken; whether there is enough, the last question's answer says.
        guard wasAsking, grant.number >= purses[index].question else {
            purses[index].setLowWater(purses[index].lowWater)
            return wakeWaiting(index, &effects)
        }
        let isMet = grant.tokens >= sent.needed
        // What is there beside what operations wait for is there to be ahead of demand; no more is asked for
        // before half of it is spent.
        let ahead = purses[index].held - min(sent.needed, purses[index].held)
        purses[index].setLowWater(isMet ? ahead / 2 : 0)
        purses[index].blockedSince = now
        purses[index].blockedUntil = isMet ? now : now.advanced(by: grant.retryAfter)
        wakeWaiting(index, &effects)
    }

    private mutating func wakeWaiting(_ index: Int, _ effects: inout [Effect]) {
        guard purses[index].hasWaiting else { return }
        purses[index].hasWaiting = false
        effects.append(.ready(numbers[index / 3], QuotaGrantor.kinds[index % 3]))
    }

    /// The request that a grant answers, taken off the list with all before it; `nil` where it was answered
    /// already, given up, or answered by an owner that is no longer one.
    private mutating func answered(_ grant: QuotaGrant, _ index: Int) -> QuotaPurse.Pending? {
        guard grant.ledger >= purses[index].ledger,
            let place = purses[index].pending.firstIndex(where: { $0.number == grant.number })
        else {
            #if DEBUG
                if plantedBug == .appliesTwice, grant.ledger == purses[index].ledger {
                    return .init(number: grant.number, sent: purses[index].askedSince, needed: 0)
                }
            #endif
            return nil
        }
        let pending = purses[index].pending[place]
        purses[index].pending.removeFirst(place + 1)
        if grant.number >= purses[index].question { purses[index].isAsking = false }
        return pending
    }

    // MARK: Time

    /// Looks after what is held and awaited: repeats requests, lets waiting operations know that the owner is
    /// silent, gives back what is not used.
    public mutating func woke(now: MonotonicTime, into effects: inout [Effect]) {
        defer { checkInvariants() }
        isWakeSet = false
        var still: [Int] = []
        for index in active {
            tick(index, now, &effects)
            if purses[index].isActive { still.append(index) }
        }
        active = still
        setWake(now, &effects)
    }

    private mutating func tick(_ index: Int, _ now: MonotonicTime, _ effects: inout [Effect]) {
        purses[index].lapse(now)
        let isQuiet = purses[index].asked == purses[index].askedAtTick
        purses[index].askedAtTick = purses[index].asked
        purses[index].quietTicks = isQuiet ? purses[index].quietTicks + 1 : 0
        let isQuietForLong = purses[index].quietTicks >= 2 && !purses[index].hasWaiting
        if purses[index].ownerIsSilent(now, bounds) { wakeWaiting(index, &effects) }
        if purses[index].isAsking, let last = purses[index].pending.last {
            if isQuietForLong, purses[index].ownerIsSilent(now, bounds) {
                // Nobody wants it any more. Its late answer will not be applied.
                purses[index].pending.removeAll()
                purses[index].isAsking = false
            } else if now.since(last.sent) >= purses[index].repeatGap(bounds) {
                purses[index].repeats += 1
                send(index, isRelease: false, now, &effects)
            }
            return
        }
        // Soon enough that a lease, asked for when half of the former was spent, has not run out by then.
        guard isQuiet else { return }
        purses[index].pending.removeAll()
        if purses[index].held > 0 || purses[index].shareRate > 0 || purses[index].spent > 0 {
            (purses[index].tokens, purses[index].nextTokens, purses[index].shareRate) = (0, 0, 0)
            send(index, isRelease: true, now, &effects)
        }
        purses[index].isActive = false
        purses[index].inactiveSince = now
        purses[index].quietTicks = 0
    }

    private mutating func activate(_ index: Int, _ now: MonotonicTime, _ effects: inout [Effect]) {
        purses[index].quietTicks = 0
        guard !purses[index].isActive else { return }
        purses[index].isActive = true
        active.append(index)
        setWake(now, &effects)
    }

    private mutating func setWake(_ now: MonotonicTime, _ effects: inout [Effect]) {
        guard !isWakeSet, !active.isEmpty else { return }
        isWakeSet = true
        effects.append(.wake(at: now.advanced(by: bounds.tick)))
    }

    // MARK: Places

    private mutating func purse(
        _ kind: QuotaKind, _ project: ProjectNumber, _ now: MonotonicTime
    ) -> Int? {
        if let place = table.place(of: project) { return place * 3 + Int(kind.rawValue) }
        if free.isEmpty, numbers.count >= bounds.projectCountMax { forgetIdle(now) }
        let place: Int
        if let reused = free.popLast() {
            place = reused
            numbers[place] = project
        } else {
            guard numbers.count < bounds.projectCountMax else { return nil }
            place = numbers.count
            numbers.append(project)
            purses.append(contentsOf: repeatElement(QuotaPurse(), count: 3))
        }
        table.insert(project, at: place)
        return place * 3 + Int(kind.rawValue)
    }

    /// What was spent of a project is forgotten when its owner has surely heard of it, or taken it for spent.
    private mutating func forgetIdle(_ now: MonotonicTime) {
        for place in numbers.indices
        where (0..<3).allSatisfy({ purses[place * 3 + $0].isForgettable(now, bounds) }) {
            table.remove(numbers[place])
            for kind in 0..<3 { purses[place * 3 + kind] = QuotaPurse() }
            free.append(place)
        }
    }
}
