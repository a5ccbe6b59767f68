import Model

/// A map from partitions to values. A look-up needs no hash, and a walk goes in the order of partition
/// numbers, so that every run does the same things in the same order.
///
/// The map takes room up to its highest partition. It is for what one partition knows of all others, because
/// it soon has a value for most of them.
struct PartitionMap<Value> {
    private var slots: [Value?] = []
    private(set) var count = 0

    init() {}

    var isEmpty: Bool { count == 0 }

    subscript(partition: PartitionID) -> Value? {
        get { slot(Int(partition.rawValue)) }
        set { set(newValue, at: Int(partition.rawValue)) }
    }

    /// Changes the value in place; begins with `initial` where there is none.
    subscript(partition: PartitionID, default initial: @autoclosure () -> Value) -> Value {
        get { slot(Int(partition.rawValue)) ?? initial() }
        _modify {
            let place = Int(partition.rawValue)
            while slots.count <= place { slots.append(nil) }
            if slots[place] == nil {
                slots[place] = initial()
                count += 1
            }
            // Safe: the lines above have set this slot where it was nil.
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
