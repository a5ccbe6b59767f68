import Model

/// The topics whose names hash to one partition, each with its members.
///
/// Topics lie in shards by their number, so that no shard takes long to walk or to grow.
struct TopicTable: ~Copyable {
    static let shardCount = 64

    private(set) var shards: [[UInt32: MemberSet]] = Array(repeating: [:], count: shardCount)

    deinit {
        for shard in shards {
            for var set in shard.values { set.destroy() }
        }
    }

    static func shard(of topic: TopicNumber) -> Int { Int(topic.rawValue) % shardCount }

    private subscript(number: UInt32) -> MemberSet? {
        get { shards[Int(number) % TopicTable.shardCount][number] }
        _modify { yield &shards[Int(number) % TopicTable.shardCount][number] }
    }

    var count: Int { shards.reduce(0) { $0 + $1.count } }

    func contains(_ topic: TopicNumber) -> Bool { self[topic.rawValue] != nil }

    func count(inShard shard: Int) -> Int { shards[shard].count }

    /// The topics of a shard that are wanted, ascending.
    func numbers(
        inShard shard: Int, where isWanted: (TopicNumber) -> Bool = { _ in true }
    ) -> [TopicNumber] {
        shards[shard].keys.lazy.map { TopicNumber(rawValue: $0) }.filter(isWanted)
            .sorted { $0.rawValue < $1.rawValue }
    }

    /// A position in a listing, which goes through the shards: the shard, and the first number there.
    static func cursor(shard: Int, from number: UInt32) -> UInt64 { UInt64(shard) << 32 | UInt64(number) }

    static func readCursor(_ cursor: UInt64) -> (shard: Int, first: UInt32) {
        (Int(clamping: cursor >> 32), UInt32(truncatingIfNeeded: cursor))
    }

    /// The members by partition, ascending, as they are now. Large parts are shared, not copied.
    func parts(_ topic: TopicNumber) -> [PartitionTargets] {
        guard let set = self[topic.rawValue] else { return [] }
        var parts: [PartitionTargets] = []
        set.forEachPart { parts.append(PartitionTargets(partition: $0, devices: $1)) }
        return parts
    }

    func members(_ topic: TopicNumber) -> Int { self[topic.rawValue]?.count ?? 0 }

    var numbers: [TopicNumber] { shards.flatMap { $0.keys.map { TopicNumber(rawValue: $0) } } }

    /// Adds members. Returns the XOR of the fingerprints of the devices that were not there.
    mutating func join(
        _ indices: [UInt32], of partition: PartitionID, to topic: TopicName, in project: ProjectNumber,
        _ names: TopicNames
    ) -> UInt64 {
        let number: TopicNumber
        if let known = names.number(of: topic.utf8, in: project), self[known.rawValue] != nil {
            number = known
        } else {
            number = names.retain(topic.utf8, in: project)
        }
        let hash = Fingerprint.topic(topic.utf8, project)
        var changed: UInt64 = 0
        let shard = TopicTable.shard(of: number)
        shards[shard][number.rawValue, default: MemberSet()].insert(partition, indices) {
            changed ^= Fingerprint.of(hash, $0)
        }
        return changed
    }

    /// Removes members, and an empty topic. Returns the XOR of the removed members' fingerprints.
    mutating func leave(
        _ indices: [UInt32], of partition: PartitionID, from topic: TopicName, in project: ProjectNumber,
        _ names: TopicNames
    ) -> UInt64 {
        guard let number = names.number(of: topic.utf8, in: project), self[number.rawValue] != nil else {
            return 0
        }
        let hash = Fingerprint.topic(topic.utf8, project)
        var changed: UInt64 = 0
        self[number.rawValue]?.remove(partition, indices) { changed ^= Fingerprint.of(hash, $0) }
        if self[number.rawValue]?.isEmpty ?? false {
            self[number.rawValue]?.destroy()
            self[number.rawValue] = nil
            names.release(number)
        }
        return changed
    }

    /// The members of one partition in a topic, ascending.
    func members(_ topic: TopicNumber, of partition: PartitionID) -> [UInt32] {
        self[topic.rawValue]?.part(partition).sorted ?? []
    }

    /// The fingerprint over all members that a partition has here, counted in the sets.
    func fingerprint(_ names: TopicNames, of partition: PartitionID) -> UInt64 {
        var fingerprint: UInt64 = 0
        for shard in shards {
            for (number, set) in shard {
                let topic = TopicNumber(rawValue: number)
                let hash = TopicNames.hash(names.nameBytes(topic), names.project(of: topic))
                fingerprint ^= Fingerprint.of(hash, set.part(partition).sorted)
            }
        }
        return fingerprint
    }

    /// Adds a topic of a snapshot. The topic must not be there yet.
    mutating func restore(_ number: TopicNumber, _ members: MemberSet) { self[number.rawValue] = members }
}
