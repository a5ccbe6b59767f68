import Model

/// The lengths and bounds of quotas, the same on all nodes of a cluster: `lease`, `share` and `inflow` are
/// what an owner's promises mean to its successor.
public struct QuotaBounds: Hashable, Sendable {
    /// How long leased tokens are valid, nanoseconds. They are sized to about three quarters of it.
    public var lease: UInt64 = .milliseconds(100)
    /// How long a fallback share is valid: the longest time for which an owner's promise can bind its
    /// successor.
    public var share: UInt64 = .seconds(1)
    /// How long tokens flow into a bucket that began empty before its owner gives any out.
    public var inflow: UInt64 = .milliseconds(100)
    /// How much demand a lease is meant to cover.
    public var leaseCover: UInt64 = .milliseconds(75)
    /// A refused spender asks again after this long at the earliest, and the other at the latest.
    public var retryMin: UInt64 = .milliseconds(2)
    public var retryMax: UInt64 = .milliseconds(100)
    /// How often a spender with anything on its hands looks after it.
    public var tick: UInt64 = .milliseconds(25)
    /// How long a spender that has a share waits for the owner before it lives on the share.
    public var patience: UInt64 = .milliseconds(50)
    /// How long operations wait that no share can carry: long enough for the bucket to find another owner.
    public var patienceWithoutShare: UInt64 = .seconds(5)

    /// Spenders of one project and kind at once. More get nothing.
    public var accountCountMax = 1024
    /// More grants to one spender that it has not said to have got are not made.
    public var flightCountMax = 8
    /// Shares may hold at most this part of the burst back.
    public var shareDivisor: UInt64 = 8
    /// A lease is at most this part of what can be granted, unless operations wait for more.
    public var leaseDivisor: UInt64 = 8
    /// No share is smaller, tokens a second: it would not have a token at hand when it is needed. Who has
    /// none waits longer for the owner instead.
    public var shareMin: UInt64 = 100
    /// Projects of one spender at once. When more come, those that hold nothing are forgotten; if none does,
    /// the new one is refused.
    public var projectCountMax = 1 << 16
    /// Requests of one spender without an answer, for one project and kind.
    public var pendingCountMax = 4

    public init() {}

    /// What must hold of them, if it does not.
    public var mistake: String? {
        if lease == 0 || tick == 0 || leaseCover == 0 { return "a lease needs some time" }
        if share < lease { return "a promise binds a successor for as long as a lease is valid" }
        if leaseCover > lease { return "a lease is sized to no more than the time for which it is valid" }
        if retryMin > retryMax { return "the earliest retry is before the latest" }
        if patience > patienceWithoutShare { return "who has a share waits no longer than who has none" }
        let counts = [accountCountMax, flightCountMax, projectCountMax, pendingCountMax]
        if counts.contains(where: { $0 < 1 }) { return "one is the least of everything" }
        if flightCountMax < pendingCountMax {
            return "an owner answers as many requests as a spender has without an answer"
        }
        if shareDivisor == 0 || leaseDivisor == 0 { return "nothing is divided by nothing" }
        return nil
    }
}
