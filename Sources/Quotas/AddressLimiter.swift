import Model

/// Counts what is done from one address, in a minute and in a day: registrations that nobody but the app's
/// own key vouches for, and assertions that were refused. How, and whom it forgets: `LimitTable`.
public struct AddressLimiter: Sendable {
    public struct Limits: Hashable, Sendable {
        /// No limit is larger: what is missing from a day's has to fit into 64 bits.
        public static let countMax: UInt32 = 200_000

        public let perMinute: UInt32
        public let perDay: UInt32
        public init(perMinute: UInt32, perDay: UInt32) {
            self.perMinute = min(perMinute, Limits.countMax)
            self.perDay = min(perDay, Limits.countMax)
        }
    }

    public let limits: Limits
    private var table: LimitTable

    /// `salt` is random, so that nobody who chooses his addresses chooses where they stand.
    public init(_ limits: Limits, countMax: Int = 1 << 16, salt: UInt64) {
        self.limits = limits
        table = LimitTable(
            periods: (.seconds(60), .seconds(86_400)), countMax: countMax, sweepCount: 2, evictionSample: 16,
            salt: salt)
    }

    public var count: Int { table.count }

    /// Takes one for the address with this key, or says which limit it would pass.
    public mutating func take(_ address: UInt64, now: MonotonicTime) -> QuotaRefusal? {
        table.take(AddressLimiter.key(address), both, now: now).map(AddressLimiter.refusal)
    }

    /// Which limit one more would pass.
    public func look(_ address: UInt64, now: MonotonicTime) -> QuotaRefusal? {
        table.look(AddressLimiter.key(address), both, now: now).map(AddressLimiter.refusal)
    }

    private var both: LimitTable.Limits { (UInt64(limits.perMinute), UInt64(limits.perDay)) }

    /// No key is 0. The two addresses that become one are of no network.
    private static func key(_ address: UInt64) -> UInt64 { max(1, address) }

    private static func refusal(_ refusal: LimitTable.Refusal) -> QuotaRefusal {
        QuotaRefusal(
            kind: refusal.isLong ? .addressDay : .addressMinute, limit: refusal.limit,
            retryDelay: refusal.delay)
    }
}
