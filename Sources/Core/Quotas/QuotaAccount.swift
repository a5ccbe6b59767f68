import Model

/// What a lease accounting knows about one spender.
struct QuotaAccount: Sendable {
    struct Grant: Sendable {
        var number: UInt64
        var granted: MonotonicTime
        /// 0 once the lease accounting has counted the tokens as spent.
        var tokens: UInt64
        var leaseEnd: MonotonicTime
        var shareRate: UInt64
        /// Not later than the moment from which the spender accrues what it has neither reported nor forgone.
        var shareStart: MonotonicTime
        var shareEnd: MonotonicTime
    }

    let spender: SpenderID
    /// The highest number of a request that the lease accounting has handled.
    var number: UInt64 = 0
    /// The grant that the spender last reported as applied.
    var applied: Grant?
    /// Grants after `applied`, the oldest first.
    var flight: [Grant] = []
    /// Unspent tokens of applied grants, as last reported; void at `applied.leaseEnd`.
    var held: UInt64 = 0
    /// Tokens that the spender has reported as spent in all: leased tokens, and tokens of shares.
    private var spent: UInt64
    private var shareSpent: UInt64
    /// The spender's last demand if it was not met; counts until `hungerEnd`.
    var hunger: UInt64 = 0
    var hungerEnd = MonotonicTime.zero
    /// How long the spender's next leases are, before `lease(_:)` bounds them: long at first, shorter if
    /// reports come soon, longer again if a lease ran out on its way.
    private var lease = TimeSpan.max
    private(set) var heard = MonotonicTime.zero

    init(_ spender: SpenderID, spent: UInt64, shareSpent: UInt64) {
        self.spender = spender
        self.spent = spent
        self.shareSpent = shareSpent
    }

    var leased: UInt64 { flight.reduce(held) { $0 + $1.tokens } }

    func lease(_ bounds: QuotaBounds) -> TimeSpan { min(max(lease, bounds.lease), bounds.share) }

    /// When the spender's last lease ends.
    var leaseEnd: MonotonicTime {
        flight.last?.leaseEnd ?? applied?.leaseEnd ?? MonotonicTime.zero
    }

    var isIdle: Bool { held == 0 && flight.isEmpty && (applied?.shareRate ?? 0) == 0 }

    // MARK: Shares

    /// Since when the spender may be spending of a share without a report.
    func shareStart(_ now: MonotonicTime) -> MonotonicTime {
        applied?.shareStart ?? flight.first?.shareStart ?? now
    }

    /// The highest rate at which the spender may be spending: that of the applied share, or of a later one.
    var shareRateMax: UInt64 { flight.reduce(applied?.shareRate ?? 0) { max($0, $1.shareRate) } }

    private var shareEnd: MonotonicTime {
        var end = MonotonicTime.zero
        if let applied, applied.shareRate > 0 { end = applied.shareEnd }
        for grant in flight where grant.shareRate > 0 { end = max(end, grant.shareEnd) }
        return end
    }

    /// How much of its shares the spender may have spent by `time`, or may spend until then, in nanoseconds ×
    /// tokens a second. `nil`: how much all shares can come to.
    func accrued(until time: MonotonicTime?) -> UInt128 {
        let rate = shareRateMax
        guard rate > 0 else { return 0 }
        let end = shareEnd
        let start = shareStart(end)
        return UInt128(rate) * UInt128(min(time ?? end, end).since(start).nanoseconds)
    }

    // MARK: Events

    /// The spender has no counts under this lease accounting yet, or none any more: they begin with 0.
    mutating func beginCounting(_ now: MonotonicTime) {
        heard = now
        spent = 0
        shareSpent = 0
    }

    /// Notes what a request reports, and returns how many tokens the spender spent since the last report.
    mutating func report(_ request: QuotaRequest, _ bounds: QuotaBounds, now: MonotonicTime) -> UInt64 {
        heard = now
        let heldMost = leased
        if let index = flight.firstIndex(where: { $0.number == request.applied }) {
            applied = flight[index]
            // The report came within a quarter of the lease: half of it would do, with as much to spare.
            let length = lease(bounds)
            if now.since(flight[index].granted) < length / 4 { lease = length / 2 }
            flight.removeFirst(index + 1)
        } else if request.applied != applied?.number {
            // The lease accounting has forgotten the named grant, which has run out and is accounted for.
            flight.removeAll { $0.number <= request.applied }
            applied = nil
        }
        flight.removeAll { $0.number < request.floor }
        // The grant came to the spender after the lease accounting made it, so this start is not too late.
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

    /// The spender gave everything back.
    mutating func clear(_ now: MonotonicTime) {
        heard = now
        applied = nil
        flight.removeAll()
        held = 0
        hunger = 0
    }

    /// Voids what ran out by `now`, and calls `spent` for each part: when it ran out, how many leased tokens,
    /// and how much of a share (nanoseconds × tokens a second).
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
            // No report has named the grant. The grant may still be on its way, and void when it arrives.
            lease = max(lease, min(2 * flight[index].leaseEnd.since(flight[index].granted), bounds.share))
        }
        if shareRateMax > 0, shareEnd <= now {
            spent(shareEnd, 0, accrued(until: nil))
            applied?.shareRate = 0
            for index in flight.indices { flight[index].shareRate = 0 }
        }
        // An empty grant stays for a while, for the report that names it.
        flight.removeAll {
            $0.tokens == 0 && $0.shareRate == 0 && now.since($0.granted) > bounds.share
        }
    }
}
