import Model

/// Something for some of the partitions, found by the partition's number without hashing and walked in the
/// order of numbers, so that what is done for each comes in the same order in every run.
///
/// Takes room for the highest partition that it has: for what a partition knows of all others, of which it
/// soon has something for most.
struct PartitionMap<Value> {
    private var slots: [Value?] = []
    private(set) var count = 0

    init() {}

    var isEmpty: Bool { count == 0 }

    subscript(partition: PartitionID) -> Value? {
        get { slot(Int(partition.rawValue)) }
        set { set(newValue, at: Int(partition.rawValue)) }
    }

    /// Changes in place what is there, or `initial`.
    subscript(partition: PartitionID, default initial: @autoclosure () -> Value) -> Value {
        get { slot(Int(partition.rawValue)) ?? initial() }
        _modify {
            let place = Int(partition.rawValue)
            while slots.count <= place { slots.append(nil) }
            if slots[place] == nil {
                slots[place] = initial()
                count += 1
            }
            // Safe: it was set just now where it was nil.
            // swift-format-ignore: NeverForceUnwrap
            yield &slots[place]!
        }
    }

    /// Ascending.
    var keys: [PartitionID] {
        var keys: [PartitionID] = []
        keys.reserveCapacity(count)
        for place in slots.indices where slots[place] != nil { keys.append(PartitionID(UInt16(place))) }
        return keys
    }

    /// In the order of partitions.
    func forEach(_ body: (PartitionID, Value) throws -> Void) rethrows {
        guard count > 0 else { return }
        for place in slots.indices {
            if let value = slots[place] { try body(PartitionID(UInt16(place)), value) }
        }
    }

    func mapValues<Other>(_ transform: (Value) throws -> Other) rethrows -> PartitionMap<Other> {
        var mapped = PartitionMap<Other>()
        try forEach { mapped[$0] = try transform($1) }
        return mapped
    }

    private func slot(_ place: Int) -> Value? { place < slots.count ? slots[place] : nil }

    private mutating func set(_ value: Value?, at place: Int) {
        if value == nil {
            guard place < slots.count, slots[place] != nil else { return }
            slots[place] = nil
            count -= 1
            return
        }
        while slots.count <= place { slots.append(nil) }
        if slots[place] == nil { count += 1 }
        slots[place] = value
    }
}
