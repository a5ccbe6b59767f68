import Model

// The two ends of a pair may disagree on the members of topics. The device partition decides, so it sends
// them to the topic partition again, slice by slice (rule: fingerprints-repair). A slice replaces what T has
// in one step, so no send meets a set that is half empty.

/// The repair of one pair: D sends T the pair's members again.
struct Repair {
    var count: UInt32
    /// The next slice to be sent; `count` when all are sent.
    var next: UInt32 = 0
    /// The record of the last slice. Until T acknowledges it, the fingerprints may differ.
    var last: Sequence?
    var began: MonotonicTime
}

extension Partition {
    func isUnderRepair(_ partition: PartitionID, _ mark: Sequence) -> Bool {
        guard let repair = repairs[partition] else { return false }
        guard let last = repair.last else { return true }
        return mark < last
    }

    func beginRepair(_ partition: PartitionID, _ now: Instant) {
        #if DEBUG
            guard !options.planted.contains(.noRepair) else { return }
        #endif
        if let former = repairs[partition], now.monotonic.since(former.began) < options.repairInterval {
            return
        }
        let slices = state.pairMembers(partition) / options.repairSliceMembers + 1
        repairs[partition] = Repair(count: UInt32(clamping: slices), began: now.monotonic)
        continueRepairs()
    }

    /// Sends one more slice of each repair, while the open record is less than half full.
    func continueRepairs() {
        for partition in repairs.keys.sorted() {
            guard var repair = repairs[partition], repair.next < repair.count,
                pipeline.openBytes < options.recordBytesMax / 2
            else { continue }
            propose(.repair(to: partition, state.pairSlice(partition, repair.next, of: repair.count)))
            pipeline.isUrgent = true
            repair.next += 1
            if repair.next == repair.count { repair.last = pipeline.openSequence }
            repairs[partition] = repair
        }
    }
}

extension PartitionState {
    private func forEachTopic(
        at home: PartitionID, _ body: (TopicNumber, _ hash: UInt64, _ index: UInt32) -> Void
    ) {
        var hashes: [UInt32: UInt64?] = [:]
        devices.forEach { index, page, slot in
            let list = page.topics[slot]
            for at in 0..<list.count {
                let number = list[at].topic
                let hash: UInt64?
                if let known = hashes[number.rawValue] {
                    hash = known
                } else {
                    let (name, project) = (names.name(number), names.project(of: number))
                    hash =
                        self.home(of: name, in: project) == home
                        ? Fingerprint.topic(name.utf8, project) : nil
                    hashes[number.rawValue] = .some(hash)
                }
                if let hash { body(number, hash, index) }
            }
            return true
        }
    }

    /// How many subscriptions to topics of `home` the devices of this partition have.
    func pairMembers(_ home: PartitionID) -> Int {
        var count = 0
        forEachTopic(at: home) { _, _, _ in count += 1 }
        return count
    }

    /// The fingerprint over the same subscriptions, counted in the device table.
    func pairFingerprint(_ home: PartitionID) -> UInt64 {
        var fingerprint: UInt64 = 0
        forEachTopic(at: home) { _, hash, index in fingerprint ^= Fingerprint.of(hash, index) }
        return fingerprint
    }

    func pairSlice(_ home: PartitionID, _ number: UInt32, of count: UInt32) -> PairSlice {
        var slice = PairSlice(number: number, count: count, topics: [])
        var positions: [UInt32: Int] = [:]
        forEachTopic(at: home) { topic, hash, index in
            guard slice.covers(hash) else { return }
            if let position = positions[topic.rawValue] {
                slice.topics[position].indices.append(index)
            } else {
                positions[topic.rawValue] = slice.topics.count
                slice.topics.append(
                    PairSlice.Members(
                        project: names.project(of: topic), topic: names.name(topic), indices: [index]))
            }
        }
        return slice
    }

    // MARK: The fold

    mutating func repair(to partition: PartitionID, _ slice: PairSlice, _ cursor: inout Cursor) {
        if slice.number == 0 {
            outboxes[partition, default: Outbox()].fingerprint = pairFingerprint(partition)
        }
        addToOutbox(.replace(slice), to: partition, &cursor)
    }

    mutating func replace(_ slice: PairSlice, of partition: PartitionID) {
        var named: Set<UInt32> = []
        for members in slice.topics {
            if let number = names.number(of: members.topic.utf8, in: members.project) {
                let wanted = Set(members.indices)
                let strangers = topics.members(number, of: partition).filter { !wanted.contains($0) }
                if !strangers.isEmpty {
                    _ = leave(strangers, of: partition, from: members.topic, in: members.project)
                }
            }
            _ = join(members.indices, of: partition, to: members.topic, in: members.project)
            if let number = names.number(of: members.topic.utf8, in: members.project) {
                named.insert(number.rawValue)
            }
        }
        for number in topics.numbers where !named.contains(number.rawValue) {
            let (name, project) = (names.name(number), names.project(of: number))
            guard slice.covers(Fingerprint.topic(name.utf8, project)) else { continue }
            let strangers = topics.members(number, of: partition)
            if !strangers.isEmpty { _ = leave(strangers, of: partition, from: name, in: project) }
        }
    }
}
