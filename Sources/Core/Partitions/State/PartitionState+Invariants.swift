import Model

// The invariants of the fold: what must hold after each record, whatever was folded.

extension PartitionState {
    /// The first invariant that does not hold; `nil` if all do. Visits everything.
    var brokenInvariant: String? {
        if let invariant = brokenInGenerations ?? log.brokenInvariant ?? devices.brokenInvariant
            ?? held.brokenInvariant(devices)
        {
            return invariant
        }
        if let invariant = brokenInDevices ?? brokenInTransports ?? brokenInOutboxes { return invariant }
        return brokenInMarks ?? brokenInFanouts ?? brokenInTopics
    }

    private var brokenInGenerations: String? {
        if comparedGeneration > generation { return "a generation to come was compared" }
        if formerGenerations.count > FormerGeneration.countMax {
            return "more generations are kept than may be"
        }
        if zip(formerGenerations, formerGenerations.dropFirst()).contains(where: { $0.next != $1.number }) {
            return "generations do not follow each other"
        }
        if let last = formerGenerations.last, last.next != generation { return "a generation is forgotten" }
        return nil
    }

    // MARK: Devices

    /// The counts of what waits for each device must equal the log's entries, and stay within bounds.
    private var brokenInDevices: String? {
        var counts: [UInt32: (waiting: Int, collapsible: Int)] = [:]
        var broken: String?
        log.forEach { entry in
            if entry.record > applied.next { broken = "an entry of a record to come waits" }
            entry.targets.forEach { index in
                if devices.project(index) != entry.project {
                    broken = "a stranger's message waits for \(index)"
                }
                var count = counts[index] ?? (0, 0)
                if !entry.isCollapsible { count.waiting += 1 } else { count.collapsible += 1 }
                counts[index] = count
            }
        }
        devices.forEach { index, page, slot in
            let (waiting, collapsible) = counts[index] ?? (0, 0)
            if Int(page.waiting[slot]) != waiting || Int(page.collapsible[slot]) != collapsible {
                broken = "what waits for device \(index) is counted wrongly"
            }
            if waiting > Int(limits.waitingHardMax)
                || collapsible > Int(limits.collapsibleMax)
            {
                broken = "more waits for device \(index) than may"
            }
            if page.topics[slot].count > limits.topicsPerDeviceMax {
                broken = "device \(index) is in more topics than may be"
            }
            return broken == nil
        }
        for (index, loss) in overflowed {
            if devices.find(index) == nil { return "device \(index) is gone, and to be told of a loss" }
            if loss.told > log.last || loss.record > applied.next {
                return "device \(index) is to be told of a loss to come"
            }
        }
        return broken
    }

    // MARK: Pairs

    private var brokenInOutboxes: String? {
        var members: [PartitionID: UInt64] = [:]
        var hashes: [UInt32: (home: PartitionID, hash: UInt64)] = [:]
        devices.forEach { index, page, slot in
            let list = page.topics[slot]
            for at in 0..<list.count {
                let number = list[at].topic
                let known = hashes[number.rawValue] ?? homeAndHash(of: number)
                hashes[number.rawValue] = known
                members[known.home, default: 0] ^= Fingerprint.of(known.hash, index)
            }
            return true
        }
        var broken: String?
        outboxes.forEach { partition, outbox in
            let subscribed = members.removeValue(forKey: partition) ?? 0
            if broken != nil { return }
            if let invariant = outbox.brokenInvariant {
                broken = "to partition \(partition.rawValue): \(invariant)"
            } else if outbox.last > applied.next {
                broken = "an outbox entry of a record to come"
            } else if outbox.fingerprint != subscribed {
                broken = "partition \(partition.rawValue) is to have others than are subscribed"
            }
        }
        if let broken { return broken }
        if members.contains(where: { $0.value != 0 }) { return "a topic's partition was told of no member" }
        return nil
    }

    private func homeAndHash(of number: TopicNumber) -> (home: PartitionID, hash: UInt64) {
        let (name, project) = (names.name(number), names.project(of: number))
        return (home(of: name, in: project), Fingerprint.topic(name.utf8, project))
    }

    private var brokenInMarks: String? {
        var broken: String?
        marks.forEach { partition, mark in
            guard let part = mark.part else { return }
            if part.entry <= mark.number || part.items == 0 {
                broken = "a part of no entry of partition \(partition.rawValue) is applied"
            }
        }
        return broken
    }

    // MARK: Messages and topics

    /// The counts of unfinished messages must equal what is in the outboxes, with the open conditions.
    private var brokenInFanouts: String? {
        var waiting: [UInt32: Set<MessageID>] = [:]
        outboxes.forEach { _, outbox in
            for entry in outbox.unacknowledged {
                for item in entry.items {
                    guard case .message(let project, let message, _) = item else { continue }
                    waiting[project.rawValue, default: []].insert(message.id)
                }
            }
        }
        for pending in conditions.values {
            waiting[pending.project.rawValue, default: []].insert(pending.message.id)
        }
        let counts = waiting.mapValues(\.count)
        for project in Set(fanouts.projects).union(counts.keys)
        where fanouts.count(of: ProjectNumber(project)) != counts[project] ?? 0 {
            return "the unfinished messages of project \(project) are counted wrongly"
        }
        return nil
    }

    private var brokenInTopics: String? {
        for number in topics.numbers {
            if home(of: names.name(number), in: names.project(of: number)) != id {
                return "a topic of another partition has members here"
            }
        }
        return topics.brokenInvariant
    }
}

extension Outbox {
    var brokenInvariant: String? {
        var bytes = 0
        var former: Sequence?
        for entry in unacknowledged {
            if entry.number <= entry.predecessor { return "an entry is before the one that it follows" }
            if let former, entry.predecessor != former { return "an entry does not name the one before" }
            if entry.items.isEmpty { return "an entry says nothing" }
            former = entry.number
            bytes += entry.weight
        }
        if let former, former != last { return "the newest entry is not the last" }
        if let newest = unacknowledged.last, newest.fingerprint != fingerprint {
            return "the newest entry does not say who is to be there"
        }
        return bytes == weight ? nil : "its bytes are counted wrongly"
    }
}

extension DeviceTable {
    var brokenInvariant: String? {
        var found: [UInt32: Int] = [:]
        var used: [Int: Int] = [:]
        var highest: UInt32?
        forEach { index, page, slot in
            found[page.projects[slot], default: 0] += 1
            used[Int(index) / DeviceTable.pageSize, default: 0] += 1
            highest = index
            return true
        }
        if let highest, highest >= next { return "the next device would get an index that is used" }
        if found != counts || found.values.reduce(0, +) != count { return "devices are counted wrongly" }
        for (number, page) in pages.enumerated() where page?.used ?? 0 != used[number] ?? 0 {
            return "the devices of a page are counted wrongly"
        }
        return nil
    }
}

extension TopicTable {
    var brokenInvariant: String? {
        for set in shards.lazy.flatMap(\.values) {
            if set.isEmpty { return "a topic without members is kept" }
            if let broken = set.brokenInvariant { return broken }
        }
        return nil
    }
}

extension MemberSet {
    /// Parts, and the members of each, must ascend and not be empty; the sum of the parts is the count.
    var brokenInvariant: String? {
        var total = 0
        var last: PartitionID?
        var broken: String?
        forEachPart { partition, devices in
            if let last, last >= partition { broken = "the parts of a topic's set are out of order" }
            last = partition
            if devices.isEmpty { broken = "an empty part of a topic's set is kept" }
            var former: UInt32?
            devices.forEach { index in
                if let former, former >= index { broken = "the members of a topic are out of order" }
                former = index
            }
            total += devices.count
        }
        return broken ?? (total == count ? nil : "the members of a topic are counted wrongly")
    }
}
