import Model

/// Counts the new connections of each address: so many a second, and ten seconds' worth of them at once, as
/// when the phones behind one address come back together. `LimitTable` says which addresses it forgets.
public struct ConnectionLimiter: Sendable {
    /// The largest limit. Past it the counts of a minute would not fit into 64 bits.
    public static let perSecondMax = 1_000_000
    private static let periods: LimitTable.Periods = (.seconds(10), .seconds(60))

    private let limits: LimitTable.Limits
    private var table: LimitTable

    /// `perSecond`: 1...perSecondMax. `salt` must be random, so that a client that chooses its addresses
    /// cannot choose their cells.
    public init(perSecond: Int, countMax: Int = 1 << 16, salt: UInt64) {
        let count = UInt64(clamping: min(max(perSecond, 1), ConnectionLimiter.perSecondMax))
        limits = (count * 10, count * 60)
        table = LimitTable(
            periods: ConnectionLimiter.periods, countMax: countMax, sweepCount: 2, evictionSample: 16,
            salt: salt)
    }

    /// Addresses that are remembered.
    public var count: Int { table.count }

    /// Counts a connection, or refuses it if the address is over its limit.
    public mutating func take(_ address: UInt64, now: MonotonicTime) -> Bool {
        // A key is never 0. Addresses 0 and 1 share a key; neither is an address of a network.
        table.take(max(1, address), limits, now: now) == nil
    }
}
