import Model

// When waiting messages end. A message is filed under the minute of its next end.

extension DeliveryLog {
    /// The entries that are looked at when one minute is over.
    struct Expiring {
        /// Some of these entries may be gone, or be filed elsewhere meanwhile.
        var positions: [Position] = []
        /// How many of these entries still wait.
        var live = 0

        mutating func add(_ position: Position) {
            positions.append(position)
            live += 1
        }
    }

    /// The messages that end at push services in some minutes, each with the devices that wait for it.
    struct ServiceEnds {
        struct Message {
            var position: Position
            var project: ProjectNumber
            /// The body, if the log's cache has it.
            var body: [UInt8]?
            var kinds: Transport.Kinds
            var devices: DeviceSet
        }
        /// What ended in earlier minutes was noted then.
        var from: Int64
        var messages: [Message] = []

        mutating func note(_ entry: LogEntry, before minute: Int64) {
            let kinds = Transport.Kind.allCases.filter {
                let end = entry.ends[$0].milliseconds / 60_000
                return end < minute && (end >= from || entry.ends.areSame)
            }
            guard !kinds.isEmpty else { return }
            messages.append(
                Message(
                    position: entry.position, project: ProjectNumber(entry.project), body: entry.body,
                    kinds: Transport.Kinds(kinds), devices: entry.targets))
        }
    }

    /// Takes out of the log what ended in the minutes that are wholly over at `now`: whole entries, and of a
    /// message with several ends those devices for which no way is left.
    mutating func expire(_ now: WallTime, _ addresses: AddressTable, telling departure: Departure) {
        let minute = now.milliseconds / 60_000
        for due in expiring.keys.filter({ $0 < minute }).sorted() {
            let positions = expiring[due]?.positions ?? []
            expiring[due] = nil
            for position in positions {
                guard let (block, slot) = find(position),
                    block.entries[slot].ends.next.milliseconds / 60_000 == due
                else { continue }
                end(slot, of: block, before: minute, addresses, telling: departure)
            }
        }
        earliest = expiring.keys.min()
    }

    /// Takes the targets out of an entry that is filed nowhere, and files the rest.
    private mutating func end(
        _ slot: Int, of block: LogBlock, before minute: Int64, _ addresses: AddressTable,
        telling departure: Departure
    ) {
        let entry = block.entries[slot]
        if !addresses.isEmpty { serviceEnds?.note(entry, before: minute) }
        func lasts(_ end: WallTime) -> Bool { end.milliseconds / 60_000 >= minute }
        var leaving = entry.targets
        if lasts(entry.ends.stream) {
            leaving = DeviceSet()
        } else {
            let kinds = Transport.Kinds(Transport.Kind.allCases.filter { lasts(entry.ends[$0]) })
            if !kinds.isEmpty { leaving = leaving.subtracting(addresses.targets(entry.targets, kinds)) }
        }
        if !leaving.isEmpty { remove(leaving, outOf: block, at: slot, departure) }
        guard !block.entries[slot].targets.isEmpty, let next = entry.ends.nextEnd(from: minute) else {
            return
        }
        block.entries[slot].ends = entry.ends.lookedAt(next)
        file(entry.position, under: next)
    }

    /// The device gets an address of another kind. A message that was over by the addresses of `kinds`, which
    /// it had, stays over: its streams have passed the message, and would show it behind later ones.
    mutating func end(
        for index: UInt32, by kinds: Transport.Kinds, at time: WallTime, _ departure: Departure
    ) {
        visit(DeviceSet(index), upTo: last) { log, block, slot in
            let entry = block.entries[slot]
            guard entry.targets.contains(index), entry.ends.last(kinds) <= time else { return true }
            log.remove(DeviceSet(index), outOf: block, at: slot, departure)
            return true
        }
    }

    /// The device has lost an address, so its messages may be over sooner: the log looks at them again.
    mutating func lookAgain(at index: UInt32) {
        visit(DeviceSet(index), upTo: last) { log, block, slot in
            let entry = block.entries[slot]
            guard case .several(let ends) = entry.ends, entry.targets.contains(index) else { return true }
            let first = EntryEnds.first(ends, at: entry.position)
            guard first < ends.next else { return true }
            block.entries[slot].ends = entry.ends.lookedAt(first)
            log.forgetExpiry(of: entry)
            log.file(entry.position, under: first)
            return true
        }
    }

    mutating func file(_ position: Position, under end: WallTime) {
        let minute = end.milliseconds / 60_000
        expiring[minute, default: Expiring()].add(position)
        earliest = min(earliest ?? minute, minute)
    }

    /// The earliest time at which `expire` may have something to do: the end of a minute.
    var nextExpiry: WallTime? { earliest.map { WallTime(milliseconds: ($0 + 1) * 60_000) } }

    /// Most entries go long before they expire. The log strikes gone entries out of their minute when they
    /// outnumber the rest, so that memory follows what waits and not the traffic of four weeks.
    mutating func forgetExpiry(of entry: LogEntry) {
        let minute = entry.ends.next.milliseconds / 60_000
        var isCrowded = false
        expiring.update(minute) { held in
            held.live -= 1
            isCrowded = held.positions.count > max(128, held.live * 2)
            return held.live > 0
        }
        if expiring.isEmpty { earliest = nil }
        guard isCrowded, var held = expiring[minute] else { return }
        // An entry may have been filed here more than once.
        var former = Position.zero
        held.positions = held.positions.sorted().filter { position in
            defer { former = position }
            guard position > former, let (block, slot) = find(position) else { return false }
            return block.entries[slot].ends.next.milliseconds / 60_000 == minute
        }
        expiring[minute] = held
    }
}
