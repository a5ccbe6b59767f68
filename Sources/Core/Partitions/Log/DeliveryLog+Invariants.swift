import Model

extension DeliveryLog {
    /// The first invariant that does not hold; `nil` if all do. Visits every entry.
    var brokenInvariant: String? { brokenInBlocks ?? brokenInSums }

    private var brokenInBlocks: String? {
        var former = Position.zero
        for span in spans {
            for block in span.blocks {
                var occupied = 0
                for entry in block.entries {
                    if entry.position <= former { return "positions of waiting messages do not rise" }
                    former = entry.position
                    if entry.targets.isEmpty { continue }
                    occupied += 1
                    var isFound = true
                    entry.targets.forEach { index in
                        if !block.union.contains(index) || !span.union.contains(index) { isFound = false }
                    }
                    if !isFound { return "a waiting message is not found by its device" }
                }
                if occupied != block.occupied { return "the messages of a block are counted wrongly" }
            }
        }
        if former > last { return "a message waits behind the last position" }
        let ascend = zip(removals, removals.dropFirst()).allSatisfy { $0.by <= $1.by }
        return ascend ? nil : "what is not gone durably is not in the order of its records"
    }

    /// The counts by record, project, key and minute must equal the sums over the entries.
    private var brokenInSums: String? {
        var sums = Sums()
        forEach { sums.add($0) }
        if sums.count != count { return "waiting messages are counted wrongly" }
        if sums.records.count != records.count || sums.records.contains(where: { records[$0] != $1 }) {
            return "messages whose bodies stand in a record are counted wrongly"
        }
        let held = Set(bytes.keys).union(sums.bytes.keys)
        if held.contains(where: { bytes[$0] ?? 0 != sums.bytes[$0] ?? 0 }) {
            return "bytes of waiting messages are counted wrongly"
        }
        if sums.cached != cachedBytes { return "bytes of cached bodies are counted wrongly" }
        if cachedBytes > bodyCacheBytesMax { return "more bodies are cached than may be" }
        if sums.minutes.count != expiring.count || sums.minutes.contains(where: { expiring[$0]?.live != $1 })
        {
            return "messages that expire in a minute are counted wrongly"
        }
        if let first = sums.minutes.keys.min() {
            guard let earliest, earliest <= first else { return "a message expires unnoticed" }
        }
        return keys.brokenInvariant(sums.keys)
    }

    private struct Sums {
        var count = 0
        var cached = 0
        var records: [UInt64: Int] = [:]
        var bytes: [UInt32: UInt64] = [:]
        var minutes: [Int64: Int] = [:]
        var keys: [UInt32: Int] = [:]

        mutating func add(_ entry: LogEntry) {
            count += 1
            cached += entry.body?.count ?? 0
            records[entry.record.rawValue, default: 0] += 1
            bytes[entry.project, default: 0] += UInt64(entry.bytes)
            minutes[entry.ends.next.milliseconds / 60_000, default: 0] += 1
            if entry.key != 0 { keys[entry.key, default: 0] += 1 }
        }
    }
}

extension CollapseKeys {
    /// `found`: the number of entries of each key, counted in the log.
    func brokenInvariant(_ found: [UInt32: Int]) -> String? {
        if numbers.count != keys.count || numbers.contains(where: { keys[$1]?.name != $0 }) {
            return "a collapse key has two numbers, or none"
        }
        if found.count != keys.count || found.contains(where: { keys[$0]?.entries != $1 }) {
            return "the messages of a collapse key are counted wrongly"
        }
        if shareCount != numbers.keys.count(where: { !$0.share.isEmpty }) {
            return "the keys that name a share are counted wrongly"
        }
        return nil
    }
}
