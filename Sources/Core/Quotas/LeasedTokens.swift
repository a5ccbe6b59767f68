import Model

/// What a spender has of one project and kind: two leases at most, and a share.
struct LeasedTokens: Sendable {
    /// Tokens of the first lease, which the spender may spend until `expires`.
    var tokens: UInt64 = 0
    var expires = MonotonicTime.zero
    /// With fewer tokens than this in all leases, the spender asks for more.
    var lowWater: UInt64 = 0
    /// The part of `lowWater` that is left for the first lease. Invariant: lowWater − nextTokens, or 0,
    /// whenever nothing is pending.
    private var lowWaterOfFirst: UInt64 = 0
    /// Tokens that operations asked for since the last question.
    var asked: UInt64 = 0
    /// Leased tokens spent in this grantor epoch in all.
    var spent: UInt64 = 0
    /// Leased tokens granted in this grantor epoch in all. The spender must never spend more.
    var granted: UInt64 = 0

    /// A later lease, spent after the first.
    var nextTokens: UInt64 = 0
    var nextExpires = MonotonicTime.zero

    var grantorEpoch = Epoch(0)
    var applied: UInt64 = 0
    /// When the grant `applied` came.
    var appliedAt = MonotonicTime.zero
    var shareSpent: UInt64 = 0

    /// Tokens a second that may be spent from `shareStart` to `shareEnd` while the owner is silent.
    var shareRate: UInt64 = 0
    var shareStart = MonotonicTime.zero
    var shareEnd = MonotonicTime.zero
    /// Tokens of the share spent since `shareStart`.
    var shareUsed: UInt64 = 0

    struct Pending: Sendable {
        var number: UInt64
        var sent: MonotonicTime
        var needed: UInt64
    }
    /// Requests without an answer, oldest first; at most `pendingCountMax`.
    var pending: [Pending] = []
    /// The number of the last question's first request. Later requests repeat the question, and the first
    /// answer to any of them answers it. The spender takes the tokens of all other answers also.
    var question: UInt64 = 0
    /// What the last question asked for, for its repetitions.
    var demand: UInt64 = 0
    var needed: UInt64 = 0
    var askedSince = MonotonicTime.zero
    /// How often the spender has repeated the question.
    var repeats: UInt64 = 0
    /// How long the last answer took, and how long its lease is valid from the request on.
    var answerTime = TimeSpan.zero
    var lease = TimeSpan.zero
    var demandPerSecond: UInt64 = 0

    /// The owner had too few tokens: the spender does not ask again before this time.
    var blockedUntil = MonotonicTime.zero
    var blockedSince = MonotonicTime.zero
    /// The rate in the owner's last grant.
    var rate: QuotaRate?

    enum State: Hashable, Sendable {
        /// Nothing is held or awaited here.
        case idle(since: MonotonicTime)
        /// The spender looks here at each tick.
        case active
        /// Active, and the owner owes the answer to the last question.
        case asking(since: MonotonicTime)
    }
    var state = State.idle(since: .zero)
    /// Operations wait, and no `ready` has come for them since.
    var hasWaiting = false
    /// Ticks since the last operation.
    var quietTicks = 0
    var askedAtTick: UInt64 = 0

    var isActive: Bool { if case .idle = state { false } else { true } }
    var isAsking: Bool { owedSince != nil }
    /// Since when the owner owes an answer; `nil` if it owes none.
    var owedSince: MonotonicTime? { if case .asking(let since) = state { since } else { nil } }

    mutating func setLowWater(_ level: UInt64) {
        lowWater = level
        lowWaterOfFirst = level > nextTokens ? level - nextTokens : 0
    }

    /// The way of nearly every operation: the first lease has not run out, and keeps its low-water mark.
    @inline(__always)
    mutating func takeQuickly(_ count: UInt64, _ now: MonotonicTime) -> Bool {
        guard now < expires, tokens >= lowWaterOfFirst,
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

    /// Tokens of the share that have accrued and are not spent.
    func accruedShare(_ now: MonotonicTime) -> UInt64 {
        guard shareRate > 0, now < shareEnd else { return 0 }
        let accrued = UInt128(shareRate) * UInt128(now.since(shareStart).nanoseconds) / 1_000_000_000
        return UInt64(clamping: accrued) - min(shareUsed, UInt64(clamping: accrued))
    }

    /// Takes up to `count` accrued tokens of the share.
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
            // With a third lease at hand the two later leases end when the earlier of these two does.
            nextExpires = nextTokens == 0 ? end : min(end, nextExpires)
            nextTokens += count
        }
    }

    func isForgettable(_ now: MonotonicTime, _ bounds: QuotaBounds) -> Bool {
        guard case .idle(let since) = state else { return false }
        return grantorEpoch == Epoch(0) || now.since(since) >= bounds.share
    }

    var held: UInt64 { tokens + nextTokens }

    /// The time after which the spender repeats an unanswered request. The gap doubles each time, so that
    /// a slow answer still finds its request among the last few. It stays within half of the longest lease,
    /// because an answer after that would bring little.
    func repeatGap(_ bounds: QuotaBounds) -> TimeSpan {
        let most = max(bounds.tick, bounds.share / 2)
        let first = max(bounds.tick, min(2 * min(answerTime, bounds.share), most))
        return min(first.doubled(times: min(repeats, 20)), most)
    }

    func patience(_ bounds: QuotaBounds) -> TimeSpan {
        shareRate > 0 ? bounds.patience : bounds.patienceWithoutShare
    }

    /// The owner has not answered for so long that the spender may use its share.
    func ownerIsSilent(_ now: MonotonicTime, _ bounds: QuotaBounds) -> Bool {
        owedSince.map { now.since($0) >= patience(bounds) } ?? false
    }

    /// The owner has not answered for so long that operations wait for it no longer.
    func ownerIsGone(_ now: MonotonicTime, _ bounds: QuotaBounds) -> Bool {
        owedSince.map { now.since($0) >= bounds.patienceWithoutShare } ?? false
    }
}
