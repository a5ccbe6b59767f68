import Model

/// A token bucket in exact integers: over any window it gives at most burst + rate × window, to the unit.
///
/// The bucket counts in units: `count` units come in each nanosecond, and `seconds × 10⁹` units make a token.
/// So nothing is ever rounded, and no remainder is lost however often the bucket is asked. No timer refills
/// the bucket: each question adds what has come since the last one.
public struct TokenBucket: Hashable, Sendable {
    public private(set) var rate: QuotaRate
    /// Invariant: units <= rate.burstUnits.
    var units: UInt128
    /// The moment up to which the refill has been added. An earlier time adds nothing.
    private(set) var refilled: MonotonicTime

    /// A full bucket.
    public init(_ rate: QuotaRate, full now: MonotonicTime) {
        self.rate = rate
        units = rate.burstUnits
        refilled = now
    }

    /// A bucket without a token, which begins to fill at `start` (which may be in the future).
    public init(_ rate: QuotaRate, emptyAt start: MonotonicTime) {
        self.rate = rate
        units = 0
        refilled = start
    }

    /// A bucket with the units of another bucket.
    init(_ rate: QuotaRate, units: UInt128, refilled: MonotonicTime) {
        self.rate = rate
        self.units = min(units, rate.burstUnits)
        self.refilled = refilled
    }

    /// Adds what has come since the last refill.
    public mutating func refill(_ now: MonotonicTime) {
        guard now > refilled else { return }
        // 2⁶⁴ × 10¹² and 10¹² × 86,400 × 10⁹ both stay below 2¹²⁸.
        units = min(units + UInt128(now.since(refilled).nanoseconds) * UInt128(rate.count), rate.burstUnits)
        refilled = now
    }

    /// Whole tokens in the bucket.
    public mutating func level(_ now: MonotonicTime) -> UInt64 {
        refill(now)
        return UInt64(units / rate.scale)
    }

    /// The time until the bucket will hold `wanted` units if no one takes any; `nil` if it never will.
    /// `reserved` units in the bucket do not count.
    func delay(until wanted: UInt128, beside reserved: UInt128, _ now: MonotonicTime) -> TimeSpan? {
        let needed = wanted + reserved
        let waitForStart = refilled.since(now)
        guard needed > units else { return waitForStart }
        guard rate.count > 0, needed <= rate.burstUnits else { return nil }
        let nanoseconds = (needed - units + UInt128(rate.count) - 1) / UInt128(rate.count)
        return TimeSpan(nanoseconds: UInt64(clamping: nanoseconds + UInt128(waitForStart.nanoseconds)))
    }

    /// Removes units that were spent elsewhere, and at most what the bucket holds.
    mutating func remove(_ spent: UInt128) { units -= min(spent, units) }

    /// Changes the rate. Tokens that came at the old rate stay, as far as the new burst has room.
    public mutating func change(to rate: QuotaRate, _ now: MonotonicTime) {
        refill(now)
        let (whole, rest) = units.quotientAndRemainder(dividingBy: self.rate.scale)
        units = min(whole * rate.scale + rest * rate.scale / self.rate.scale, rate.burstUnits)
        self.rate = rate
    }
}
