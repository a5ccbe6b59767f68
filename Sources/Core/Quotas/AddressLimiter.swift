import Model

/// Counts per address, in a minute and in a day: registrations that only the app's own key vouches for,
/// devices' subscription changes and other calls, refused assertions. `LimitTable` says how, and which
/// addresses it forgets.
public struct AddressLimiter: Sendable {
    public struct Limits: Hashable, Sendable {
        /// The largest limit: what is missing from a day's bucket must fit into 64 bits.
        public static let countMax: UInt32 = 200_000

        public let perMinute: UInt32
        /// `nil`: only a minute has a bound.
        public let perDay: UInt32?
        public init(perMinute: UInt32, perDay: UInt32?) {
            self.perMinute = min(perMinute, Limits.countMax)
            self.perDay = perDay.map { min($0, Limits.countMax) }
        }
    }

    public let limits: Limits
    private var table: LimitTable

    /// `salt` must be random, so that a client that chooses its addresses cannot choose their cells.
    public init(_ limits: Limits, countMax: Int = 1 << 16, salt: UInt64) {
        self.limits = limits
        // If a day has no bound, both of the table's limits are the minute's.
        table = LimitTable(
            periods: (.seconds(60), .seconds(limits.perDay == nil ? 60 : 86_400)), countMax: countMax,
            sweepCount: 2, evictionSample: 16, salt: salt)
    }

    public var count: Int { table.count }

    /// Counts one action of the address, or returns the limit that the action would pass.
    public mutating func take(_ address: UInt64, now: MonotonicTime) -> QuotaRefusal? {
        table.take(AddressLimiter.key(address), both, now: now).map(AddressLimiter.refusal)
    }

    /// The limit that a further action would pass; `nil` if there is none.
    public func look(_ address: UInt64, now: MonotonicTime) -> QuotaRefusal? {
        table.look(AddressLimiter.key(address), both, now: now).map(AddressLimiter.refusal)
    }

    private var both: LimitTable.Limits {
        (UInt64(limits.perMinute), UInt64(limits.perDay ?? limits.perMinute))
    }

    /// A key is never 0. Addresses 0 and 1 share a key; neither is an address of a network.
    private static func key(_ address: UInt64) -> UInt64 { max(1, address) }

    private static func refusal(_ refusal: LimitTable.Refusal) -> QuotaRefusal {
        QuotaRefusal(
            kind: refusal.isLong ? .addressDay : .addressMinute, limit: refusal.limit,
            retryDelay: refusal.delay)
    }
}
