import Model

// What a spender (one for each gateway loop) and a grantor (at the owner of a project's home partition) say
// to each other. A message may be lost, doubled, delayed and overtaken. Nothing in it is a point in time,
// because two machines' monotonic clocks share no zero: lengths only, and they run from when the *request*
// left the spender.

/// One life of one spender. A spender that starts again has another, so the tokens of its former life lapse
/// unasked.
public struct SpenderID: Hashable, Sendable {
    public let rawValue: UInt64
    public init(_ rawValue: UInt64) { self.rawValue = rawValue }
}

/// Asks for tokens, and tells what became of those that were granted.
public struct QuotaRequest: Hashable, Sendable {
    public var spender: SpenderID
    public var project: ProjectNumber
    public var kind: QuotaKind
    /// Rises with each request of a spender. What comes with a lower one than was already handled is ignored.
    public var number: UInt64
    /// Which ledger the reports below are about; 0 where the spender has had no grant yet.
    public var ledger: Epoch
    /// The number of the last grant that was applied. Grants below it that were not applied never will be.
    public var applied: UInt64
    /// Grants with a lower number that were not applied yet never will be either: the spender gave up on
    /// them.
    public var floor: UInt64
    /// Tokens spent under this ledger, all in all, apart from those of fallback shares.
    public var spent: UInt64
    /// Tokens spent of fallback shares under this ledger, all in all.
    public var shareSpent: UInt64
    /// Nanoseconds from when the grant `applied` arrived to when its share's accrual, as it is now, began:
    /// with each new request a spender forgoes what had accrued.
    public var shareOffset: UInt64
    /// Unspent tokens of leases that have not run out.
    public var held: UInt64
    /// Tokens wanted for the next three quarters of a lease; 0 with `isRelease`.
    public var demand: UInt64
    /// Tokens that an operation waits for, at most `demand`.
    public var needed: UInt64
    /// Tokens a second that were asked for lately; the fallback share is sized by it.
    public var demandPerSecond: UInt64
    /// The spender gives back what it holds, its share too, and will apply no grant that is still on its way.
    public var isRelease: Bool
}

/// The answer to one request.
public struct QuotaGrant: Hashable, Sendable {
    public var spender: SpenderID
    public var project: ProjectNumber
    public var kind: QuotaKind
    /// The request's number.
    public var number: UInt64
    /// Rises with each owner that did not take the former one's state over.
    public var ledger: Epoch
    /// Leased tokens, at most the demand.
    public var tokens: UInt64
    /// Nanoseconds from when the request left, after which the tokens are void.
    public var leaseLength: UInt64
    /// The fallback share, tokens a second. It takes the place of every earlier one.
    public var shareRate: UInt64
    /// Nanoseconds from when the request left, after which the share is void.
    public var shareLength: UInt64
    /// 0 where what was needed is granted; else nanoseconds until it is worth asking again.
    public var retryAfter: UInt64
    /// The project's rate, for the refusals that the spender words.
    public var rate: QuotaRate
}
