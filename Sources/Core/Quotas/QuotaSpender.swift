import Model

/// Spends leased tokens. Each loop that admits operations has one spender.
///
/// The spender admits nearly every operation by one comparison. When half of a lease is spent, it asks for
/// more, sized by the demand since the last question, so that the answer comes before the rest has gone. An
/// operation for which no token is at hand waits for that answer. The spender refuses an operation only when
/// the owner has said that there are too few tokens.
///
/// When the owner is silent for a moment, the loop spends its fallback share, and operations that the share
/// cannot carry wait on. When the owner is silent for so long that it counts as gone, these operations get no
/// answer. That is no refusal, because the owner has not said that the quota is used up.
public struct QuotaSpender: Sendable {
    public enum Answer: Hashable, Sendable {
        /// How many tokens were taken: all, or as many as there were if no more can be had.
        case admitted(UInt64)
        /// Nothing was taken: the bucket is empty.
        case refused(QuotaRefusal)
        /// Nothing was taken: the owner of the bucket is silent, and the share is used up.
        case unanswered
        /// Nothing was taken yet. Ask again when `.ready` names the project and kind, and at this time at the
        /// latest: from then on the answer is another one, unless a new wait began.
        case wait(until: MonotonicTime)
    }

    public enum Effect: Hashable, Sendable {
        /// A request to the owner of the project's home partition.
        case request(QuotaRequest)
        /// Operations of this project and kind that must wait should ask again, in their order.
        case ready(ProjectNumber, QuotaKind)
        /// Call `woke` at this time. Each such time is after the last one.
        case wake(at: MonotonicTime)
    }

    private typealias Turn = Model.Turn<MonotonicTime, Effect>

    public let id: SpenderID
    public let bounds: QuotaBounds
    private(set) var table = ProjectTable()
    var numbers: [ProjectNumber] = []
    /// Three for each slot, in the order of `QuotaGrantor.kinds`.
    var leasedTokens: [LeasedTokens] = []
    private(set) var free: [Int] = []
    /// Indices of the leased tokens of which something is held or awaited.
    var active: [Int] = []
    private(set) var isWakeSet = false
    /// The number of the last request.
    public private(set) var lastNumber: UInt64 = 0
    public var invariantSchedule = InvariantSchedule()
    #if DEBUG
        /// A planted bug, for tests that show that a checker sees it.
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
        _ count: UInt64, _ kind: QuotaKind, of project: ProjectNumber, now: MonotonicTime,
        into effects: inout [Effect]
    ) -> Answer {
        if kind.rawValue < 3, let slot = table.slot(of: project) {
            let index = slot * 3 + Int(kind.rawValue)
            if leasedTokens[index].takeQuickly(count, now) { return .admitted(count) }
        }
        return takeSlowly(count, kind, of: project, now: now, into: &effects)
    }

    @inline(never)
    private mutating func takeSlowly(
        _ count: UInt64, _ kind: QuotaKind, of project: ProjectNumber, now: MonotonicTime,
        into effects: inout [Effect]
    ) -> Answer {
        var turn = Turn(at: now, &effects)
        defer {
            turn.end(&effects)
            checkInvariants()
        }
        guard QuotaGrantor.kinds.contains(kind) else {
            return .refused(QuotaRefusal(kind: kind, limit: 0, retryDelay: bounds.retryMax))
        }
        guard count > 0 else { return .admitted(0) }
        guard let index = leasedTokens(kind, of: project, now) else {
            return .refused(QuotaRefusal(kind: kind, limit: 0, retryDelay: bounds.retryMax))
        }
        leasedTokens[index].lapse(now)
        leasedTokens[index].asked =
            leasedTokens[index].asked.addingReportingOverflow(count).overflow
            ? .max : leasedTokens[index].asked + count
        let isBlocked = now < leasedTokens[index].blockedUntil
        if leasedTokens[index].held >= count {
            _ = leasedTokens[index].spend(count)
            if leasedTokens[index].held < leasedTokens[index].lowWater, !isBlocked,
                !leasedTokens[index].isAsking
            {
                ask(index, beside: 0, &turn)
            }
            return .admitted(count)
        }
        let owedSince = leasedTokens[index].owedSince
        if let owedSince, leasedTokens[index].ownerIsSilent(now, bounds) {
            let isGone = leasedTokens[index].ownerIsGone(now, bounds)
            if isGone || leasedTokens[index].held + leasedTokens[index].accruedShare(now) >= count {
                let leased = leasedTokens[index].spend(count)
                let taken = leased + leasedTokens[index].spendShare(count - leased, now)
                return taken > 0 ? .admitted(taken) : .unanswered
            }
            leasedTokens[index].hasWaiting = true
            return .wait(until: owedSince.advanced(by: bounds.patienceWithoutShare))
        }
        if isBlocked {
            let taken = leasedTokens[index].spend(count)
            return taken > 0 ? .admitted(taken) : refuse(count, kind, at: index, now: now)
        }
        if owedSince == nil { ask(index, beside: count, &turn) }
        leasedTokens[index].hasWaiting = true
        return .wait(until: (owedSince ?? now).advanced(by: leasedTokens[index].patience(bounds)))
    }

    /// The refusal with which `take` would answer one token, which then counts as asked for. `nil` leaves
    /// open what `take` would answer.
    public mutating func refusal(
        of kind: QuotaKind, _ project: ProjectNumber, now: MonotonicTime
    ) -> QuotaRefusal? {
        guard kind.rawValue < 3, let slot = table.slot(of: project) else { return nil }
        let index = slot * 3 + Int(kind.rawValue)
        guard now < leasedTokens[index].blockedUntil else { return nil }
        leasedTokens[index].lapse(now)
        guard leasedTokens[index].held == 0, !leasedTokens[index].ownerIsSilent(now, bounds),
            case .refused(let refusal) = refuse(1, kind, at: index, now: now)
        else { return nil }
        if leasedTokens[index].asked < .max { leasedTokens[index].asked += 1 }
        return refusal
    }

    private func refuse(_ count: UInt64, _ kind: QuotaKind, at index: Int, now: MonotonicTime) -> Answer {
        let leased = leasedTokens[index]
        guard let rate = leased.rate, rate.count > 0 else {
            return .refused(QuotaRefusal(kind: kind, limit: 0, retryDelay: bounds.retryMax))
        }
        let refill = TimeSpan.nanoseconds(UInt64(clamping: UInt128(count) * rate.scale / UInt128(rate.count)))
        let delay = refill.reduced(by: now.since(leased.blockedSince))
        return .refused(
            QuotaRefusal(
                kind: kind, limit: kind == .sends ? rate.perMinute : rate.perSecond,
                retryDelay: max(delay, leased.blockedUntil.since(now), bounds.retryMin)))
    }

    /// What the spender may spend of a project: leased tokens, and all that a share comes to.
    public func atHand(_ kind: QuotaKind, _ project: ProjectNumber) -> UInt64 {
        guard kind.rawValue < 3, let slot = table.slot(of: project) else { return 0 }
        let leased = leasedTokens[slot * 3 + Int(kind.rawValue)]
        let share = UInt128(leased.shareRate) * UInt128(bounds.share.nanoseconds) / 1_000_000_000
        return leased.held + UInt64(clamping: share)
    }

    // MARK: Asking

    /// Asks the owner for the demand until the next answer, and at least for `wanted`, for an operation.
    private mutating func ask(_ index: Int, beside wanted: UInt64, _ turn: inout Turn) {
        let elapsed = UInt128(
            max(turn.now.since(leasedTokens[index].askedSince), .milliseconds(10)).nanoseconds)
        let asked = UInt128(leasedTokens[index].asked)
        // The lease must last until the answer to the next question, which goes out when half of it is spent.
        let cover = max(
            bounds.leaseCover, min(3 * leasedTokens[index].answerTime, leasedTokens[index].lease / 4 * 3))
        let estimate = UInt64(clamping: asked * UInt128(cover.nanoseconds) / elapsed)
        let perSecond = UInt64(clamping: asked * 1_000_000_000 / elapsed)
        leasedTokens[index].demandPerSecond =
            min(perSecond, QuotaRate.countMax) / 2 + leasedTokens[index].demandPerSecond / 2
        let held = leasedTokens[index].held
        leasedTokens[index].demand = min(
            max(estimate > held ? estimate - held : 0, wanted, 1), QuotaRate.countMax)
        leasedTokens[index].needed = min(wanted, QuotaRate.countMax)
        leasedTokens[index].asked = 0
        leasedTokens[index].askedAtTick = 0
        leasedTokens[index].askedSince = turn.now
        leasedTokens[index].question = lastNumber + 1
        leasedTokens[index].repeats = 0
        // The spender forgoes what the share has accrued: the owner answers, and can grant these tokens. Only
        // a new question does so, because a share must go on accruing while the owner is silent.
        (leasedTokens[index].shareStart, leasedTokens[index].shareUsed) = (turn.now, 0)
        sendRequest(index, isRelease: false, &turn)
        activate(index, &turn)
        leasedTokens[index].state = .asking(since: turn.now)
    }

    private mutating func sendRequest(_ index: Int, isRelease: Bool, _ turn: inout Turn) {
        lastNumber += 1
        if !isRelease {
            if leasedTokens[index].pending.count == bounds.pendingCountMax {
                leasedTokens[index].pending.removeFirst()
            }
            leasedTokens[index].pending.append(
                .init(number: lastNumber, sent: turn.now, needed: leasedTokens[index].needed))
        }
        let leased = leasedTokens[index]
        turn.effects.append(
            .request(
                QuotaRequest(
                    spender: id, project: numbers[index / 3], kind: QuotaGrantor.kinds[index % 3],
                    number: lastNumber, grantorEpoch: leased.grantorEpoch, applied: leased.applied,
                    floor: leased.pending.first?.number ?? lastNumber, spent: leased.spent,
                    shareSpent: leased.shareSpent,
                    shareOffset: leased.shareStart.since(leased.appliedAt), held: leased.held,
                    demand: isRelease ? 0 : leased.demand, needed: isRelease ? 0 : leased.needed,
                    demandPerSecond: leased.demandPerSecond, isRelease: isRelease)))
    }

    // MARK: Being answered

    public mutating func receive(_ grant: QuotaGrant, now: MonotonicTime, into effects: inout [Effect]) {
        var turn = Turn(at: now, &effects)
        defer {
            turn.end(&effects)
            checkInvariants()
        }
        guard grant.spender == id, grant.kind.rawValue < 3, let slot = table.slot(of: grant.project) else {
            return
        }
        let index = slot * 3 + Int(grant.kind.rawValue)
        let wasAsking = leasedTokens[index].isAsking
        guard let sent = answered(grant, index) else { return }
        leasedTokens[index].lapse(now)
        if grant.grantorEpoch > leasedTokens[index].grantorEpoch {
            // A new owner: all grants of its predecessor are void before the new owner grants anything.
            leasedTokens[index].grantorEpoch = grant.grantorEpoch
            (leasedTokens[index].tokens, leasedTokens[index].nextTokens, leasedTokens[index].shareRate) = (
                0, 0, 0
            )
            (leasedTokens[index].spent, leasedTokens[index].shareSpent, leasedTokens[index].granted) = (
                0, 0, 0
            )
        }
        (leasedTokens[index].applied, leasedTokens[index].appliedAt) = (grant.number, now)
        (leasedTokens[index].answerTime, leasedTokens[index].lease) = (
            now.since(sent.sent), grant.leaseLength
        )
        leasedTokens[index].rate = grant.rate
        let leaseEnd = sent.sent.advanced(by: grant.leaseLength)
        if leaseEnd > now { leasedTokens[index].add(grant.tokens, until: leaseEnd) }
        leasedTokens[index].shareRate = grant.shareRate
        leasedTokens[index].shareStart = now
        leasedTokens[index].shareEnd = sent.sent.advanced(by: grant.shareLength)
        leasedTokens[index].shareUsed = 0
        // Each answer's tokens count. Only the last question's answer says whether there are enough.
        guard wasAsking, grant.number >= leasedTokens[index].question else {
            leasedTokens[index].setLowWater(leasedTokens[index].lowWater)
            return wakeWaiting(index, &turn)
        }
        let isMet = grant.tokens >= sent.needed
        // Tokens beyond those that operations wait for are there to be ahead of demand. The spender asks for
        // more when half of them are spent.
        let ahead = leasedTokens[index].held - min(sent.needed, leasedTokens[index].held)
        leasedTokens[index].setLowWater(isMet ? ahead / 2 : 0)
        leasedTokens[index].blockedSince = now
        leasedTokens[index].blockedUntil = isMet ? now : now.advanced(by: grant.retryAfter)
        wakeWaiting(index, &turn)
    }

    private mutating func wakeWaiting(_ index: Int, _ turn: inout Turn) {
        guard leasedTokens[index].hasWaiting else { return }
        leasedTokens[index].hasWaiting = false
        turn.effects.append(.ready(numbers[index / 3], QuotaGrantor.kinds[index % 3]))
    }

    /// The request that a grant answers, removed from the pending ones with all requests before it. `nil` if
    /// the request was answered or given up earlier, and if the grant is of an earlier owner.
    private mutating func answered(_ grant: QuotaGrant, _ index: Int) -> LeasedTokens.Pending? {
        guard grant.grantorEpoch >= leasedTokens[index].grantorEpoch,
            let answered = leasedTokens[index].pending.firstIndex(where: { $0.number == grant.number })
        else {
            #if DEBUG
                if plantedBug == .appliesTwice, grant.grantorEpoch == leasedTokens[index].grantorEpoch {
                    return .init(number: grant.number, sent: leasedTokens[index].askedSince, needed: 0)
                }
            #endif
            return nil
        }
        let pending = leasedTokens[index].pending[answered]
        leasedTokens[index].pending.removeFirst(answered + 1)
        if grant.number >= leasedTokens[index].question, leasedTokens[index].isAsking {
            leasedTokens[index].state = .active
        }
        return pending
    }

    // MARK: Time

    /// Repeats unanswered requests, wakes operations that wait for a silent owner, and gives back tokens that
    /// no operation uses.
    public mutating func woke(now: MonotonicTime, into effects: inout [Effect]) {
        var turn = Turn(at: now, &effects)
        defer {
            turn.end(&effects)
            checkInvariants()
        }
        isWakeSet = false
        var still: [Int] = []
        for index in active {
            tick(index, &turn)
            if leasedTokens[index].isActive { still.append(index) }
        }
        active = still
        setWake(&turn)
    }

    private mutating func tick(_ index: Int, _ turn: inout Turn) {
        leasedTokens[index].lapse(turn.now)
        let isQuiet = leasedTokens[index].asked == leasedTokens[index].askedAtTick
        leasedTokens[index].askedAtTick = leasedTokens[index].asked
        leasedTokens[index].quietTicks = isQuiet ? leasedTokens[index].quietTicks + 1 : 0
        let isQuietForLong = leasedTokens[index].quietTicks >= 2 && !leasedTokens[index].hasWaiting
        if leasedTokens[index].ownerIsSilent(turn.now, bounds) { wakeWaiting(index, &turn) }
        if leasedTokens[index].isAsking, let last = leasedTokens[index].pending.last {
            if isQuietForLong, leasedTokens[index].ownerIsSilent(turn.now, bounds) {
                // No operation needs the answer any more. The spender will not apply a late one.
                leasedTokens[index].pending.removeAll()
                leasedTokens[index].state = .active
            } else if turn.now.since(last.sent) >= leasedTokens[index].repeatGap(bounds) {
                leasedTokens[index].repeats += 1
                sendRequest(index, isRelease: false, &turn)
            }
            return
        }
        // One quiet tick is soon enough: a lease asked for at half of the previous one has not run out by
        // then.
        guard isQuiet else { return }
        leasedTokens[index].pending.removeAll()
        if leasedTokens[index].held > 0 || leasedTokens[index].shareRate > 0 || leasedTokens[index].spent > 0
        {
            (leasedTokens[index].tokens, leasedTokens[index].nextTokens, leasedTokens[index].shareRate) = (
                0, 0, 0
            )
            sendRequest(index, isRelease: true, &turn)
        }
        leasedTokens[index].state = .idle(since: turn.now)
        leasedTokens[index].quietTicks = 0
    }

    private mutating func activate(_ index: Int, _ turn: inout Turn) {
        leasedTokens[index].quietTicks = 0
        guard !leasedTokens[index].isActive else { return }
        leasedTokens[index].state = .active
        active.append(index)
        setWake(&turn)
    }

    private mutating func setWake(_ turn: inout Turn) {
        guard !isWakeSet, !active.isEmpty else { return }
        isWakeSet = true
        turn.effects.append(.wake(at: turn.now.advanced(by: bounds.tick)))
    }

    // MARK: Slots

    private mutating func leasedTokens(
        _ kind: QuotaKind, of project: ProjectNumber, _ now: MonotonicTime
    ) -> Int? {
        if let slot = table.slot(of: project) { return slot * 3 + Int(kind.rawValue) }
        if free.isEmpty, numbers.count >= bounds.projectCountMax { forgetIdle(now) }
        let slot: Int
        if let reused = free.popLast() {
            slot = reused
            numbers[slot] = project
        } else {
            guard numbers.count < bounds.projectCountMax else { return nil }
            slot = numbers.count
            numbers.append(project)
            leasedTokens.append(contentsOf: repeatElement(LeasedTokens(), count: 3))
        }
        table.insert(project, at: slot)
        return slot * 3 + Int(kind.rawValue)
    }

    /// Forgets idle projects whose spent tokens the owner certainly knows, or counts as spent.
    private mutating func forgetIdle(_ now: MonotonicTime) {
        for slot in numbers.indices
        where (0..<3).allSatisfy({ leasedTokens[slot * 3 + $0].isForgettable(now, bounds) }) {
            table.remove(numbers[slot])
            for kind in 0..<3 { leasedTokens[slot * 3 + kind] = LeasedTokens() }
            free.append(slot)
        }
    }
}
