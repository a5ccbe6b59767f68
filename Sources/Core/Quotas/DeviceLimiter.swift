import Model

/// Counts messages addressed to single devices: each device has a limit for a minute and one for an hour.
/// `LimitTable` says how, and which devices it forgets.
public struct DeviceLimiter: Sendable {
    static let minute: TimeSpan = .seconds(60)
    static let hour: TimeSpan = .seconds(3600)

    private var table: LimitTable

    /// Bounds as in `LimitTable`.
    public init(countMax: Int = 1 << 18, sweepCount: Int = 2, evictionSample: Int = 16) {
        table = LimitTable(
            periods: (DeviceLimiter.minute, DeviceLimiter.hour), countMax: countMax, sweepCount: sweepCount,
            evictionSample: evictionSample)
    }

    public var count: Int { table.count }

    /// Takes one message for the device, or returns the limit that the message would pass.
    public mutating func take(
        _ partition: PartitionID, _ index: DeviceIndex, within limits: QuotaLimits, now: MonotonicTime
    ) -> QuotaRefusal? {
        let key = (UInt64(partition.rawValue) << 28 | UInt64(index.rawValue)) + 1
        let most = (short: UInt64(limits.devicePerMinute), long: UInt64(limits.devicePerHour))
        return table.take(key, most, now: now).map {
            QuotaRefusal(
                kind: $0.isLong ? .deviceHour : .deviceMinute, limit: $0.limit, retryDelay: $0.delay)
        }
    }
}
