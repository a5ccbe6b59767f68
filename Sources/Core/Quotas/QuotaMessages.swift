import Model

// Messages between a spender (one for each gateway loop) and a grantor (at the owner of a project's home
// partition). A message may be lost, doubled, delayed and overtaken. A message holds no point in time,
// because two machines' monotonic clocks share no zero. It holds lengths, which run from when the *request*
// left the spender.

/// One run of one spender. A spender that starts again has another id, so the tokens of its previous run
/// expire without a report.
public struct SpenderID: Hashable, Sendable {
    public let rawValue: UInt64
    public init(_ rawValue: UInt64) { self.rawValue = rawValue }
}

/// Asks for tokens, and reports what the spender has done with earlier grants.
public struct QuotaRequest: Hashable, Sendable {
    public var spender: SpenderID
    public var project: ProjectNumber
    public var kind: QuotaKind
    /// Rises with each request of a spender. The lease accounting ignores a number not above all that it has
    /// handled.
    public var number: UInt64
    /// The epoch of the accounting that the reports below are about; 0 if the spender has had no grant yet.
    public var grantorEpoch: Epoch
    /// The number of the last grant that the spender applied. It will apply no grant with a lower number.
    public var applied: UInt64
    /// The spender will apply no grant with a number below this one either: it gave up on those requests.
    public var floor: UInt64
    /// Tokens spent in this grantor epoch in all, without those of fallback shares.
    public var spent: UInt64
    /// Tokens of fallback shares spent in this grantor epoch in all.
    public var shareSpent: UInt64
    /// The time from the arrival of the grant `applied` to the present start of its share's accrual: with
    /// each new question a spender forgoes what has accrued.
    public var shareOffset: TimeSpan
    /// Unspent tokens of leases that have not run out.
    public var held: UInt64
    /// Tokens that the spender wants for about the next three quarters of a lease; 0 with `isRelease`.
    public var demand: UInt64
    /// Tokens that an operation waits for, at most `demand`.
    public var needed: UInt64
    /// Tokens a second that operations asked for lately; the owner sizes the fallback share by it.
    public var demandPerSecond: UInt64
    /// The spender gives back its tokens and its share, and will apply no grant that is still on its way.
    public var isRelease: Bool
}

/// The answer to one request.
public struct QuotaGrant: Hashable, Sendable {
    public var spender: SpenderID
    public var project: ProjectNumber
    public var kind: QuotaKind
    /// The request's number.
    public var number: UInt64
    /// Rises with each owner that did not take over its predecessor's accountings.
    public var grantorEpoch: Epoch
    /// Leased tokens, at most the demand.
    public var tokens: UInt64
    /// The tokens are void this long after the request left the spender.
    public var leaseLength: TimeSpan
    /// The fallback share, tokens a second. It replaces every earlier one.
    public var shareRate: UInt64
    /// The share is void this long after the request left the spender.
    public var shareLength: TimeSpan
    /// 0 if `tokens` cover what is needed; otherwise the time until the spender should ask again.
    public var retryAfter: TimeSpan
    /// The project's rate, for the texts of the spender's refusals.
    public var rate: QuotaRate
}
