import Model

/// What a spender has of one project and kind.
struct QuotaPurse: Sendable {
    /// Spendable until `expires`.
    var tokens: UInt64 = 0
    var expires = MonotonicTime(nanoseconds: 0)
    /// Below this much in all, more is asked for.
    var lowWater: UInt64 = 0
    /// What `lowWater` leaves of it for the first lease.
    /// Invariant: lowWater − nextTokens, or 0, whenever nothing is pending.
    private var lowWaterOfFirst: UInt64 = 0
    /// Tokens asked for since the last request went out, by operations.
    var asked: UInt64 = 0
    /// Under the present ledger, all in all.
    var spent: UInt64 = 0
    /// The same of what was granted: more is never spent.
    var granted: UInt64 = 0

    /// A later lease, spent after the first.
    var nextTokens: UInt64 = 0
    var nextExpires = MonotonicTime(nanoseconds: 0)

    var ledger = Epoch(0)
    var applied: UInt64 = 0
    /// When that grant came.
    var appliedAt = MonotonicTime(nanoseconds: 0)
    var shareSpent: UInt64 = 0

    /// Tokens a second that may be spent from `shareStart` to `shareEnd` while the owner is silent.
    var shareRate: UInt64 = 0
    var shareStart = MonotonicTime(nanoseconds: 0)
    var shareEnd = MonotonicTime(nanoseconds: 0)
    /// Spent since `shareStart`.
    var shareUsed: UInt64 = 0

    struct Pending: Sendable {
        var number: UInt64
        var sent: MonotonicTime
        var needed: UInt64
    }
    /// Requests without an answer, oldest first; at most `pendingCountMax`.
    var pending: [Pending] = []
    /// The first request of the last question; those after it repeat it, and one answer to any of them is
    /// the question's. What the others bring is taken, too.
    var question: UInt64 = 0
    /// The last question has no answer yet.
    var isAsking = false
    /// Since when the owner owes an answer; meaningful while it does.
    var owedSince = MonotonicTime(nanoseconds: 0)
    /// The last request's demand, for its repetition.
    var demand: UInt64 = 0
    var needed: UInt64 = 0
    var askedSince = MonotonicTime(nanoseconds: 0)
    /// How often it was repeated.
    var repeats: UInt64 = 0
    /// How long the last answer took, nanoseconds, and for how long what it brought was valid.
    var answerTime: UInt64 = 0
    var lease: UInt64 = 0
    var demandPerSecond: UInt64 = 0

    /// The owner had not enough: not asked again before this.
    var blockedUntil = MonotonicTime(nanoseconds: 0)
    var blockedSince = MonotonicTime(nanoseconds: 0)
    /// The rate that the owner last told.
    var rate: QuotaRate?

    var isActive = false
    /// Operations were let wait and have not been woken since.
    var hasWaiting = false
    /// Since when nobody looks after it; meaningful while nobody does.
    var inactiveSince = MonotonicTime(nanoseconds: 0)
    /// Ticks since the last operation.
    var quietTicks = 0
    var askedAtTick: UInt64 = 0

    mutating func setLowWater(_ level: UInt64) {
        lowWater = level
        lowWaterOfFirst = level > nextTokens ? level - nextTokens : 0
    }

    /// What nearly every operation needs: one lease that has not run out and is not half spent.
    @inline(__always)
    mutating func takeQuickly(_ count: UInt64, _ now: MonotonicTime) -> Bool {
        guard now.nanoseconds < expires.nanoseconds, tokens >= lowWaterOfFirst,
            tokens - lowWaterOfFirst >= count
        else { return false }
        tokens -= count
        spent &+= count
        asked &+= count
        return true
    }

    /// Drops what ran out.
    mutating func lapse(_ now: MonotonicTime) {
        if now >= expires { tokens = 0 }
        if now >= nextExpires, nextTokens > 0 {
            nextTokens = 0
            setLowWater(lowWater)
        }
        if tokens == 0, nextTokens > 0 { beginNext() }
        if now >= shareEnd { shareRate = 0 }
    }

    private mutating func beginNext() {
        tokens = nextTokens
        expires = nextExpires
        nextTokens = 0
        setLowWater(lowWater)
    }

    /// Takes up to `count` of the leased tokens; `lapse` must have been called.
    mutating func spend(_ count: UInt64) -> UInt64 {
        let first = min(count, tokens)
        tokens -= first
        let second = min(count - first, nextTokens)
        nextTokens -= second
        spent += first + second
        if tokens == 0, nextTokens > 0 { beginNext() }
        return first + second
    }

    /// What has accrued of the share and is not spent.
    func accruedShare(_ now: MonotonicTime) -> UInt64 {
        guard shareRate > 0, now < shareEnd else { return 0 }
        let accrued = UInt128(shareRate) * UInt128(now.since(shareStart)) / 1_000_000_000
        return UInt64(clamping: accrued) - min(shareUsed, UInt64(clamping: accrued))
    }

    /// Takes up to `count` of what has accrued of the share.
    mutating func spendShare(_ count: UInt64, _ now: MonotonicTime) -> UInt64 {
        let taken = min(accruedShare(now), count)
        shareUsed += taken
        shareSpent += taken
        return taken
    }

    mutating func add(_ count: UInt64, until end: MonotonicTime) {
        guard count > 0 else { return }
        granted &+= count
        if tokens == 0 {
            tokens = count
            expires = end
        } else {
            // With a third lease at hand the two later ones end when the earlier of them does.
            nextExpires = nextTokens == 0 ? end : min(end, nextExpires)
            nextTokens += count
        }
    }

    func isForgettable(_ now: MonotonicTime, _ bounds: QuotaBounds) -> Bool {
        !isActive && (ledger == Epoch(0) || now.since(inactiveSince) >= bounds.share)
    }

    var held: UInt64 { tokens + nextTokens }

    /// When the last request is repeated for want of an answer: later each time, so that an answer that takes
    /// longer still finds its request among the last few. Past half of the longest lease it would bring
    /// little.
    func repeatGap(_ bounds: QuotaBounds) -> UInt64 {
        let most = max(bounds.tick, bounds.share / 2)
        let first = max(bounds.tick, min(2 * min(answerTime, bounds.share), most))
        return min(first << min(repeats, 20), most)
    }

    func patience(_ bounds: QuotaBounds) -> UInt64 {
        shareRate > 0 ? bounds.patience : bounds.patienceWithoutShare
    }

    /// The owner has not answered for so long that the share may be used.
    func ownerIsSilent(_ now: MonotonicTime, _ bounds: QuotaBounds) -> Bool {
        isAsking && now.since(owedSince) >= patience(bounds)
    }

    /// The owner has not answered for so long that nothing waits for it any more.
    func ownerIsGone(_ now: MonotonicTime, _ bounds: QuotaBounds) -> Bool {
        isAsking && now.since(owedSince) >= bounds.patienceWithoutShare
    }
}
