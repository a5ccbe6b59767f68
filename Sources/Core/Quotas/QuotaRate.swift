import Model

/// A number of tokens in a number of seconds, and how many tokens may be saved up.
///
/// A rate is a fraction, because FCM's limits are: 600,000 a minute, 5,000 an hour. Its period is whole
/// seconds, so that a nanosecond's refill is a whole number of the units in which `TokenBucket` counts.
public struct QuotaRate: Hashable, Sendable {
    /// The largest count and burst; larger values are cut to this one.
    public static let countMax: UInt64 = 1_000_000_000_000
    public static let secondsMax: UInt32 = 86_400

    /// Tokens in each period, 0...countMax. 0 admits the burst and then nothing.
    public let count: UInt64
    /// The length of the period, 1...secondsMax.
    public let seconds: UInt32
    /// How many tokens a full bucket holds, 0...countMax.
    public let burst: UInt64

    /// Values outside the stated ranges are brought into them.
    public init(count: UInt64, perSeconds seconds: UInt32 = 1, burst: UInt64) {
        self.count = min(count, QuotaRate.countMax)
        self.seconds = min(max(seconds, 1), QuotaRate.secondsMax)
        self.burst = min(burst, QuotaRate.countMax)
    }

    /// Whole tokens a second, rounded up, as refusals show them.
    public var perSecond: UInt64 { (count + UInt64(seconds) - 1) / UInt64(seconds) }

    /// Whole tokens a minute, rounded up.
    public var perMinute: UInt64 { (count * 60 + UInt64(seconds) - 1) / UInt64(seconds) }

    /// Whole tokens that come in a time, rounded up.
    public func inflow(in length: TimeSpan) -> UInt64 {
        UInt64(clamping: (UInt128(count) * UInt128(length.nanoseconds) + scale - 1) / scale)
    }

    /// Units in a token: a bucket counts in parts of which exactly `count` come in each nanosecond.
    var scale: UInt128 { UInt128(seconds) * 1_000_000_000 }
    var burstUnits: UInt128 { UInt128(burst) * scale }
}
