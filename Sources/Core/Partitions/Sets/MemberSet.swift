import Model

/// The devices that are subscribed to one topic, in 16 bytes and a block for what does not fit there.
///
/// Most topics have a handful of members, some have millions, and there may be a million topics; so there are
/// three forms. Up to three members are in the slot itself. More members are in one flat, sorted block of 5
/// bytes each (12 bits of partition, 28 of index). When the average part (the members in one partition) has
/// some hundreds, the set splits into one set for each partition. Those sets are Roaring bitmaps, and
/// fan-outs under way share them by reference.
///
/// The slot owns its memory without being a class: its table must call `destroy()` when the slot ends.
struct MemberSet {
    static let inlineMax = 3
    /// The average part past which a flat block splits.
    static let partMembersMax = 256
    /// Below this many members a split set becomes flat again.
    static let flattenBelow = 64

    private static let flatKind: UInt64 = 0xFE
    private static let partsKind: UInt64 = 0xFF

    private var low: UInt64 = 0
    private var high: UInt64 = 0

    private var kind: UInt64 { high >> 56 }

    init() {}

    // MARK: Reading

    var count: Int {
        switch kind {
        case MemberSet.flatKind: Int(UInt32(truncatingIfNeeded: high))
        case MemberSet.partsKind: parts.count
        default: Int(kind)
        }
    }

    var isEmpty: Bool { count == 0 }

    func contains(_ partition: PartitionID, _ index: UInt32) -> Bool {
        if kind == MemberSet.partsKind { return parts.part(partition)?.contains(index) ?? false }
        let wanted = MemberSet.member(partition, index)
        let position = lowerBound(wanted)
        return position < count && self[position] == wanted
    }

    /// Each partition that has members, ascending, with its members. A large part is shared, not copied.
    func forEachPart(_ body: (PartitionID, DeviceSet) -> Void) {
        if kind == MemberSet.partsKind {
            for part in parts.parts { body(part.partition, part.devices) }
            return
        }
        let total = count
        var position = 0
        while position < total {
            let first = self[position]
            let partition = MemberSet.partition(first)
            if position + 1 == total || MemberSet.partition(self[position + 1]) != partition {
                body(partition, DeviceSet(MemberSet.index(first)))
                position += 1
                continue
            }
            var indices: [UInt32] = []
            while position < total, MemberSet.partition(self[position]) == partition {
                indices.append(MemberSet.index(self[position]))
                position += 1
            }
            body(partition, DeviceSet(sorted: indices))
        }
    }

    func part(_ partition: PartitionID) -> DeviceSet {
        if kind == MemberSet.partsKind { return parts.part(partition) ?? DeviceSet() }
        var indices: [UInt32] = []
        var position = lowerBound(MemberSet.member(partition, 0))
        while position < count, MemberSet.partition(self[position]) == partition {
            indices.append(MemberSet.index(self[position]))
            position += 1
        }
        return DeviceSet(sorted: indices)
    }

    // MARK: Changing

    /// Adds `indices` (ascending, without repeats) of one partition; calls `added` for each that was not
    /// there.
    mutating func insert(_ partition: PartitionID, _ indices: [UInt32], added: (UInt32) -> Void) {
        if kind == MemberSet.partsKind {
            parts.insert(partition, indices, added: added)
            return
        }
        let fresh = indices.filter { !contains(partition, $0) }
        guard let first = fresh.first else { return }
        fresh.forEach(added)
        let old = count
        let total = old + fresh.count
        let gap = lowerBound(MemberSet.member(partition, first))
        if total <= MemberSet.inlineMax {
            var members = (0..<old).map { self[$0] } + fresh.map { MemberSet.member(partition, $0) }
            members.sort()
            setInline(members)
            return
        }
        reserve(total)
        merge(partition, fresh, old: old, from: gap)
        setCount(total)
        splitIfDense()
    }

    /// Takes out `indices` (ascending) of one partition; calls `removed` for each that was there.
    mutating func remove(_ partition: PartitionID, _ indices: [UInt32], removed: (UInt32) -> Void) {
        if kind == MemberSet.partsKind {
            parts.remove(partition, indices, removed: removed)
            if parts.count < MemberSet.flattenBelow { flatten() }
            return
        }
        var kept = 0
        let total = count
        var next = 0
        var members: [UInt64] = []
        for position in 0..<total {
            let member = self[position]
            if MemberSet.partition(member) == partition {
                let index = MemberSet.index(member)
                while next < indices.count, indices[next] < index { next += 1 }
                if next < indices.count, indices[next] == index {
                    removed(index)
                    continue
                }
            }
            if kind == MemberSet.flatKind { self[kept] = member } else { members.append(member) }
            kept += 1
        }
        if kind == MemberSet.flatKind {
            if kept <= MemberSet.inlineMax {
                members = (0..<kept).map { self[$0] }
                destroy()
                setInline(members)
            } else {
                setCount(kept)
            }
        } else {
            setInline(members)
        }
    }

    /// Frees what the slot owns and leaves it empty.
    mutating func destroy() {
        switch kind {
        case MemberSet.flatKind: base.deallocate()
        case MemberSet.partsKind: Unmanaged<MemberParts>.fromOpaque(base).release()
        default: break
        }
        low = 0
        high = 0
    }

    // MARK: Layout

    private var base: UnsafeMutableRawPointer {
        // The flat and parts forms always hold a pointer here.
        guard let pointer = UnsafeMutableRawPointer(bitPattern: UInt(low)) else {
            fatalError("a set without a block")
        }
        return pointer
    }
    private var parts: MemberParts { Unmanaged<MemberParts>.fromOpaque(base).takeUnretainedValue() }
    /// In members.
    private var capacity: Int { Int((high >> 32) & 0xFF_FFFF) }

    private static func member(_ partition: PartitionID, _ index: UInt32) -> UInt64 {
        UInt64(partition.rawValue) << 28 | UInt64(index)
    }
    private static func partition(_ member: UInt64) -> PartitionID { PartitionID(UInt16(member >> 28)) }
    private static func index(_ member: UInt64) -> UInt32 { UInt32(truncatingIfNeeded: member & 0xFFF_FFFF) }

    private subscript(position: Int) -> UInt64 {
        get {
            if kind == MemberSet.flatKind {
                let block = base + position * 5
                let head = UInt64(block.loadUnaligned(as: UInt32.self))
                return head | UInt64(block.load(fromByteOffset: 4, as: UInt8.self)) << 32
            }
            switch position {
            case 0: return low & 0xFF_FFFF_FFFF
            case 1: return low >> 40 | (high & 0xFFFF) << 24
            default: return (high >> 16) & 0xFF_FFFF_FFFF
            }
        }
        nonmutating set {
            let block = base + position * 5
            block.storeBytes(of: UInt32(truncatingIfNeeded: newValue), as: UInt32.self)
            block.storeBytes(of: UInt8(truncatingIfNeeded: newValue >> 32), toByteOffset: 4, as: UInt8.self)
        }
    }

    private func lowerBound(_ member: UInt64) -> Int {
        var from = 0
        var to = count
        while from < to {
            let middle = (from + to) / 2
            if self[middle] < member { from = middle + 1 } else { to = middle }
        }
        return from
    }

    private mutating func setInline(_ members: [UInt64]) {
        low = 0
        high = UInt64(members.count) << 56
        if members.count > 0 { low = members[0] }
        if members.count > 1 {
            low |= members[1] << 40
            high |= members[1] >> 24
        }
        if members.count > 2 { high |= members[2] << 16 }
    }

    private mutating func setCount(_ count: Int) {
        high = (high & ~0xFFFF_FFFF) | UInt64(UInt32(count))
    }

    /// Makes the set flat with room for `total` members.
    private mutating func reserve(_ total: Int) {
        if kind == MemberSet.flatKind, capacity >= total { return }
        let grown = kind == MemberSet.flatKind ? max(total, capacity + capacity / 4) : total
        let bytes = SizeClass.bytes(atLeast: grown * 5)
        let block = UnsafeMutableRawPointer.allocate(byteCount: bytes, alignment: 8)
        let old = count
        if kind == MemberSet.flatKind {
            block.copyMemory(from: base, byteCount: old * 5)
            base.deallocate()
        } else {
            let members = (0..<old).map { self[$0] }
            for (position, member) in members.enumerated() {
                block.storeBytes(
                    of: UInt32(truncatingIfNeeded: member), toByteOffset: position * 5, as: UInt32.self)
                block.storeBytes(
                    of: UInt8(truncatingIfNeeded: member >> 32), toByteOffset: position * 5 + 4,
                    as: UInt8.self)
            }
        }
        low = UInt64(UInt(bitPattern: block))
        high = MemberSet.flatKind << 56 | UInt64(min(bytes / 5, 0xFF_FFFF)) << 32 | UInt64(UInt32(old))
    }

    /// Merges from the back, so that each member moves only once.
    private func merge(_ partition: PartitionID, _ fresh: [UInt32], old: Int, from gap: Int) {
        var left = old - 1
        var right = fresh.count - 1
        var position = old + fresh.count - 1
        while right >= 0 {
            let member = MemberSet.member(partition, fresh[right])
            if left >= gap, self[left] > member {
                self[position] = self[left]
                left -= 1
            } else {
                self[position] = member
                right -= 1
            }
            position -= 1
        }
    }

    private mutating func splitIfDense() {
        let total = count
        guard total > MemberSet.partMembersMax else { return }
        var distinct = 0
        var position = 0
        while position < total {
            distinct += 1
            guard total / distinct > MemberSet.partMembersMax else { return }
            let next = UInt64(MemberSet.partition(self[position]).rawValue) + 1
            position = lowerBound(next << 28)
        }
        let split = MemberParts()
        forEachPart { split.append($0, $1) }
        destroy()
        replace(with: split)
    }

    private mutating func replace(with split: MemberParts) {
        low = UInt64(UInt(bitPattern: Unmanaged.passRetained(split).toOpaque()))
        high = MemberSet.partsKind << 56
    }

    private mutating func flatten() {
        var flat = MemberSet()
        for part in parts.parts { flat.insert(part.partition, part.devices.sorted) { _ in } }
        destroy()
        self = flat
    }

    /// A set whose parts are given, ascending (from a snapshot).
    init(parts given: [(partition: PartitionID, devices: DeviceSet)]) {
        let total = given.reduce(0) { $0 + $1.devices.count }
        if total / max(given.count, 1) > MemberSet.partMembersMax {
            let split = MemberParts()
            for part in given { split.append(part.partition, part.devices) }
            replace(with: split)
        } else {
            reserve(max(total, MemberSet.inlineMax + 1))
            var position = 0
            for part in given {
                part.devices.forEach { index in
                    self[position] = MemberSet.member(part.partition, index)
                    position += 1
                }
            }
            setCount(total)
            if total <= MemberSet.inlineMax {
                let members = (0..<total).map { self[$0] }
                destroy()
                setInline(members)
            }
        }
    }
}

/// The form of a large set: a set of device indices for each partition that has members.
final class MemberParts {
    private(set) var parts: [(partition: PartitionID, devices: DeviceSet)] = []
    private(set) var count = 0

    func part(_ partition: PartitionID) -> DeviceSet? {
        let position = self.position(of: partition)
        return position < parts.count && parts[position].partition == partition
            ? parts[position].devices : nil
    }

    func append(_ partition: PartitionID, _ devices: DeviceSet) {
        parts.append((partition, devices))
        count += devices.count
    }

    func insert(_ partition: PartitionID, _ indices: [UInt32], added: (UInt32) -> Void) {
        let position = self.position(of: partition)
        if position == parts.count || parts[position].partition != partition {
            parts.insert((partition, DeviceSet()), at: position)
        }
        let before = parts[position].devices.count
        parts[position].devices.insert(indices, added: added)
        count += parts[position].devices.count - before
    }

    func remove(_ partition: PartitionID, _ indices: [UInt32], removed: (UInt32) -> Void) {
        let position = self.position(of: partition)
        guard position < parts.count, parts[position].partition == partition else { return }
        for index in indices where parts[position].devices.remove(index) {
            removed(index)
            count -= 1
        }
        if parts[position].devices.isEmpty { parts.remove(at: position) }
    }

    private func position(of partition: PartitionID) -> Int {
        var low = 0
        var high = parts.count
        while low < high {
            let middle = (low + high) / 2
            if parts[middle].partition < partition { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
