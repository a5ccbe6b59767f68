/// Counts of durations in buckets that grow with the value. A percentile is right to within 1.6 % at every
/// size, and recording a value is a shift and an add.
///
/// Each value below 64 has its own bucket. Above 64 each power of two is cut into 64 equal buckets (the
/// layout of HdrHistogram with six bits of precision). The caller chooses the unit; here it is always
/// nanoseconds.
public struct Histogram: Sendable {
    private static let bits = 6
    private static let bucketCount = (64 - bits + 1) << bits

    private var buckets = [UInt64](repeating: 0, count: bucketCount)
    public private(set) var count: UInt64 = 0
    public private(set) var max: UInt64 = 0
    private var sum: UInt64 = 0

    public mutating func record(_ value: UInt64) {
        buckets[Histogram.bucket(of: value)] += 1
        count += 1
        sum &+= value
        if value > max { max = value }
    }

    public var mean: Double { count == 0 ? 0 : Double(sum) / Double(count) }

    /// The upper end of the smallest bucket at which `fraction` (0...1) of the values lie at or below, and
    /// never more than the largest value; 0 if nothing was recorded.
    public func percentile(_ fraction: Double) -> UInt64 {
        guard count > 0 else { return 0 }
        let bounded = Swift.min(Swift.max(fraction, 0), 1)
        let wanted = Swift.max(1, UInt64((Double(count) * bounded).rounded(.up)))
        var seen: UInt64 = 0
        for (index, number) in buckets.enumerated() {
            seen += number
            if seen >= wanted { return Swift.min(Histogram.upperEnd(of: index), max) }
        }
        return max
    }

    static func bucket(of value: UInt64) -> Int {
        guard value >= 1 << bits else { return Int(value) }
        let shift = 63 - bits - value.leadingZeroBitCount
        return (shift + 1) << bits | Int(value >> UInt64(shift)) & ((1 << bits) - 1)
    }

    static func upperEnd(of bucket: Int) -> UInt64 {
        guard bucket >= 1 << bits else { return UInt64(bucket) }
        let shift = UInt64(bucket >> bits - 1)
        let lead = UInt64(bucket & ((1 << bits) - 1) | 1 << bits)
        return (lead << shift) | ((1 << shift) - 1)
    }
}
