import Model

/// Counts messages addressed to single devices: at most so many a minute and so many an hour to each.
///
/// Nearly all devices get none, so a device has an entry only while one of its two buckets is not full; the
/// entry holds what is *missing* from each. Entries stand in one flat table (open addressing, 40 bytes
/// each), and each message looks at a few others to see whether they can be forgotten, so that no timer is
/// needed.
///
/// When more than `countMax` devices are short of something at once, of some entries the one that is
/// soonest full is forgotten: the table stays bounded, and a device gets at most what it was short of beyond
/// its limit.
public struct DeviceLimiter: Sendable {
    struct Entry: Sendable {
        /// Partition and index, plus one; 0 where nobody stands.
        var key: UInt64 = 0
        var refilled: UInt64 = 0
        /// What is missing, in tokens × nanoseconds of the period: at most 10⁶ × 3.6 × 10¹², which fits.
        var minuteMissing: UInt64 = 0
        var hourMissing: UInt64 = 0
        /// When both buckets will be full again.
        var full: UInt64 = 0
    }

    static let minute: UInt64 = .seconds(60)
    static let hour: UInt64 = .seconds(3600)

    public let countMax: Int
    private let sweepCount: Int
    private let evictionSample: Int
    public private(set) var count = 0
    private var entries: [Entry]
    private var hand = 0

    /// `countMax` entries at most, rounded up to a power of two; 80 bytes of memory for each once they are
    /// used. Each message looks at `sweepCount` others; `evictionSample` are looked at where one must go.
    public init(countMax: Int = 1 << 18, sweepCount: Int = 2, evictionSample: Int = 16) {
        precondition(sweepCount > 0 && evictionSample > 0, "who looks at nobody forgets nobody")
        (self.sweepCount, self.evictionSample) = (sweepCount, evictionSample)
        var size = 16
        while size < countMax { size *= 2 }
        self.countMax = size
        entries = Array(repeating: Entry(), count: 32)
    }

    /// Takes one message for the device, or says which limit it would pass. `nil` where it may be sent.
    public mutating func take(
        _ partition: PartitionID, _ index: DeviceIndex, _ limits: QuotaLimits, now: MonotonicTime
    ) -> QuotaRefusal? {
        let key = (UInt64(partition.rawValue) << 28 | UInt64(index.rawValue)) + 1
        let (perMinute, perHour) = (UInt64(limits.devicePerMinute), UInt64(limits.devicePerHour))
        sweep(now)
        var cell = find(key)
        var entry = entries[cell]
        let isNew = entry.key == 0
        if isNew { entry = Entry(key: key, refilled: now.nanoseconds) }
        DeviceLimiter.refill(&entry, perMinute, perHour, now)
        if let refusal = DeviceLimiter.refusal(entry, perMinute, perHour) {
            if !isNew { entries[cell] = entry }
            return refusal
        }
        entry.minuteMissing += DeviceLimiter.minute
        entry.hourMissing += DeviceLimiter.hour
        // The limits are not 0, or the message would have been refused.
        let delay = max(entry.minuteMissing / perMinute, entry.hourMissing / perHour) + 1
        entry.full = now.advanced(by: delay).nanoseconds
        if isNew {
            cell = makeRoom(for: key, at: cell)
            count += 1
        }
        entries[cell] = entry
        return nil
    }

    private static func refusal(_ entry: Entry, _ perMinute: UInt64, _ perHour: UInt64) -> QuotaRefusal? {
        func check(_ kind: QuotaKind, _ missing: UInt64, _ limit: UInt64, _ period: UInt64) -> QuotaRefusal? {
            let room = limit * period
            guard missing + period > room else { return nil }
            let delay = limit == 0 ? period : (missing + period - room + limit - 1) / limit
            return QuotaRefusal(kind: kind, limit: limit, retryDelay: delay)
        }
        return check(.deviceMinute, entry.minuteMissing, perMinute, minute)
            ?? check(.deviceHour, entry.hourMissing, perHour, hour)
    }

    private static func refill(
        _ entry: inout Entry, _ perMinute: UInt64, _ perHour: UInt64, _ now: MonotonicTime
    ) {
        guard now.nanoseconds > entry.refilled else { return }
        let elapsed = now.nanoseconds - entry.refilled
        func missing(_ missing: UInt64, _ rate: UInt64) -> UInt64 {
            let (refill, isHuge) = elapsed.multipliedReportingOverflow(by: rate)
            return isHuge || refill >= missing ? 0 : missing - refill
        }
        entry.minuteMissing = missing(entry.minuteMissing, perMinute)
        entry.hourMissing = missing(entry.hourMissing, perHour)
        entry.refilled = now.nanoseconds
    }

    // MARK: The table

    private func start(_ key: UInt64) -> Int {
        Int(truncatingIfNeeded: (key &* 0x9e37_79b9_7f4a_7c15) >> 24) & (entries.count - 1)
    }

    /// The key's cell, or the free one where it would stand.
    private func find(_ key: UInt64) -> Int {
        var cell = start(key)
        while entries[cell].key != 0, entries[cell].key != key { cell = (cell + 1) & (entries.count - 1) }
        return cell
    }

    private mutating func makeRoom(for key: UInt64, at cell: Int) -> Int {
        if count == countMax {
            evict()
        } else if (count + 1) * 2 > entries.count {
            let old = entries
            entries = Array(repeating: Entry(), count: old.count * 2)
            for entry in old where entry.key != 0 { entries[find(entry.key)] = entry }
        } else {
            return cell
        }
        return find(key)
    }

    private mutating func evict() {
        var least = hand
        var seen = 0
        while seen < evictionSample {
            hand = (hand + 1) & (entries.count - 1)
            guard entries[hand].key != 0 else { continue }
            seen += 1
            if entries[least].key == 0 || entries[hand].full < entries[least].full { least = hand }
        }
        remove(least)
    }

    /// Looks at a few cells in turn and forgets whose buckets are full again.
    private mutating func sweep(_ now: MonotonicTime) {
        for _ in 0..<sweepCount {
            hand = (hand + 1) & (entries.count - 1)
            if entries[hand].key != 0, entries[hand].full <= now.nanoseconds { remove(hand) }
        }
    }

    private mutating func remove(_ place: Int) {
        count -= 1
        entries[place] = Entry()
        var cell = (place + 1) & (entries.count - 1)
        while entries[cell].key != 0 {
            let entry = entries[cell]
            entries[cell] = Entry()
            entries[find(entry.key)] = entry
            cell = (cell + 1) & (entries.count - 1)
        }
    }
}
