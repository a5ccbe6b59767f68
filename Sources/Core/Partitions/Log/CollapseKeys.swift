import Model

/// Finds the older entries that a new entry with the same collapse key replaces.
///
/// Entries with few targets are indexed by device, because thousands of devices may each have their own entry
/// with the same key. Entries with many targets are in a list. The list stays short, because a message to the
/// same topic empties its predecessor.
struct CollapseKeys {
    struct Name: Hashable {
        var project: UInt32
        var share: [UInt8]
        var bytes: [UInt8]
    }
    struct Key {
        var name: Name
        var entries = 0
        var small: [UInt32: Position] = [:]
        var large: [Position] = []
    }
    /// Numbers of keys that name a share and collapse nothing have this bit.
    private static let plainBit: UInt32 = 1 << 31
    static func collapses(_ number: UInt32) -> Bool { number != 0 && number & plainBit == 0 }

    /// Keys that name a share.
    var shareCount = 0
    var numbers: [Name: UInt32] = [:]
    private(set) var keys: [UInt32: Key] = [:]
    private var next: UInt32 = 1
    /// The names of keys that the log forgot while a snapshot of an earlier state is being written.
    private var held: [UInt32: Name]?

    /// The number of a share's key; a key without a number gets one. 0 for no key of no share.
    mutating func number(of bytes: [UInt8], _ share: [UInt8], in project: UInt32) -> UInt32 {
        guard !bytes.isEmpty || !share.isEmpty else { return 0 }
        let name = Name(project: project, share: share, bytes: bytes)
        if let number = numbers[name] { return number }
        while next == 0 || keys[next] != nil || keys[next | CollapseKeys.plainBit] != nil { step() }
        let number = bytes.isEmpty ? next | CollapseKeys.plainBit : next
        step()
        if !share.isEmpty { shareCount += 1 }
        numbers[name] = number
        keys[number] = Key(name: name)
        return number
    }

    private mutating func step() { next = (next &+ 1) & ~CollapseKeys.plainBit }

    /// Keys that have a number.
    var count: Int { numbers.count }

    func name(of number: UInt32) -> Name? { keys[number]?.name ?? held?[number] }

    /// From now on `name(of:)` also knows the names of forgotten keys. A number comes again only after
    /// billions of others.
    mutating func hold() { held = [:] }
    mutating func letGo() { held = nil }

    mutating func add(_ number: UInt32, _ targets: DeviceSet, at position: Position) {
        keys[number]?.entries += 1
        guard CollapseKeys.collapses(number) else { return }
        if case .many = targets.storage {
            keys[number]?.large.append(position)
        } else {
            targets.forEach { keys[number]?.small[$0] = position }
        }
    }

    /// Positions of the key's entries that may have one of `devices` as a target: each once, ascending.
    func entries(of number: UInt32, sharing devices: DeviceSet) -> [Position] {
        guard let key = keys[number] else { return [] }
        var found = Set(key.large)
        if case .many = devices.storage, key.small.count < devices.count {
            for (index, position) in key.small where devices.contains(index) { found.insert(position) }
        } else {
            devices.forEach { if let position = key.small[$0] { found.insert(position) } }
        }
        return found.sorted()
    }

    /// The devices `leaving` have left the entry at `position`.
    mutating func remove(_ number: UInt32, _ leaving: DeviceSet, at position: Position) {
        leaving.forEach { index in
            if keys[number]?.small[index] == position { keys[number]?.small[index] = nil }
        }
    }

    /// The entry at `position` is gone. A key without entries is forgotten.
    mutating func free(_ number: UInt32, at position: Position) {
        guard keys[number] != nil else { return }
        keys[number]?.large.removeAll { $0 == position }
        keys[number]?.entries -= 1
        forgetIfUnused(number)
    }

    /// Forgets a key without entries, for example if a caller asked for a number and did not use it.
    mutating func forgetIfUnused(_ number: UInt32) {
        guard let key = keys[number], key.entries == 0 else { return }
        if !key.name.share.isEmpty { shareCount -= 1 }
        numbers[key.name] = nil
        keys[number] = nil
        held?[number] = key.name
    }
}
