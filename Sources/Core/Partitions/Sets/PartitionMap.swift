import Model

/// A map from partitions to values. A look-up needs no hash, and a walk goes in the order of partition
/// numbers, so that every run does the same things in the same order.
///
/// The map takes room up to its highest partition. It is for what one partition knows of all others, because
/// it soon has a value for most of them.
struct PartitionMap<Value> {
    private var slots: [Value?] = []
    private(set) var count = 0

    var isEmpty: Bool { count == 0 }

    subscript(partition: PartitionID) -> Value? {
        get { slot(Int(partition.rawValue)) }
        set { set(newValue, at: Int(partition.rawValue)) }
    }

    /// Changes the value in place; begins with `initial` if there is none.
    subscript(partition: PartitionID, default initial: @autoclosure () -> Value) -> Value {
        get { slot(Int(partition.rawValue)) ?? initial() }
        _modify {
            let index = Int(partition.rawValue)
            while slots.count <= index { slots.append(nil) }
            if slots[index] == nil {
                slots[index] = initial()
                count += 1
            }
            // Safe: the lines above have set this slot if it was nil.
            // swift-format-ignore: NeverForceUnwrap
            yield &slots[index]!
        }
    }

    /// Ascending.
    var keys: [PartitionID] {
        var keys: [PartitionID] = []
        keys.reserveCapacity(count)
        for index in slots.indices where slots[index] != nil { keys.append(PartitionID(UInt16(index))) }
        return keys
    }

    /// In the order of partitions.
    func forEach(_ body: (PartitionID, Value) throws -> Void) rethrows {
        guard count > 0 else { return }
        for index in slots.indices {
            if let value = slots[index] { try body(PartitionID(UInt16(index)), value) }
        }
    }

    func mapValues<Other>(_ transform: (Value) throws -> Other) rethrows -> PartitionMap<Other> {
        var mapped = PartitionMap<Other>()
        try forEach { mapped[$0] = try transform($1) }
        return mapped
    }

    private func slot(_ index: Int) -> Value? { index < slots.count ? slots[index] : nil }

    private mutating func set(_ value: Value?, at index: Int) {
        if value == nil {
            guard index < slots.count, slots[index] != nil else { return }
            slots[index] = nil
            count -= 1
            return
        }
        while slots.count <= index { slots.append(nil) }
        if slots[index] == nil { count += 1 }
        slots[index] = value
    }
}
