import Model

/// The topics that a device is subscribed to, with the day of each: 16 bytes, and a block if needed.
///
/// Up to two topics are in the slot, more in one block of 6 bytes each, in no order. The holder calls
/// `destroy()`.
struct DeviceTopics {
    private static let inlineMax = 2
    private static let stride = 6
    private static let flatKind: UInt64 = 0xFF

    private var low: UInt64 = 0
    private var high: UInt64 = 0

    private var isFlat: Bool { high >> 56 == DeviceTopics.flatKind }

    var count: Int { isFlat ? Int(UInt16(truncatingIfNeeded: high)) : Int(high >> 56) }

    subscript(index: Int) -> (topic: TopicNumber, since: Day) {
        if isFlat {
            let entry = base + index * DeviceTopics.stride
            return (
                TopicNumber(rawValue: entry.loadUnaligned(as: UInt32.self)),
                Day(entry.loadUnaligned(fromByteOffset: 4, as: UInt16.self))
            )
        }
        return index == 0
            ? (TopicNumber(rawValue: UInt32(truncatingIfNeeded: low)), Day(UInt16(truncatingIfNeeded: high)))
            : (TopicNumber(rawValue: UInt32(low >> 32)), Day(UInt16(truncatingIfNeeded: high >> 16)))
    }

    func index(of topic: TopicNumber) -> Int? {
        for index in 0..<count where self[index].topic == topic { return index }
        return nil
    }

    /// The caller has made sure that the topic is not there.
    mutating func append(_ topic: TopicNumber, since day: Day) {
        let old = count
        if !isFlat, old < DeviceTopics.inlineMax {
            if old == 0 {
                low = UInt64(topic.rawValue)
                high = 1 << 56 | UInt64(day.rawValue)
            } else {
                low |= UInt64(topic.rawValue) << 32
                high = 2 << 56 | high & 0xFFFF | UInt64(day.rawValue) << 16
            }
            return
        }
        if !isFlat || capacity == old { grow(to: old + 1) }
        store(topic, day, at: old)
        high = (high & ~0xFFFF) | UInt64(UInt16(old + 1))
    }

    mutating func remove(at index: Int) {
        let last = count - 1
        let moved = self[last]
        if isFlat {
            store(moved.topic, moved.since, at: index)
            high = (high & ~0xFFFF) | UInt64(UInt16(last))
            if last == 0 { destroy() }
            return
        }
        let kept = index == 0 && last == 1 ? moved : self[0]
        low = 0
        high = 0
        if last == 1 { append(kept.topic, since: kept.since) }
    }

    mutating func destroy() {
        if isFlat { base.deallocate() }
        low = 0
        high = 0
    }

    private var base: UnsafeMutableRawPointer {
        // The flat form always holds a pointer here.
        guard let pointer = UnsafeMutableRawPointer(bitPattern: UInt(low)) else {
            fatalError("a list without a block")
        }
        return pointer
    }
    private var capacity: Int { Int(UInt16(truncatingIfNeeded: high >> 16)) }

    private func store(_ topic: TopicNumber, _ day: Day, at index: Int) {
        let entry = base + index * DeviceTopics.stride
        entry.storeBytes(of: topic.rawValue, as: UInt32.self)
        entry.storeBytes(of: day.rawValue, toByteOffset: 4, as: UInt16.self)
    }

    private mutating func grow(to wanted: Int) {
        let old = (0..<count).map { self[$0] }
        let room = isFlat ? max(wanted, capacity + capacity / 2) : wanted
        let bytes = SizeClass.bytes(atLeast: room * DeviceTopics.stride)
        let block = UnsafeMutableRawPointer.allocate(byteCount: bytes, alignment: 8)
        if isFlat { base.deallocate() }
        low = UInt64(UInt(bitPattern: block))
        let capacity = UInt64(min(bytes / DeviceTopics.stride, Int(UInt16.max)))
        high = DeviceTopics.flatKind << 56 | capacity << 16 | UInt64(old.count)
        for (index, entry) in old.enumerated() { store(entry.topic, entry.since, at: index) }
    }
}
