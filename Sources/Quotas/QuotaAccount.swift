import Model

/// What a ledger knows of one spender.
struct QuotaAccount: Sendable {
    struct Grant: Sendable {
        var number: UInt64
        var granted: MonotonicTime
        /// 0 once they were taken for spent.
        var tokens: UInt64
        var leaseEnd: MonotonicTime
        var shareRate: UInt64
        /// Not later than the spender began to accrue what it has not reported or forgone.
        var shareStart: MonotonicTime
        var shareEnd: MonotonicTime
    }

    let spender: SpenderID
    /// The highest request number that was handled.
    var number: UInt64 = 0
    /// The grant that the spender last said to have applied.
    var applied: Grant?
    /// Grants after that one, oldest first.
    var flight: [Grant] = []
    /// Unspent tokens of applied grants, as last reported; void at `applied.leaseEnd`.
    var held: UInt64 = 0
    /// What it said to have spent, all in all.
    private var spent: UInt64
    private var shareSpent: UInt64
    /// What it last asked for and did not get; counts until `hungerEnd`.
    var hunger: UInt64 = 0
    var hungerEnd = MonotonicTime(nanoseconds: 0)
    /// How long its next leases are valid, nanoseconds, within bounds: long at first, shorter as answers turn
    /// out to come soon, longer again where they ran out on their way.
    private var lease = UInt64.max
    private(set) var heard = MonotonicTime(nanoseconds: 0)

    init(_ spender: SpenderID, spent: UInt64, shareSpent: UInt64) {
        self.spender = spender
        self.spent = spent
        self.shareSpent = shareSpent
    }

    var leased: UInt64 { flight.reduce(held) { $0 + $1.tokens } }

    func lease(_ bounds: QuotaBounds) -> UInt64 { min(max(lease, bounds.lease), bounds.share) }

    /// When the last of its leases is over.
    var leaseEnd: MonotonicTime {
        flight.last?.leaseEnd ?? applied?.leaseEnd ?? MonotonicTime(nanoseconds: 0)
    }

    var isIdle: Bool { held == 0 && flight.isEmpty && (applied?.shareRate ?? 0) == 0 }

    // MARK: Shares

    /// Since when the spender may be spending of a share unreported.
    func shareStart(_ now: MonotonicTime) -> MonotonicTime {
        applied?.shareStart ?? flight.first?.shareStart ?? now
    }

    /// The highest rate at which it may be spending: it is on the share that it applied, or on a later one.
    var shareRateMax: UInt64 { flight.reduce(applied?.shareRate ?? 0) { max($0, $1.shareRate) } }

    private var shareEnd: MonotonicTime {
        var end = MonotonicTime(nanoseconds: 0)
        if let applied, applied.shareRate > 0 { end = applied.shareEnd }
        for grant in flight where grant.shareRate > 0 { end = max(end, grant.shareEnd) }
        return end
    }

    /// How much of shares may have been spent or be spendable by `time`, in token-nanoseconds a second;
    /// `nil` for all that they can come to.
    func accrued(until time: MonotonicTime?) -> UInt128 {
        let rate = shareRateMax
        guard rate > 0 else { return 0 }
        let end = shareEnd
        let start = shareStart(end)
        return UInt128(rate) * UInt128(min(time ?? end, end).since(start))
    }

    // MARK: Events

    /// The spender has no counts under this ledger yet (or no longer): they begin with 0.
    mutating func beginCounting(_ now: MonotonicTime) {
        heard = now
        spent = 0
        shareSpent = 0
    }

    /// Takes in what a request reports; answers how many tokens were spent since the last report.
    mutating func report(_ request: QuotaRequest, _ now: MonotonicTime, _ bounds: QuotaBounds) -> UInt64 {
        heard = now
        let heldMost = leased
        if let place = flight.firstIndex(where: { $0.number == request.applied }) {
            applied = flight[place]
            // Half as long would do, with as much to spare.
            let length = lease(bounds)
            if now.since(flight[place].granted) < length / 4 { lease = length / 2 }
            flight.removeFirst(place + 1)
        } else if request.applied != applied?.number {
            // It speaks of a grant that is forgotten: whatever that was has run out and was accounted for.
            flight.removeAll { $0.number <= request.applied }
            applied = nil
        }
        flight.removeAll { $0.number < request.floor }
        // The grant came to the spender after it was made, so this is not too late.
        if let granted = applied?.granted {
            applied?.shareStart = min(granted.advanced(by: min(request.shareOffset, bounds.share)), now)
        }
        held = applied.map { $0.leaseEnd > now ? min(request.held, heldMost) : 0 } ?? 0
        let news = request.spent >= spent ? request.spent - spent : 0
        let shareNews = request.shareSpent >= shareSpent ? request.shareSpent - shareSpent : 0
        spent = max(spent, request.spent)
        shareSpent = max(shareSpent, request.shareSpent)
        return news.addingReportingOverflow(shareNews).overflow ? .max : news + shareNews
    }

    mutating func move(_ move: (MonotonicTime) -> MonotonicTime) {
        func moved(_ grant: Grant) -> Grant {
            var grant = grant
            grant.granted = move(grant.granted)
            grant.leaseEnd = move(grant.leaseEnd)
            grant.shareStart = move(grant.shareStart)
            grant.shareEnd = move(grant.shareEnd)
            return grant
        }
        applied = applied.map(moved)
        flight = flight.map(moved)
        hunger = 0
        heard = move(heard)
    }

    /// The spender gave everything back.
    mutating func clear(_ now: MonotonicTime) {
        heard = now
        applied = nil
        flight.removeAll()
        held = 0
        hunger = 0
    }

    /// Voids what ran out by `now` and tells `spent` of it: when, how many leased tokens, how much of a share
    /// (token-nanoseconds a second).
    mutating func lapse(
        _ now: MonotonicTime, _ bounds: QuotaBounds, spent: (MonotonicTime, UInt64, UInt128) -> Void
    ) {
        if held > 0, let applied, applied.leaseEnd <= now {
            spent(applied.leaseEnd, held, 0)
            held = 0
        }
        for index in flight.indices where flight[index].tokens > 0 && flight[index].leaseEnd <= now {
            spent(flight[index].leaseEnd, flight[index].tokens, 0)
            flight[index].tokens = 0
            // Nothing was heard of it: perhaps it is on its way still, and over when it comes.
            lease = max(lease, min(2 * flight[index].leaseEnd.since(flight[index].granted), bounds.share))
        }
        if shareRateMax > 0, shareEnd <= now {
            spent(shareEnd, 0, accrued(until: nil))
            applied?.shareRate = 0
            for index in flight.indices { flight[index].shareRate = 0 }
        }
        // A grant without anything left is kept a while, for the report that names it.
        flight.removeAll {
            $0.tokens == 0 && $0.shareRate == 0 && now.since($0.granted) > bounds.share
        }
    }
}
