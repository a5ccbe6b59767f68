import Model

/// A topic's number within one loop. Each name is stored once; sets and lists refer to the number.
struct TopicNumber: Hashable {
    let rawValue: UInt32
}

/// How many names of topics each project may have in one loop. Nothing expires, and the app's public key is
/// enough to make names, so without a bound they would take all memory.
public struct TopicBounds: Sendable {
    /// Names weigh 1, and 1 more for each whole 64 bytes.
    static func weight(ofBytes count: Int) -> UInt64 { 1 + UInt64(count) / 64 }

    /// For projects without their own bound.
    public var standard: UInt64 = .max
    public var ofProjects: [ProjectNumber: UInt64] = [:]

    func most(of project: ProjectNumber) -> UInt64 { ofProjects[project] ?? standard }
}

/// The names of all topics that a loop's partitions know, each stored once.
///
/// A million names as Swift strings in a dictionary cost 124 bytes each. Here a name costs its bytes, 16
/// bytes of offset, length, project and count of uses, and its share of an open-addressed table of 4-byte
/// numbers. Confined to its loop.
public final class TopicNames {
    private struct Entry {
        /// The low 32 bits of the offset of the name, and the 16 bits above: all names together may have more
        /// than 4 GiB.
        private var startLow: UInt32
        var length: UInt16
        private var startHigh: UInt16
        /// How many topics' sets and devices' lists refer to the name; 0 for a free number.
        var uses: UInt32
        var project: UInt32

        init(start: Int, length: Int, project: UInt32) {
            precondition(start < 1 << 48, "names of 256 TiB fit into no memory")
            startLow = UInt32(truncatingIfNeeded: start)
            startHigh = UInt16(truncatingIfNeeded: start >> 32)
            self.length = UInt16(length)
            uses = 1
            self.project = project
        }

        var start: Int {
            get { Int(startHigh) << 32 | Int(startLow) }
            set {
                startLow = UInt32(truncatingIfNeeded: newValue)
                startHigh = UInt16(truncatingIfNeeded: newValue >> 32)
            }
        }
    }
    private var bytes: [UInt8] = []
    private var entries: ContiguousArray<Entry> = []
    private var freeNumbers: [UInt32] = []
    /// Bytes of names that are no longer used. Past 64 KiB and half of all bytes, `pack` removes them.
    private var wasted = 0
    /// Number + 1, 0 for an empty slot; linear probing; a power of two, at most 2/3 full.
    private(set) var table: ContiguousArray<UInt32>
    private var used = 0
    /// What the names of each project weigh together. A project without a name has no entry.
    private var weights: [UInt32: UInt64] = [:]
    public var bounds = TopicBounds()

    public init() { table = ContiguousArray(repeating: 0, count: 64) }

    var count: Int { used }

    /// The number of a name, with one use more. A name without a number gets one.
    func retain(_ name: some RandomAccessCollection<UInt8>, in project: ProjectNumber) -> TopicNumber {
        let slot = find(name, project)
        if table[slot] != 0 {
            entries[Int(table[slot] - 1)].uses += 1
            return TopicNumber(rawValue: table[slot] - 1)
        }
        let entry = Entry(start: bytes.count, length: name.count, project: project.rawValue)
        bytes.append(contentsOf: name)
        let number: UInt32
        if let free = freeNumbers.popLast() {
            number = free
            entries[Int(free)] = entry
        } else {
            number = UInt32(entries.count)
            entries.append(entry)
        }
        table[slot] = number + 1
        used += 1
        weights[project.rawValue, default: 0] += TopicBounds.weight(ofBytes: name.count)
        if used * 3 > table.count * 2 { rebuild(size: table.count * 2) }
        return TopicNumber(rawValue: number)
    }

    /// The number of a name that is in use.
    func number(of name: some RandomAccessCollection<UInt8>, in project: ProjectNumber) -> TopicNumber? {
        let found = table[find(name, project)]
        return found == 0 ? nil : TopicNumber(rawValue: found - 1)
    }

    func retain(_ number: TopicNumber) { entries[Int(number.rawValue)].uses += 1 }

    func release(_ number: TopicNumber) {
        let index = Int(number.rawValue)
        precondition(entries[index].uses > 0, "a topic number is released as often as it is retained")
        entries[index].uses -= 1
        guard entries[index].uses == 0 else { return }
        erase(slot: find(nameBytes(number), project(of: number)))
        wasted += Int(entries[index].length)
        used -= 1
        let project = entries[index].project
        let left = (weights[project] ?? 0) - TopicBounds.weight(ofBytes: Int(entries[index].length))
        weights[project] = left > 0 ? left : nil
        freeNumbers.append(number.rawValue)
        if wasted > 65_536, wasted * 2 > bytes.count { pack() }
    }

    /// What the project's names weigh together.
    func weight(of project: ProjectNumber) -> UInt64 { weights[project.rawValue] ?? 0 }

    /// Whether the project may have one more name, of so many bytes.
    func hasRoom(forBytes count: Int, in project: ProjectNumber) -> Bool {
        let (sum, isHuge) = weight(of: project).addingReportingOverflow(TopicBounds.weight(ofBytes: count))
        return !isHuge && sum <= bounds.most(of: project)
    }

    func project(of number: TopicNumber) -> ProjectNumber {
        ProjectNumber(entries[Int(number.rawValue)].project)
    }
    func nameBytes(_ number: TopicNumber) -> ArraySlice<UInt8> {
        let entry = entries[Int(number.rawValue)]
        return bytes[entry.start..<entry.start + Int(entry.length)]
    }
    func name(_ number: TopicNumber) -> TopicName { TopicName(checked: Array(nameBytes(number))) }

    // MARK: Table

    private func find(_ name: some RandomAccessCollection<UInt8>, _ project: ProjectNumber) -> Int {
        let mask = table.count - 1
        var slot = TopicNames.homeSlot(of: name, project) & mask
        while table[slot] != 0 {
            let number = TopicNumber(rawValue: table[slot] - 1)
            let entry = entries[Int(number.rawValue)]
            if entry.project == project.rawValue, Int(entry.length) == name.count,
                nameBytes(number).elementsEqual(name)
            {
                return slot
            }
            slot = (slot + 1) & mask
        }
        return slot
    }

    /// The slot of a name in the table. Clients choose the names, so the hash has a secret of the process:
    /// with a public one they could choose names that all go to one slot, and each look-up would walk past
    /// all.
    private static func homeSlot(of name: some RandomAccessCollection<UInt8>, _ project: ProjectNumber) -> Int
    {
        var hasher = Hasher()
        hasher.combine(project.rawValue)
        let isDone: Void? = name.withContiguousStorageIfAvailable {
            hasher.combine(bytes: UnsafeRawBufferPointer($0))
        }
        if isDone == nil { Array(name).withUnsafeBytes { hasher.combine(bytes: $0) } }
        return hasher.finalize()
    }

    /// Deals names out; it protects nothing. It is part of the format of journals and of frames:
    /// pairs' fingerprints are made of it, and it deals topics into the slices of a repair.
    static func hash(_ name: some RandomAccessCollection<UInt8>, _ project: ProjectNumber) -> UInt64 {
        // Tests hold the values: with another function all pairs would differ.
        var hash = 0x9E37_79B9_7F4A_7C15 ^ UInt64(project.rawValue)
        for byte in name { hash = (hash ^ UInt64(byte)) &* 0x0000_0100_0000_01B3 }
        hash ^= hash >> 32
        hash &*= 0xD6E8_FEB8_6659_FD93
        return hash ^ hash >> 32
    }

    /// Empties one slot, and moves back the numbers that had been pushed past it.
    private func erase(slot erased: Int) {
        let mask = table.count - 1
        var hole = erased
        var slot = (hole + 1) & mask
        while table[slot] != 0 {
            let number = TopicNumber(rawValue: table[slot] - 1)
            let home = TopicNames.homeSlot(of: nameBytes(number), project(of: number)) & mask
            if (slot &- home) & mask >= (slot &- hole) & mask {
                table[hole] = table[slot]
                hole = slot
            }
            slot = (slot + 1) & mask
        }
        table[hole] = 0
    }

    private func rebuild(size: Int) {
        table = ContiguousArray(repeating: 0, count: size)
        for index in entries.indices where entries[index].uses > 0 {
            let number = TopicNumber(rawValue: UInt32(index))
            table[find(nameBytes(number), project(of: number))] = number.rawValue + 1
        }
    }

    private func pack() {
        var packed: [UInt8] = []
        packed.reserveCapacity(bytes.count - wasted)
        for index in entries.indices where entries[index].uses > 0 {
            let name = nameBytes(TopicNumber(rawValue: UInt32(index)))
            entries[index].start = packed.count
            packed.append(contentsOf: name)
        }
        bytes = packed
        wasted = 0
    }

    var bytesHeld: Int { bytes.capacity + entries.capacity * MemoryLayout<Entry>.stride + table.capacity * 4 }
}
