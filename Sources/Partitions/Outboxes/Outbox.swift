import Model

/// The entries from this partition to one other: ordered, each applied exactly once (rule: outbox-order).
///
/// An entry's number is the sequence of the record that made it. Each entry names its predecessor, so a
/// receiver applies only the entry that follows its mark. An entry leaves when the receiver has it durably.
struct Outbox {
    /// Oldest first, unacknowledged from `head` on. Numbers must rise; each entry names the entry before.
    private(set) var entries: [OutboxEntry] = []
    /// Entries before this index are acknowledged. The array drops them now and then.
    private var head = 0
    /// The number of the newest entry ever made; 0 for none.
    private(set) var last: Sequence = .zero
    /// Bytes of the entries that are not acknowledged.
    var weight = 0
    /// XOR over the members that the receiver should have of this partition, after `last`.
    var fingerprint: UInt64 = 0

    var unacknowledged: ArraySlice<OutboxEntry> { entries[head...] }
    var isEmpty: Bool { head == entries.count }

    /// Adds `item` to the entry of `record`, which must be the newest. Returns the bytes of that entry.
    mutating func append(_ item: OutboxItem, record: Sequence) -> Int {
        let before = last == record && !isEmpty ? entries[entries.count - 1].weight : 0
        defer { weight += entries[entries.count - 1].weight - before }
        if last == record, !isEmpty {
            entries[entries.count - 1].append(item)
            entries[entries.count - 1].fingerprint = fingerprint
        } else {
            precondition(record > last, "outbox numbers rise")
            entries.append(
                OutboxEntry(number: record, predecessor: last, items: [item], fingerprint: fingerprint))
            last = record
        }
        return entries[entries.count - 1].weight
    }

    /// Lets go of entries up to `number`; calls `gone` for each.
    mutating func acknowledge(upTo number: Sequence, gone: (OutboxEntry) -> Void) {
        while head < entries.count, entries[head].number <= number {
            gone(entries[head])
            weight -= entries[head].weight
            head += 1
        }
        if head == entries.count {
            entries.removeAll(keepingCapacity: head <= 64)
            head = 0
        } else if head > 64, head * 2 > entries.count {
            entries.removeFirst(head)
            head = 0
        }
    }

    /// An outbox as a snapshot holds it.
    init(entries: [OutboxEntry], last: Sequence, fingerprint: UInt64) {
        self.entries = entries
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
    /// What is applied of the entry behind `number`, where the entry did not fit into one record.
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
    /// One member's share. The finalizer of SplitMix64 over the topic's hash and the index.
    static func of(_ topic: UInt64, _ index: UInt32) -> UInt64 {
        var mixed = topic &+ UInt64(index) &* 0x9E37_79B9_7F4A_7C15
        mixed = (mixed ^ mixed >> 30) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ mixed >> 27) &* 0x94D0_49BB_1331_11EB
        return mixed ^ mixed >> 31
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
    static let width: UInt64 = 1024
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
