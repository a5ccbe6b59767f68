import Model

/// One bucket: its remaining tokens and the leases on them (rule: tokens-are-leased).
///
/// The bucket counts what is *known to be spent*, or must count as spent. Tokens that are *out* are not spent
/// yet, but the lease accounting must not grant them twice. There are two kinds of them:
///
/// - *leased* tokens: granted, not reported as spent, not run out;
/// - *accrued* shares: from the moment of a share's grant, its holder may be spending at the share's rate
///   without a report, until the holder reports otherwise or the share has run out.
///
/// The lease accounting can grant what remains: `level − leased − accrued`. A second bound keeps the sum
/// right while the bucket is full and loses its refill while shares go on accruing: `burst − leased − (all
/// that shares can accrue)`. G6 follows from the two: at any moment all that spenders could spend is at most
/// the level, and the level is at most the burst and rises by the rate. So over any window spenders admit at
/// most burst + rate × window.
///
/// Only a report frees tokens: spent ones leave the level, unspent ones can be granted again. If no report
/// comes, what is out counts as spent when it runs out. All errors are to the safe side: a lost message may
/// cost a project some tokens, and never gives it any.
///
/// So leases lower what can be granted by at most rate × lease length, if spenders ask for what they need. An
/// idle project has its whole burst, because nobody holds a lease of it.
struct LeaseAccounting: Sendable {
    var bucket: TokenBucket
    /// In the order in which the spenders came.
    var accounts: [QuotaAccount] = []
    #if DEBUG
        /// A planted bug, for tests that show that a checker sees it.
        var plantedBug: PlantedBug?
        enum PlantedBug { case forgetsLeases, forgetsShares, forgetsWhatRanOut }
    #endif

    init(_ bucket: TokenBucket) { self.bucket = bucket }

    var rate: QuotaRate { bucket.rate }

    mutating func change(to rate: QuotaRate, _ now: MonotonicTime) {
        bucket.change(to: rate, now)
    }

    /// Whole tokens that are not known to be spent.
    mutating func level(_ now: MonotonicTime, _ bounds: QuotaBounds) -> UInt64 {
        lapse(now, bounds)
        return bucket.level(now)
    }

    // MARK: A request

    mutating func receive(
        _ request: QuotaRequest, grantorEpoch: Epoch, _ bounds: QuotaBounds, now: MonotonicTime
    ) -> QuotaGrant? {
        lapse(now, bounds)
        guard let index = account(of: request, isReport: request.grantorEpoch == grantorEpoch, bounds, now)
        else {
            return nil
        }
        guard request.number > accounts[index].number else { return nil }
        accounts[index].number = request.number
        if request.grantorEpoch == grantorEpoch {
            report(request, at: index, bounds, now: now)
        } else {
            accounts[index].beginCounting(now)
        }
        if request.isRelease {
            accounts[index].clear(now)
            return nil
        }
        guard accounts[index].flight.count < bounds.flightCountMax else { return nil }
        let tokens = tokens(for: request, at: index, bounds, now)
        let isMet = tokens >= min(request.needed, request.demand)
        accounts[index].hunger = isMet ? 0 : request.demand
        accounts[index].hungerEnd = now.advanced(by: bounds.lease)
        let scale = rate.scale
        let lease = accounts[index].lease(bounds)
        let share = share(for: request, at: index, leased: UInt128(tokens) * scale, bounds, now)
        accounts[index].flight.append(
            QuotaAccount.Grant(
                number: request.number, granted: now, tokens: tokens,
                // Tokens of an earlier, longer lease do not end sooner.
                leaseEnd: max(now.advanced(by: lease), accounts[index].leaseEnd), shareRate: share,
                shareStart: now,
                shareEnd: now.advanced(by: share > 0 ? bounds.share : .zero)))
        return QuotaGrant(
            spender: request.spender, project: request.project, kind: request.kind, number: request.number,
            grantorEpoch: grantorEpoch, tokens: tokens, leaseLength: lease, shareRate: share,
            shareLength: bounds.share, retryAfter: isMet ? .zero : retryAfter(bounds, now), rate: rate)
    }

    /// The index of the spender's account, which is new if the spender had none. A new account does not count
    /// what the spender spent before.
    private mutating func account(
        of request: QuotaRequest, isReport: Bool, _ bounds: QuotaBounds, _ now: MonotonicTime
    ) -> Int? {
        if let index = accounts.firstIndex(where: { $0.spender == request.spender }) { return index }
        guard !request.isRelease else { return nil }
        accounts.removeAll { $0.isIdle && now.since($0.heard) > bounds.share }
        guard accounts.count < bounds.accountCountMax else { return nil }
        accounts.append(
            QuotaAccount(
                request.spender, spent: isReport ? request.spent : 0,
                shareSpent: isReport ? request.shareSpent : 0))
        return accounts.count - 1
    }

    private mutating func report(
        _ request: QuotaRequest, at index: Int, _ bounds: QuotaBounds, now: MonotonicTime
    ) {
        let spent = accounts[index].report(request, bounds, now: now)
        bucket.remove(UInt128(spent) * rate.scale)
    }

    // MARK: What is there

    private func tokens(
        for request: QuotaRequest, at index: Int, _ bounds: QuotaBounds, _ now: MonotonicTime
    ) -> UInt64 {
        let free = UInt64(clamping: grantable(now) / rate.scale)
        guard free > 0, request.demand > 0 else { return 0 }
        // A grant is an eighth of the free tokens at most, or what is needed at once. Leases thus shrink as
        // the bucket empties, and no loop must refuse while others hold many tokens without a need.
        let wanted = min(request.demand, max(request.needed, free / bounds.leaseDivisor))
        // If the free tokens do not meet the unmet demands of all spenders, each gets a part by its demand.
        var hunger: UInt128 = 0
        for other in accounts.indices where other != index && accounts[other].hungerEnd > now {
            hunger += UInt128(accounts[other].hunger)
        }
        guard UInt128(wanted) + hunger > UInt128(free) else { return wanted }
        let demand = UInt128(request.demand)
        let part = UInt64(clamping: UInt128(free) * demand / (demand + hunger))
        return min(max(part, 1), wanted)
    }

    /// Whole tokens that are neither spent nor out.
    mutating func remainder(_ now: MonotonicTime, _ bounds: QuotaBounds) -> UInt64 {
        lapse(now, bounds)
        bucket.refill(now)
        return UInt64(clamping: grantable(now) / rate.scale)
    }

    /// Units that the lease accounting can grant now.
    func grantable(_ now: MonotonicTime) -> UInt128 {
        let (leased, accrued, accruedMost) = out(now)
        let level = bucket.units
        let burst = rate.burstUnits
        let byLevel = level > leased + accrued ? level - leased - accrued : 0
        let byBurst = burst > leased + accruedMost ? burst - leased - accruedMost : 0
        return min(byLevel, byBurst)
    }

    /// What is out, in units; `except` leaves one account's shares out of the sums.
    private func out(_ now: MonotonicTime, except: Int? = nil) -> (
        leased: UInt128, accrued: UInt128, accruedMost: UInt128
    ) {
        var sum: (leased: UInt128, accrued: UInt128, accruedMost: UInt128) = (0, 0, 0)
        let scale = rate.scale
        let seconds = UInt128(rate.seconds)
        for index in accounts.indices {
            sum.leased += UInt128(accounts[index].leased) * scale
            guard index != except else { continue }
            sum.accrued += accounts[index].accrued(until: now) * seconds
            sum.accruedMost += accounts[index].accrued(until: nil) * seconds
        }
        #if DEBUG
            if plantedBug == .forgetsLeases { sum.leased = 0 }
            if plantedBug == .forgetsShares {
                sum.accrued = 0
                sum.accruedMost = 0
            }
        #endif
        return sum
    }

    /// The fallback share of a grant, tokens a second: by demand, at most an equal part of the rate, and so
    /// small that all shares together reserve at most an eighth of the burst.
    private func share(
        for request: QuotaRequest, at index: Int, leased: UInt128, _ bounds: QuotaBounds, _ now: MonotonicTime
    ) -> UInt64 {
        let account = accounts[index]
        let rateWhole = rate.count / UInt64(rate.seconds)
        var others: UInt64 = 0
        var sharers: UInt64 = 1
        for other in accounts.indices where other != index {
            others += accounts[other].shareRateMax
            if !accounts[other].isIdle { sharers += 1 }
        }
        guard rateWhole > others else { return 0 }
        // A quarter more than the recent demand, because demand comes in bursts.
        let demand = min(request.demandPerSecond, QuotaRate.countMax)
        var share = min(demand + demand / 4, rateWhole - others, rateWhole / sharers)
        let (leasedBefore, _, accruedByOthers) = out(now, except: index)
        let held = leasedBefore + leased + accruedByOthers
        let cap = rate.burstUnits / UInt128(bounds.shareDivisor)
        guard rate.burstUnits > held, cap > accruedByOthers else { return 0 }
        let room = min(rate.burstUnits - held, cap - accruedByOthers)
        let span = now.advanced(by: bounds.share).since(account.shareStart(now))
        let most = room / (UInt128(span.nanoseconds) * UInt128(rate.seconds))
        share = min(share, UInt64(clamping: most))
        // The largest share counts until the last one's end: a smaller share would prolong a larger one.
        guard UInt128(account.shareRateMax) <= most, share >= bounds.shareMin else { return 0 }
        return share
    }

    /// The time until the lease accounting can grant a token, as far as refill alone decides.
    private func retryAfter(_ bounds: QuotaBounds, _ now: MonotonicTime) -> TimeSpan {
        let (leased, accrued, _) = out(now)
        let delay = bucket.delay(until: rate.scale, beside: leased + accrued, now) ?? bounds.retryMax
        return min(max(delay, bounds.retryMin), bounds.retryMax)
    }

    // MARK: What ran out

    /// Counts what ran out without a report as spent, each part at the moment when it ran out.
    private mutating func lapse(_ now: MonotonicTime, _ bounds: QuotaBounds) {
        var spent: [(at: MonotonicTime, units: UInt128)] = []
        let (scale, seconds) = (rate.scale, UInt128(rate.seconds))
        for index in accounts.indices {
            accounts[index].lapse(now, bounds) { time, tokens, shareNanoseconds in
                spent.append((time, UInt128(tokens) * scale + shareNanoseconds * seconds))
            }
        }
        #if DEBUG
            if plantedBug == .forgetsWhatRanOut { spent.removeAll() }
        #endif
        if !spent.isEmpty {
            for lapsed in spent.sorted(by: { $0.at < $1.at }) {
                bucket.refill(lapsed.at)
                bucket.remove(lapsed.units)
            }
        }
        bucket.refill(now)
    }

    /// Whether nothing is out and the bucket is full: a new lease accounting would be the same.
    mutating func isForgettable(_ now: MonotonicTime, _ bounds: QuotaBounds) -> Bool {
        lapse(now, bounds)
        return bucket.units == rate.burstUnits && accounts.allSatisfy { $0.isIdle }
    }
}
