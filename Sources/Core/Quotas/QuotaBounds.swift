import Model

/// Lengths and bounds of quotas. A server has `lease`, `share` and `inflow` of `StoredRules`: a new owner
/// knows by them for how long the former owner's grants bind it.
public struct QuotaBounds: Hashable, Sendable {
    /// For how long leased tokens are valid at least. A lease covers about three quarters of it.
    public var lease = StoredRules.quotaLease
    /// For how long a fallback share is valid, and a lease at most: no grant of a former owner binds a new
    /// owner for longer.
    public var share = StoredRules.quotaShare
    /// For how long tokens flow into a bucket that began empty before its owner grants any.
    public var inflow = StoredRules.quotaInflow
    /// How much demand a lease is meant to cover at least.
    public var leaseCover: TimeSpan = .milliseconds(75)
    /// A refused spender asks again after `retryMin` at the earliest, and after `retryMax` at the latest.
    public var retryMin: TimeSpan = .milliseconds(2)
    public var retryMax: TimeSpan = .milliseconds(100)
    /// How often a spender checks leased tokens that are held or awaited.
    public var tick: TimeSpan = .milliseconds(25)
    /// How long a spender that has a share waits for the owner before it spends the share.
    public var patience: TimeSpan = .milliseconds(50)
    /// How long operations wait that no share can carry: long enough for the bucket to get another owner.
    public var patienceWithoutShare: TimeSpan = .seconds(5)

    /// Spenders of one project and kind at once. Further spenders get nothing.
    public var accountCountMax = 1024
    /// How many grants to one spender may be without a report of their arrival. The owner makes no more.
    public var flightCountMax = 8
    /// All shares together reserve at most one part in this many of the burst.
    public var shareDivisor: UInt64 = 8
    /// A lease is at most one part in this many of what can be granted, unless operations wait for more.
    public var leaseDivisor: UInt64 = 8
    /// The smallest share, tokens a second: a smaller one would have no token at hand when an operation needs
    /// it. A spender without a share waits longer for the owner instead.
    public var shareMin: UInt64 = 100
    /// Projects of one spender at once. To take one more, the spender forgets those that hold nothing; if all
    /// hold something, it refuses the new one.
    public var projectCountMax = 1 << 16
    /// Requests of one spender without an answer, for one project and kind.
    public var pendingCountMax = 4

    public init() {}

    /// The first rule that the bounds break; `nil` if they break none.
    public var mistake: String? {
        if lease == .zero || tick == .zero || leaseCover == .zero {
            return "`lease`, `tick` and `leaseCover` must be longer than zero"
        }
        if share < lease { return "`share` must be at least `lease`" }
        if leaseCover > lease { return "`leaseCover` must be at most `lease`" }
        if retryMin > retryMax { return "`retryMin` must be at most `retryMax`" }
        if patience > patienceWithoutShare { return "`patience` must be at most `patienceWithoutShare`" }
        let counts = [accountCountMax, flightCountMax, projectCountMax, pendingCountMax]
        if counts.contains(where: { $0 < 1 }) { return "each of the counts must be at least 1" }
        if flightCountMax < pendingCountMax {
            return "`flightCountMax` must be at least `pendingCountMax`"
        }
        if shareDivisor == 0 || leaseDivisor == 0 {
            return "`shareDivisor` and `leaseDivisor` must be at least 1"
        }
        return nil
    }
}
