/// A set of partitions: one bit for each, so that adding a partition again costs next to nothing.
public struct PartitionSet: Hashable, Sendable {
    private var words: [UInt64] = []
    public private(set) var isEmpty = true

    public init() {}

    @inline(__always)
    public mutating func insert(_ partition: PartitionID) {
        let word = Int(partition.rawValue) >> 6
        while words.count <= word { words.append(0) }
        words[word] |= 1 << UInt64(partition.rawValue & 63)
        isEmpty = false
    }

    public func contains(_ partition: PartitionID) -> Bool {
        let word = Int(partition.rawValue) >> 6
        return word < words.count && words[word] & 1 << UInt64(partition.rawValue & 63) != 0
    }

    public mutating func remove(_ partition: PartitionID) {
        let word = Int(partition.rawValue) >> 6
        guard word < words.count else { return }
        words[word] &= ~(1 << UInt64(partition.rawValue & 63))
        isEmpty = words.allSatisfy { $0 == 0 }
    }

    public mutating func formUnion(_ other: PartitionSet) {
        while words.count < other.words.count { words.append(0) }
        for index in other.words.indices { words[index] |= other.words[index] }
        isEmpty = isEmpty && other.isEmpty
    }

    /// Keeps the memory.
    public mutating func removeAll() {
        guard !isEmpty else { return }
        for index in words.indices { words[index] = 0 }
        isEmpty = true
    }

    /// Ascending.
    public func sorted() -> [PartitionID] {
        var partitions: [PartitionID] = []
        for (index, word) in words.enumerated() {
            var rest = word
            while rest != 0 {
                partitions.append(PartitionID(UInt16(index << 6 + rest.trailingZeroBitCount)))
                rest &= rest - 1
            }
        }
        return partitions
    }

    public static func == (left: PartitionSet, right: PartitionSet) -> Bool {
        left.sorted() == right.sorted()
    }
    public func hash(into hasher: inout Hasher) { hasher.combine(sorted()) }
}
