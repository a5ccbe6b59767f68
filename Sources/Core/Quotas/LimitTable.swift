import Model

/// Two limits for each of many keys: one for a short period, and one for a long period.
///
/// Most keys do nothing most of the time, so a key has an entry only while one of its two buckets is not
/// full. The entry holds what is *missing* from each bucket. Entries are in one flat table (open addressing,
/// 40 bytes each). Each `take` looks at a few other entries to see whether the table can forget them, so no
/// timer is needed.
///
/// When more than `countMax` keys have an entry at once, the table looks at some entries and forgets the one
/// whose buckets are full soonest. So the table stays bounded. A key that has used much goes last: a client
/// could have it forgotten only with as many other keys as the table holds, each of which has used as much. A
/// key that is forgotten gains at most what was missing from its buckets.
struct LimitTable: Sendable {
    struct Entry: Sendable {
        /// 0 in a free cell.
        var key: UInt64 = 0
        var refilled = MonotonicTime.zero
        /// What is missing from the short and the long bucket, in tokens × nanoseconds of the period. 200,000
        /// tokens of a day's period still fit into 64 bits.
        var shortMissing: UInt64 = 0
        var longMissing: UInt64 = 0
        /// When both buckets will be full again.
        var full = MonotonicTime.zero
    }

    /// The limit that a further action would pass, and after how long to ask again.
    struct Refusal {
        var isLong: Bool
        var limit: UInt64
        var delay: TimeSpan
    }

    typealias Limits = (short: UInt64, long: UInt64)
    typealias Periods = (short: TimeSpan, long: TimeSpan)

    let countMax: Int
    private let periods: Periods
    private let sweepCount: Int
    private let evictionSample: Int
    /// Mixed into the keys' cells: a client that chooses its keys cannot choose their cells.
    private let salt: UInt64
    private(set) var count = 0
    private var entries: [Entry]
    private var hand = 0

    /// At most `countMax` entries, rounded up to a power of two from 16, with 80 bytes of memory for each
    /// once they are used. Each `take` looks at `sweepCount` other cells. If an entry must go, the table
    /// looks at `evictionSample` entries.
    init(periods: Periods, countMax: Int, sweepCount: Int, evictionSample: Int, salt: UInt64 = 0) {
        precondition(
            sweepCount > 0 && evictionSample > 0, "sweepCount and evictionSample must be at least 1")
        (self.sweepCount, self.evictionSample) = (sweepCount, evictionSample)
        (self.periods, self.salt) = (periods, salt)
        var size = 16
        while size < countMax { size *= 2 }
        self.countMax = size
        entries = Array(repeating: Entry(), count: 32)
    }

    /// Counts one action of the key (never 0), or returns the limit that the action would pass.
    mutating func take(_ key: UInt64, _ limits: Limits, now: MonotonicTime) -> Refusal? {
        sweep(now)
        var cell = find(key)
        var entry = entries[cell]
        let isNew = entry.key == 0
        if isNew { entry = Entry(key: key, refilled: now) }
        refill(&entry, limits, now: now)
        if let refusal = refusal(entry, limits) {
            if !isNew { entries[cell] = entry }
            return refusal
        }
        entry.shortMissing += periods.short.nanoseconds
        entry.longMissing += periods.long.nanoseconds
        // Neither limit is 0, because `refusal` refuses at a limit of 0.
        let delay = max(entry.shortMissing / limits.short, entry.longMissing / limits.long) + 1
        entry.full = now.advanced(by: .nanoseconds(delay))
        if isNew {
            cell = makeRoom(for: key, at: cell)
            count += 1
        }
        entries[cell] = entry
        return nil
    }

    /// The limit that a further action would pass. Counts nothing.
    func look(_ key: UInt64, _ limits: Limits, now: MonotonicTime) -> Refusal? {
        var entry = entries[find(key)]
        guard entry.key != 0 else { return refusal(Entry(), limits) }
        refill(&entry, limits, now: now)
        return refusal(entry, limits)
    }

    private func refusal(_ entry: Entry, _ limits: Limits) -> Refusal? {
        func check(_ missing: UInt64, _ limit: UInt64, period: TimeSpan, isLong: Bool) -> Refusal? {
            let period = period.nanoseconds
            let room = limit * period
            guard missing + period > room else { return nil }
            let delay = limit == 0 ? period : (missing + period - room + limit - 1) / limit
            return Refusal(isLong: isLong, limit: limit, delay: .nanoseconds(delay))
        }
        return check(entry.shortMissing, limits.short, period: periods.short, isLong: false)
            ?? check(entry.longMissing, limits.long, period: periods.long, isLong: true)
    }

    private func refill(_ entry: inout Entry, _ limits: Limits, now: MonotonicTime) {
        guard now > entry.refilled else { return }
        let elapsed = now.since(entry.refilled).nanoseconds
        func missing(_ missing: UInt64, _ rate: UInt64) -> UInt64 {
            let (refill, isHuge) = elapsed.multipliedReportingOverflow(by: rate)
            return isHuge || refill >= missing ? 0 : missing - refill
        }
        entry.shortMissing = missing(entry.shortMissing, limits.short)
        entry.longMissing = missing(entry.longMissing, limits.long)
        entry.refilled = now
    }

    // MARK: The table

    private func start(_ key: UInt64) -> Int {
        Int(truncatingIfNeeded: ((key ^ salt) &* 0x9e37_79b9_7f4a_7c15) >> 24) & (entries.count - 1)
    }

    /// The key's cell, or the free cell for the key.
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

    /// Looks at the next few cells, and forgets entries whose buckets are full again.
    private mutating func sweep(_ now: MonotonicTime) {
        for _ in 0..<sweepCount {
            hand = (hand + 1) & (entries.count - 1)
            if entries[hand].key != 0, entries[hand].full <= now { remove(hand) }
        }
    }

    private mutating func remove(_ index: Int) {
        count -= 1
        entries[index] = Entry()
        var cell = (index + 1) & (entries.count - 1)
        while entries[cell].key != 0 {
            let entry = entries[cell]
            entries[cell] = Entry()
            entries[find(entry.key)] = entry
            cell = (cell + 1) & (entries.count - 1)
        }
    }
}
