import Model

/// Which message waits for which of a partition's devices.
///
/// One entry holds a message and all of its targets here, so a message to a million absent devices costs one
/// entry and one bitmap. Every rule acts by taking targets out of entries: acknowledged, passed as delivered,
/// replaced by its collapse key, overflowed, unregistered, expired. The log frees an entry when its last
/// target has gone, wherever the entry is. Bodies stay in the journal, except for a bounded number of recent
/// bytes.
///
/// The log knows nothing of the device table. Each function that takes targets out reports to its caller
/// every device that left, and whether the entry had a collapse key. From that the caller keeps its counts of
/// what waits.
struct DeliveryLog: ~Copyable {
    /// Bytes of recent bodies that are kept in memory.
    var bodyCacheBytesMax = PartitionOptions(partitionCount: 1).bodyCacheBytesMax

    /// Called for each device that leaves an entry, with its index and whether the entry had a collapse key.
    typealias Departure = (_ index: UInt32, _ collapsible: Bool) -> Void

    private(set) var spans: [LogSpan] = []
    private(set) var count = 0
    /// The newest position ever used, by an entry or by a message that nobody waits for.
    private(set) var last: Position = .zero
    var keys = CollapseKeys()
    /// How many entries have their body in each record.
    private(set) var records = RecentMap<UInt64, Int>()
    /// Bytes of waiting bodies of each project.
    private(set) var bytes = RecentMap<UInt32, UInt64>()
    /// Entries by the minute of their next end.
    var expiring = RecentMap<Int64, Expiring>()
    /// No entry has an end before this minute that the log has not looked at; `nil` if the log has no
    /// entries.
    var earliest: Int64?
    private(set) var cachedBytes = 0
    private var cacheSweep: Position = .zero
    /// Whether a block lost its last entry since the last pruning.
    private var hasEmptied = false

    /// What ends at push services, while the partition's owner looks (`Partition.endMinutes`).
    var serviceEnds: ServiceEnds?

    /// Targets that left an entry by a record that is not durable yet. Until that record is durable, the
    /// durable journal still has the targets in the entry (rule: delete-on-durable-only).
    struct UncommittedRemoval {
        var entry: LogEntry
        var devices: DeviceSet
        var by: Sequence
    }
    /// Ascending by the record.
    private(set) var removals: [UncommittedRemoval] = []
    /// The record by which targets leave now; `nil` if the log need not keep their removals.
    var removingRecord: Sequence?
    /// Why targets leave now; `nil` if their devices lose nothing.
    var losing: DropReason?
    var drops = MessageDrops()

    // MARK: Appending

    /// `entry.position` must be above `last`. The caller replaces entries with the same key: see `collapse`.
    mutating func append(_ entry: LogEntry) {
        precondition(entry.position > last, "positions rise")
        last = entry.position
        guard !entry.targets.isEmpty else { return }
        if spans.last?.isFull ?? true { spans.append(LogSpan()) }
        let span = spans[spans.count - 1]
        if span.blocks.last?.isFull ?? true { span.blocks.append(LogBlock()) }
        let block = span.blocks[span.blocks.count - 1]
        block.entries.append(entry)
        block.occupied += 1
        block.union.formUnion(entry.targets)
        span.union.formUnion(entry.targets)
        count += 1
        records[entry.record.rawValue, default: 0] += 1
        bytes[entry.project, default: 0] += UInt64(entry.bytes)
        file(entry.position, under: entry.ends.next)
        if entry.key != 0 { keys.add(entry.key, entry.targets, at: entry.position) }
        if let body = entry.body {
            cachedBytes += body.count
            if cachedBytes > bodyCacheBytesMax { sweepCache() }
        }
    }

    /// Notes a position that leaves no entry, because nobody waits for the message.
    mutating func skip(to position: Position) { last = max(last, position) }

    // MARK: Taking targets out

    /// Takes `devices` out of every entry up to `limit`.
    mutating func drop(_ devices: DeviceSet, upTo limit: Position, _ departure: Departure) {
        visit(devices, upTo: limit) { log, block, slot in
            let leaving = block.entries[slot].targets.intersection(devices)
            if !leaving.isEmpty { log.remove(leaving, outOf: block, at: slot, departure) }
            return true
        }
    }

    /// Frees the entry at `position`. Returns the devices that waited for it.
    mutating func drop(at position: Position, _ departure: Departure) -> DeviceSet {
        guard let (block, slot) = find(position) else { return DeviceSet() }
        let targets = block.entries[slot].targets
        remove(targets, outOf: block, at: slot, departure)
        if hasEmptied { prune() }
        return targets
    }

    /// Takes `devices` out of the entry at `position`.
    mutating func drop(_ devices: DeviceSet, at position: Position, _ departure: Departure) {
        guard let (block, slot) = find(position) else { return }
        let leaving = block.entries[slot].targets.intersection(devices)
        if !leaving.isEmpty { remove(leaving, outOf: block, at: slot, departure) }
        if hasEmptied { prune() }
    }

    /// Takes each of `devices` out of its oldest entries up to `limit`, until `depth` of them had no collapse
    /// key; entries with a key between those go too. Returns each device's last position.
    mutating func dropOldest(
        _ devices: DeviceSet, depth: Int, upTo limit: Position, _ departure: Departure
    ) -> [UInt32: Position] {
        var taken: [UInt32: (count: Int, last: Position)] = [:]
        var rest = devices
        visit(devices, upTo: limit) { log, block, slot in
            let (position, isPlain) = (block.entries[slot].position, !block.entries[slot].isCollapsible)
            let leaving = block.entries[slot].targets.intersection(rest)
            guard !leaving.isEmpty else { return true }
            log.remove(leaving, outOf: block, at: slot, departure)
            var done: [UInt32] = []
            leaving.forEach { index in
                let count = (taken[index]?.count ?? 0) + (isPlain ? 1 : 0)
                taken[index] = (count, position)
                if count == depth { done.append(index) }
            }
            if !done.isEmpty { rest = rest.subtracting(DeviceSet(sorted: done)) }
            return !rest.isEmpty
        }
        return taken.mapValues(\.last)
    }

    /// Takes `devices` out of the older entries that carry this key.
    mutating func collapse(_ key: UInt32, for devices: DeviceSet, _ departure: Departure) {
        for position in keys.entries(of: key, sharing: devices) {
            guard let (block, slot) = find(position) else { continue }
            let leaving = block.entries[slot].targets.intersection(devices)
            if !leaving.isEmpty { remove(leaving, outOf: block, at: slot, departure) }
        }
    }

    /// Takes a device out of its oldest entry with a collapse key.
    mutating func evictOldestCollapsible(_ index: UInt32, _ departure: Departure) {
        let device = DeviceSet(index)
        visit(device, upTo: last) { log, block, slot in
            guard block.entries[slot].isCollapsible, block.entries[slot].targets.contains(index) else {
                return true
            }
            log.remove(device, outOf: block, at: slot, departure)
            return false
        }
    }

    // MARK: Reading

    /// The entries that wait for a device above `after`, in the order of positions, at most `limit`.
    func waiting(
        for index: UInt32, after: Position, limit: Int, where isWanted: (LogEntry) -> Bool = { _ in true }
    ) -> [LogEntry] {
        var found: [LogEntry] = []
        for span in spans where span.last > after && span.union.contains(index) {
            for block in span.blocks where block.last > after && block.union.contains(index) {
                for entry in block.entries where entry.position > after && entry.targets.contains(index) {
                    guard isWanted(entry) else { continue }
                    found.append(entry)
                    if found.count == limit { return found }
                }
            }
        }
        return found
    }

    /// Whether the device waits for the message at `position`.
    func isWaiting(_ index: UInt32, at position: Position) -> Bool {
        guard let (block, slot) = find(position) else { return false }
        return block.entries[slot].targets.contains(index)
    }

    /// Whether the device waits for a message up to `limit`.
    func isWaiting(_ index: UInt32, upTo limit: Position) -> Bool {
        for span in spans where span.union.contains(index) {
            for block in span.blocks where block.union.contains(index) {
                if block.first > limit { return false }
                if let entry = block.entries.first(where: { $0.targets.contains(index) }) {
                    return entry.position <= limit
                }
            }
        }
        return false
    }

    /// As `waiting`, and what left by records that are not durable yet (rule: delete-on-durable-only).
    func durablyWaiting(
        for index: UInt32, after: Position, limit: Int, where isWanted: (LogEntry) -> Bool = { _ in true }
    ) -> [LogEntry] {
        var found = waiting(for: index, after: after, limit: limit, where: isWanted)
        guard !removals.isEmpty else { return found }
        for slot in removals.indices
        where removals[slot].entry.position > after && removals[slot].devices.contains(index)
            && isWanted(removals[slot].entry)
        {
            found.append(removals[slot].entry)
        }
        found.sort { $0.position < $1.position }
        return found.count > limit ? Array(found.prefix(limit)) : found
    }

    /// The records up to `record` are durable, so the log forgets the removals by them.
    mutating func forgetRemovals(upTo record: Sequence) {
        var gone = 0
        while gone < removals.count, removals[gone].by <= record { gone += 1 }
        if gone > 0 { removals.removeFirst(gone) }
    }

    /// All devices for which something waits. The set may hold too many devices, never too few.
    func union() -> Bitmap {
        let all = Bitmap()
        for span in spans { all.formUnion(span.union) }
        return all
    }

    func forEach(_ body: (LogEntry) -> Void) {
        for span in spans {
            for block in span.blocks {
                for entry in block.entries where !entry.targets.isEmpty { body(entry) }
            }
        }
    }

    /// The entries as they are now, block by block: shared, and a later change copies its block's array.
    func frozen() -> [[LogEntry]] { spans.flatMap { $0.blocks.map(\.entries) } }

    /// Keeps the names of collapse keys while a snapshot reads frozen entries.
    mutating func holdKeys() { keys.hold() }
    mutating func letKeysGo() { keys.letGo() }

    mutating func key(_ bytes: [UInt8], of share: [UInt8] = [], in project: UInt32) -> UInt32 {
        keys.number(of: bytes, share, in: project)
    }

    // MARK: Inside

    /// Calls `body` for the entries up to `limit` that may have one of `devices`, oldest first, until `body`
    /// returns false.
    mutating func visit(
        _ devices: DeviceSet, upTo limit: Position, _ body: (inout DeliveryLog, LogBlock, Int) -> Bool
    ) {
        scan: for span in spans where span.union.mayShare(with: devices) {
            for block in span.blocks where block.union.mayShare(with: devices) {
                if block.first > limit { break scan }
                for slot in block.entries.indices {
                    if block.entries[slot].position > limit { break scan }
                    if block.entries[slot].targets.isEmpty { continue }
                    if !body(&self, block, slot) { break scan }
                }
            }
        }
        if hasEmptied { prune() }
    }

    mutating func remove(
        _ leaving: DeviceSet, outOf block: LogBlock, at slot: Int, _ departure: Departure
    ) {
        if let removingRecord {
            removals.append(
                UncommittedRemoval(entry: block.entries[slot], devices: leaving, by: removingRecord))
        }
        if let losing { drops.add(leaving.count, losing) }
        let key = block.entries[slot].key
        let isCollapsible = block.entries[slot].isCollapsible
        leaving.forEach { departure($0, isCollapsible) }
        if case .one(let only) = leaving.storage {
            block.entries[slot].targets.remove(only)
        } else {
            block.entries[slot].targets = block.entries[slot].targets.subtracting(leaving)
        }
        if key != 0 { keys.remove(key, leaving, at: block.entries[slot].position) }
        if block.entries[slot].targets.isEmpty { free(block, slot) }
    }

    private mutating func free(_ block: LogBlock, _ slot: Int) {
        let entry = block.entries[slot]
        forgetExpiry(of: entry)
        if let body = entry.body {
            cachedBytes -= body.count
            block.entries[slot].body = nil
        }
        if entry.key != 0 { keys.free(entry.key, at: entry.position) }
        block.occupied -= 1
        if block.occupied == 0 { hasEmptied = true }
        count -= 1
        records.update(entry.record.rawValue) { left in
            left -= 1
            return left > 0
        }
        bytes.update(entry.project) { held in
            held -= UInt64(entry.bytes)
            return true
        }
    }

    /// Frees blocks and spans in which nothing waits; a block with room stays, unless the log is empty.
    private mutating func prune() {
        hasEmptied = false
        for span in spans {
            span.blocks.removeAll { $0.occupied == 0 && ($0.isFull || count == 0) }
        }
        spans.removeAll { $0.blocks.isEmpty }
    }

    func find(_ position: Position) -> (LogBlock, Int)? {
        var low = 0
        var high = spans.count
        while low < high {
            let middle = (low + high) / 2
            if spans[middle].last < position { low = middle + 1 } else { high = middle }
        }
        guard low < spans.count else { return nil }
        let blocks = spans[low].blocks
        guard let block = blocks.first(where: { $0.last >= position }) else { return nil }
        guard let slot = block.entries.firstIndex(where: { $0.position == position }) else { return nil }
        return block.entries[slot].targets.isEmpty ? nil : (block, slot)
    }

    /// Forgets the oldest cached bodies until half of the bound is left.
    private mutating func sweepCache() {
        for span in spans where span.last > cacheSweep {
            for block in span.blocks where block.last > cacheSweep {
                for slot in block.entries.indices where block.entries[slot].body != nil {
                    cachedBytes -= block.entries[slot].body?.count ?? 0
                    block.entries[slot].body = nil
                }
                cacheSweep = block.last
                if cachedBytes <= bodyCacheBytesMax / 2 { return }
            }
        }
    }

    /// Caches a body that was read from the journal, if a device still waits for its message.
    mutating func cache(_ body: [UInt8], at position: Position) {
        guard let (block, slot) = find(position), block.entries[slot].body == nil else { return }
        block.entries[slot].body = body
        cachedBytes += body.count
        // The next sweep must begin with this block.
        cacheSweep = min(cacheSweep, Position(block.first.rawValue - min(block.first.rawValue, 1)))
        if cachedBytes > bodyCacheBytesMax { sweepCache() }
    }
}
