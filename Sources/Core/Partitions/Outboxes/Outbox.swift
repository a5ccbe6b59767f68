import DequeModule
import Model

/// The entries from this partition to one other: ordered, each applied exactly once (rule: outbox-order).
///
/// An entry's number is the sequence of the record that made it. Each entry names its predecessor, so a
/// receiver applies only the entry that follows its mark. An entry leaves when the receiver has it durably.
struct Outbox {
    /// Oldest first. Numbers must rise; each entry names the entry before.
    private(set) var unacknowledged: Deque<OutboxEntry> = []
    /// The number of the newest entry ever made; 0 for none.
    private(set) var last: Sequence = .zero
    /// Bytes of the entries that are not acknowledged.
    var weight = 0
    /// XOR over the members that the receiver should have of this partition, after `last`.
    var fingerprint: UInt64 = 0

    var isEmpty: Bool { unacknowledged.isEmpty }

    /// Adds `item` to the entry of `record`, which must be the newest. Returns the bytes of that entry.
    mutating func append(_ item: OutboxItem, record: Sequence) -> Int {
        var before = 0
        if last == record, !isEmpty {
            let newest = unacknowledged.count - 1
            before = unacknowledged[newest].weight
            unacknowledged[newest].append(item)
            unacknowledged[newest].fingerprint = fingerprint
        } else {
            precondition(record > last, "outbox numbers rise")
            unacknowledged.append(
                OutboxEntry(number: record, predecessor: last, items: [item], fingerprint: fingerprint))
            last = record
        }
        let after = unacknowledged[unacknowledged.count - 1].weight
        weight += after - before
        return after
    }

    /// Lets go of entries up to `number`; calls `gone` for each.
    mutating func acknowledge(upTo number: Sequence, gone: (OutboxEntry) -> Void) {
        let isLong = unacknowledged.count > 64
        while let entry = unacknowledged.first, entry.number <= number {
            gone(entry)
            weight -= entry.weight
            unacknowledged.removeFirst()
        }
        // A short outbox keeps its memory for the next entries.
        if isLong, isEmpty { unacknowledged = [] }
    }

    /// An outbox as a snapshot holds it.
    init(entries: [OutboxEntry], last: Sequence, fingerprint: UInt64) {
        unacknowledged = Deque(entries)
        self.last = last
        self.fingerprint = fingerprint
        weight = entries.reduce(0) { $0 + $1.weight }
    }

    init() {}
}

/// How far this partition has applied another partition's outbox.
struct InboxMark: Hashable, Sendable {
    /// The sender's history. A number means something only within a history and a generation.
    var history: History
    var generation: UInt64 = 0
    var number: Sequence
    /// XOR over the members of the sender's devices in this partition's topics, after the entry `number`.
    var fingerprint: UInt64
    /// What is applied of the entry behind `number`, if the entry did not fit into one record.
    var part: Part?

    struct Part: Hashable, Sendable {
        var entry: Sequence
        /// How many of the entry's items are applied, from the first on.
        var items: UInt32
        /// XOR over the members as they are now.
        var fingerprint: UInt64
    }

    /// Whether the items behind the first `behind` items of `entry` are the next to be applied.
    func isNext(_ entry: OutboxEntry, behind: UInt32) -> Bool {
        entry.follows(number) && behind == (part?.entry == entry.number ? part?.items ?? 0 : 0)
    }
}

enum Fingerprint {
    /// One member's share.
    static func of(_ topic: UInt64, _ index: UInt32) -> UInt64 {
        SeededGenerator.mixed(topic &+ UInt64(index) &* 0x9E37_79B9_7F4A_7C15)
    }

    static func of(_ topic: UInt64, _ indices: [UInt32]) -> UInt64 {
        indices.reduce(0) { $0 ^ of(topic, $1) }
    }

    static func topic(_ name: some RandomAccessCollection<UInt8>, _ project: ProjectNumber) -> UInt64 {
        TopicNames.hash(name, project)
    }
}

/// Which of the last 1,024 numbers of one run of a gateway loop this partition has accepted.
struct DeduplicationWindow: Hashable, Sendable {
    static let width = UInt64(StoredRules.requestWindow)
    private(set) var highest: UInt64 = 0
    private(set) var bits = [UInt64](repeating: 0, count: Int(width / 64))

    enum Verdict { case new, repeated, tooOld }

    /// `width`: how many of the last numbers count, at most as many as are kept.
    func verdict(_ number: UInt64, within width: UInt64 = width) -> Verdict {
        if number > highest { return .new }
        if highest - number >= width { return .tooOld }
        return isSet(number) ? .repeated : .new
    }

    mutating func insert(_ number: UInt64) {
        if number > highest {
            if number - highest >= DeduplicationWindow.width {
                for index in bits.indices { bits[index] = 0 }
            } else {
                for skipped in highest + 1..<number { clear(skipped) }
            }
            highest = number
        }
        bits[Int(number % DeduplicationWindow.width / 64)] |= 1 << (number % 64)
    }

    private func isSet(_ number: UInt64) -> Bool {
        bits[Int(number % DeduplicationWindow.width / 64)] & 1 << (number % 64) != 0
    }
    private mutating func clear(_ number: UInt64) {
        bits[Int(number % DeduplicationWindow.width / 64)] &= ~(1 << (number % 64))
    }

    init() {}
    init(highest: UInt64, bits: [UInt64]) {
        self.highest = highest
        self.bits = bits
    }
}
