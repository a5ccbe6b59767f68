import Model

/// The topics whose names hash to one partition, each with its members.
struct TopicTable: ~Copyable {
    private(set) var sets: [UInt32: MemberSet] = [:]

    deinit {
        for var set in sets.values { set.destroy() }
    }

    var count: Int { sets.count }

    /// The members of each partition, ascending, as they are now: big parts are shared, not copied.
    func parts(_ topic: TopicNumber) -> [PartitionTargets] {
        guard let set = sets[topic.rawValue] else { return [] }
        var parts: [PartitionTargets] = []
        set.forEachPart { parts.append(PartitionTargets(partition: $0, devices: $1)) }
        return parts
    }

    func members(_ topic: TopicNumber) -> Int { sets[topic.rawValue]?.count ?? 0 }

    var numbers: [TopicNumber] { sets.keys.map { TopicNumber(rawValue: $0) } }

    /// Returns the XOR of the fingerprints of those that were not there.
    mutating func join(
        _ names: TopicNames, _ project: ProjectNumber, _ topic: TopicName, _ from: PartitionID,
        _ indices: [UInt32]
    ) -> UInt64 {
        let number: TopicNumber
        if let known = names.number(of: topic.utf8, in: project), sets[known.rawValue] != nil {
            number = known
        } else {
            number = names.retain(topic.utf8, in: project)
        }
        let hash = Fingerprint.topic(topic.utf8, project)
        var changed: UInt64 = 0
        sets[number.rawValue, default: MemberSet()].insert(from, indices) {
            changed ^= Fingerprint.of(hash, $0)
        }
        return changed
    }

    /// Returns the XOR of the fingerprints of those that were there. A topic without members is forgotten.
    mutating func leave(
        _ names: TopicNames, _ project: ProjectNumber, _ topic: TopicName, _ from: PartitionID,
        _ indices: [UInt32]
    ) -> UInt64 {
        guard let number = names.number(of: topic.utf8, in: project), sets[number.rawValue] != nil else {
            return 0
        }
        let hash = Fingerprint.topic(topic.utf8, project)
        var changed: UInt64 = 0
        sets[number.rawValue]?.remove(from, indices) { changed ^= Fingerprint.of(hash, $0) }
        if sets[number.rawValue]?.isEmpty ?? false {
            sets[number.rawValue]?.destroy()
            sets[number.rawValue] = nil
            names.release(number)
        }
        return changed
    }

    /// The members of one partition in a topic, ascending.
    func members(_ topic: TopicNumber, of partition: PartitionID) -> [UInt32] {
        sets[topic.rawValue]?.part(partition).sorted ?? []
    }

    /// Over all that one partition has here, counted anew.
    func fingerprint(_ names: TopicNames, of partition: PartitionID) -> UInt64 {
        var fingerprint: UInt64 = 0
        for (number, set) in sets {
            let topic = TopicNumber(rawValue: number)
            let hash = TopicNames.hash(names.nameBytes(topic), names.project(of: topic))
            fingerprint ^= Fingerprint.of(hash, set.part(partition).sorted)
        }
        return fingerprint
    }

    /// From a snapshot: a topic that is not there yet.
    mutating func restore(_ number: TopicNumber, _ members: MemberSet) { sets[number.rawValue] = members }
}
