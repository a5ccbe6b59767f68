import Model

/// The devices of this partition that have a topic, for topics of late conditions.
///
/// The device table knows the topics of each device, and not the devices of a topic. So each set here is
/// created by one look at all devices, and follows each change from then on. Nothing of it is stored.
struct HeldTopics {
    /// How many topics have a set at most; the topic that was asked for longest ago loses its set.
    static let topicsMax = 64

    var sets: [UInt32: Bitmap] = [:]
    /// The topics that have a set, the one that was asked for last at the end.
    var order: [UInt32] = []

    mutating func devices(with topic: TopicNumber, in table: borrowing DeviceTable) -> DeviceSet {
        let number = topic.rawValue
        order.removeAll { $0 == number }
        order.append(number)
        if let known = sets[number] { return DeviceSet(known.copy()) }
        if order.count > HeldTopics.topicsMax { sets[order.removeFirst()] = nil }
        let found = Bitmap()
        table.forEach { index, page, slot in
            if page.topics[slot].index(of: topic) != nil { _ = found.add(index) }
            return true
        }
        sets[number] = found
        return DeviceSet(found.copy())
    }

    func add(_ index: UInt32, to topic: TopicNumber) { _ = sets[topic.rawValue]?.add(index) }
    func remove(_ index: UInt32, from topic: TopicNumber) { _ = sets[topic.rawValue]?.remove(index) }

    /// Each set must hold just the devices that have the topic.
    func brokenInvariant(_ table: borrowing DeviceTable) -> String? {
        if order.sorted() != sets.keys.sorted() { return "sets of topics are not in order" }
        if sets.count > HeldTopics.topicsMax { return "more topics have a set than may" }
        for (number, set) in sets {
            var isWhole = true
            table.forEach { index, page, slot in
                let has = page.topics[slot].index(of: TopicNumber(rawValue: number)) != nil
                if has != set.contains(index) { isWhole = false }
                return isWhole
            }
            if !isWhole { return "the set of topic \(number) is not what its devices say" }
        }
        return nil
    }
}

extension PartitionState {
    mutating func devices(with topic: TopicName, in project: ProjectNumber) -> DeviceSet {
        names.number(of: topic.utf8, in: project).map { held.devices(with: $0, in: devices) } ?? DeviceSet()
    }
}
