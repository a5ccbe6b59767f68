import Bytes
import Model

/// A partition's state as of one record, written piece by piece while the partition goes on.
///
/// Devices and topics are too many to be copied, so the writer walks over them in slices. A device or topic
/// that is about to change before the walk has come to it is written immediately, as it still is: `touch`. So
/// items come in any order, each at most once. The writer holds everything else as values, and writes it
/// last: the first change copies the array that holds the value, never more. Each name is written at its
/// first use, and retained until the end, so that no number means another name meanwhile.
final class SnapshotWriter {
    static let version: UInt8 = 1

    enum Item: UInt8 {
        case end = 0
        case device, topic, message, outbox, entry, mark, window, condition
    }

    private enum Phase: Comparable {
        case devices, topics, log, streams, names, done

        /// The cost of a step apart from the bytes that it makes, in bytes, as measured by `core-bench
        /// snapshots`: a topic with few members takes longer to find than to write.
        var cost: Int {
            switch self {
            case .devices: 8
            case .topics, .streams: 64
            case .log, .names, .done: 16
            }
        }
    }

    let covering: Sequence
    /// Records whose bodies devices waited for, ascending; complete when everything is written.
    private(set) var keeping: [Sequence] = []
    private var phase = Phase.devices
    /// Bytes that are made and not taken.
    private var out = ByteWriter()

    // The parts of the state that the writer holds as values.
    private let deviceEnd: UInt32
    private var blocks: [[LogEntry]]
    private var outboxes: [(partition: PartitionID, outbox: Outbox)] = []
    private var marks: [(partition: PartitionID, mark: InboxMark)] = []
    private var windows: [(key: UInt64, value: DeduplicationWindow)]
    private var conditions: [(key: ConditionTicket, value: PendingCondition)]

    // How far the walk has come.
    private var nextDevice: UInt32 = 0
    private var shard = 0
    private var shardTopics: [TopicNumber] = []
    private var cursor = 0
    private var block = 0
    /// Devices and topics that were written before the walk came to them, or that did not exist.
    private let early = (devices: Bitmap(), topics: Bitmap())
    /// The days on which devices were last seen, as they were, for pages that changed since.
    private var days: [Int: [UInt16]] = [:]

    /// By topic number, in pages: 1 plus the index of the topic's name among the written names; 0 for none.
    private var nameIndices: [ContiguousArray<UInt32>?] = []
    private static let pageSize = 4096
    private var used: [TopicNumber] = []
    /// Where the items of an image begin; `nil` in a snapshot.
    private var starts: [Int]?

    init(_ state: borrowing PartitionState) {
        covering = state.applied
        deviceEnd = state.devices.next
        blocks = state.log.frozen()
        windows = state.windows.sorted(by: <)
        conditions = state.conditions.sorted { ConditionTicket.isBefore($0.key, $1.key) }
        state.outboxes.forEach { outboxes.append(($0, $1)) }
        state.marks.forEach { marks.append(($0, $1)) }
        out.u8(SnapshotWriter.version)
        out.header(of: state)
        out.varint(UInt64(deviceEnd))
        out.varint(state.log.last.rawValue)
    }

    /// The state as bytes in one order, with each name in full: equal states give equal bytes, whatever
    /// numbers their names have. For checks.
    static func image(of state: borrowing PartitionState) -> [UInt8] {
        let writer = SnapshotWriter(state)
        writer.starts = []
        writer.advance(.max, state)
        let (bytes, starts) = (writer.out.bytes, writer.starts ?? [])
        let items = zip(starts, starts.dropFirst() + [bytes.count]).map { bytes[$0..<$1] }
        let head = bytes[..<(starts.first ?? bytes.count)]
        return Array(head) + items.sorted { $0.lexicographicallyPrecedes($1) }.joined()
    }

    /// An outbox's entries belong to the item of the outbox.
    private func begin(_ item: Item) {
        if item != .entry { starts?.append(out.count) }
        out.u8(item.rawValue)
    }

    /// Whether all bytes are made.
    var isWritten: Bool { phase >= .names }
    /// Whether the writer has released all names, too.
    var isDone: Bool { phase == .done }
    /// Bytes that are made and not taken.
    var waiting: Int { out.count }

    /// Takes the next bytes, at most `count`. The rest, at most about two parts, moves to the front: an array
    /// that only grew would be copied whole now and then.
    func drain(upTo count: Int) -> [UInt8] {
        let bytes = Array(out.bytes.prefix(count))
        out.bytes.removeFirst(bytes.count)
        return bytes
    }

    /// Gives the snapshot up. The writer releases its names in slices.
    func abandon() {
        if phase < .names { phase = .names }
        out = ByteWriter()
        (blocks, outboxes, marks, windows, conditions) = ([], [], [], [], [])
    }

    /// Releases all names at once, because the partition's state ends.
    func releaseNames(_ names: TopicNames) {
        for number in used { names.release(number) }
        used = []
    }

    /// Goes on until about `bytes` bytes are made, or as much work is done.
    func advance(_ bytes: Int, _ state: borrowing PartitionState) {
        var work = 0
        while work < bytes, phase != .done {
            let before = out.count
            work += phase.cost
            switch phase {
            case .devices: nextDeviceSlot(state)
            case .topics: nextTopic(state)
            case .log: nextMessage(state)
            case .streams: nextOfStreams()
            case .names: releaseName(state.names)
            case .done: break
            }
            work += out.count - before
        }
    }

    // MARK: What is about to change

    /// The device is about to end, or its topics or its loss are about to change.
    func touch(device index: UInt32, _ state: borrowing PartitionState) {
        guard phase == .devices, index >= nextDevice, index < deviceEnd, early.devices.add(index),
            let (page, at) = state.devices.find(index)
        else { return }
        write(device: index, of: page, at: at, state)
    }

    /// The last-seen days of this page are about to change.
    func touch(daysOf index: UInt32, _ page: DevicePage) {
        let number = Int(index) / DeviceTable.pageSize
        guard phase == .devices, index < deviceEnd, days[number] == nil else { return }
        days[number] = Array(UnsafeBufferPointer(start: page.seen, count: DeviceTable.pageSize))
    }

    /// The topic's members are about to change.
    func touch(topic: TopicNumber, _ state: borrowing PartitionState) {
        guard phase <= .topics, !isPassed(topic), early.topics.add(topic.rawValue) else { return }
        if state.topics.contains(topic) { write(topic, state) }
    }

    private func isPassed(_ topic: TopicNumber) -> Bool {
        guard phase == .topics else { return false }
        let own = TopicTable.shard(of: topic)
        guard own == shard else { return own < shard }
        return cursor > 0 && topic.rawValue <= shardTopics[cursor - 1].rawValue
    }

    // MARK: Devices and topics

    private func nextDeviceSlot(_ state: borrowing PartitionState) {
        guard nextDevice < deviceEnd else {
            shardTopics = state.topics.numbers(inShard: 0)
            days = [:]
            phase = .topics
            return
        }
        let index = nextDevice
        let number = Int(index) / DeviceTable.pageSize
        guard number < state.devices.pages.count, let page = state.devices.pages[number] else {
            // Devices that were on this page were written when they ended.
            nextDevice = min(deviceEnd, UInt32((number + 1) * DeviceTable.pageSize))
            return
        }
        nextDevice += 1
        let at = Int(index) % DeviceTable.pageSize
        guard page.projects[at] != 0, !early.devices.contains(index) else { return }
        write(device: index, of: page, at: at, state)
    }

    private func write(
        device index: UInt32, of page: DevicePage, at: Int, _ state: borrowing PartitionState
    ) {
        begin(.device)
        out.varint(UInt64(index))
        out.varint(UInt64(page.projects[at]))
        out.u32(page.nonces[at])
        out.u64(page.secrets[at])
        out.u16(days.isEmpty ? page.seen[at] : days[Int(index) / DeviceTable.pageSize]?[at] ?? page.seen[at])
        out.varint(state.overflowed.isEmpty ? 0 : state.overflowed[index]?.told.rawValue ?? 0)
        let list = page.topics[at]
        out.varint(list.count)
        for position in order(of: list, state.names) {
            write(name: list[position].topic, state.names)
            out.u16(list[position].since.rawValue)
        }
        let stored = state.transports.isEmpty ? nil : state.transports[index]
        out.varint(stored?.count ?? 0)
        for one in stored ?? [] { out.stored(one) }
    }

    /// In an image by name.
    private func order(of topics: DeviceTopics, _ names: TopicNames) -> [Int] {
        let all = Array(0..<topics.count)
        guard starts != nil else { return all }
        return all.sorted {
            names.nameBytes(topics[$0].topic).lexicographicallyPrecedes(names.nameBytes(topics[$1].topic))
        }
    }

    private func nextTopic(_ state: borrowing PartitionState) {
        guard cursor < shardTopics.count else {
            shard += 1
            cursor = 0
            if shard < TopicTable.shardCount {
                shardTopics = state.topics.numbers(inShard: shard)
            } else {
                shardTopics = []
                phase = .log
            }
            return
        }
        let topic = shardTopics[cursor]
        cursor += 1
        if !early.topics.contains(topic.rawValue) { write(topic, state) }
    }

    private func write(_ topic: TopicNumber, _ state: borrowing PartitionState) {
        begin(.topic)
        write(name: topic, state.names)
        let parts = state.topics.parts(topic)
        out.varint(parts.count)
        for part in parts {
            out.varint(UInt64(part.partition.rawValue))
            out.devices(part.devices)
        }
    }

    /// Writes a name's index among the written names; behind its first use comes the name itself.
    private func write(name number: TopicNumber, _ names: TopicNames) {
        guard starts == nil else { return spell(number, names) }
        let page = Int(number.rawValue) / SnapshotWriter.pageSize
        let at = Int(number.rawValue) % SnapshotWriter.pageSize
        while nameIndices.count <= page { nameIndices.append(nil) }
        if let known = nameIndices[page]?[at], known > 0 { return out.varint(UInt64(known - 1)) }
        if nameIndices[page] == nil {
            nameIndices[page] = ContiguousArray(repeating: 0, count: SnapshotWriter.pageSize)
        }
        names.retain(number)
        out.varint(used.count)
        used.append(number)
        nameIndices[page]?[at] = UInt32(used.count)
        spell(number, names)
    }

    private func spell(_ name: TopicNumber, _ names: TopicNames) {
        out.varint(UInt64(names.project(of: name).rawValue))
        out.string(names.nameBytes(name))
    }

    private func releaseName(_ names: TopicNames) {
        if let number = used.popLast() { names.release(number) } else { phase = .done }
    }

    // MARK: What is held

    private func nextMessage(_ state: borrowing PartitionState) {
        guard block < blocks.count else {
            blocks = []
            cursor = 0
            phase = .streams
            return
        }
        guard cursor < blocks[block].count else {
            blocks[block] = []
            block += 1
            cursor = 0
            return
        }
        let entry = blocks[block][cursor]
        cursor += 1
        guard !entry.targets.isEmpty else { return }
        if keeping.last != entry.record { keeping.append(entry.record) }
        let name = state.log.keys.name(of: entry.key)
        let flags = Envelope.Flags(
            severalTimes: !entry.ends.areSame, key: name?.bytes ?? [], share: name?.share ?? [])
        begin(.message)
        out.u8(flags.rawValue)
        out.varint(entry.position.rawValue)
        out.ends(entry.ends)
        out.varint(UInt64(entry.project))
        out.collapseKey(name?.bytes ?? [], share: name?.share ?? [])
        out.varint(entry.record.rawValue)
        out.varint(UInt64(entry.ordinal))
        out.varint(UInt64(entry.bytes))
        out.devices(entry.targets)
    }

    private func nextOfStreams() {
        if let (partition, outbox) = outboxes.last {
            nextEntry(of: partition, outbox)
        } else if let (partition, mark) = marks.popLast() {
            begin(.mark)
            out.varint(UInt64(partition.rawValue))
            out.mark(mark)
        } else if let (session, window) = windows.popLast() {
            begin(.window)
            out.u64(session)
            out.varint(window.highest)
            for word in window.bits { out.u64(word) }
        } else if let (ticket, pending) = conditions.popLast() {
            begin(.condition)
            out.condition(ticket, pending)
        } else {
            begin(.end)
            phase = .names
        }
    }

    private func nextEntry(of partition: PartitionID, _ outbox: Outbox) {
        let entries = outbox.unacknowledged
        if cursor == 0 {
            begin(.outbox)
            out.varint(UInt64(partition.rawValue))
            out.varint(outbox.last.rawValue)
            out.u64(outbox.fingerprint)
        } else {
            begin(.entry)
            out.entry(entries[entries.startIndex + cursor - 1])
        }
        cursor += 1
        if cursor > entries.count {
            outboxes.removeLast()
            cursor = 0
        }
    }
}

extension ByteWriter {
    /// Writes which state the snapshot holds.
    mutating func header(of state: borrowing PartitionState) {
        u64(StoredRules.ofPartitions)
        u64(state.history.rawValue)
        varint(state.applied.rawValue)
        varint(state.epoch.rawValue)
        varint(state.generation)
        varint(state.formerGenerations.count)
        for former in state.formerGenerations {
            varint(former.number)
            varint(former.ended.rawValue)
            varint(former.before.rawValue)
            varint(former.next)
        }
        varint(state.comparedGeneration)
        u16(state.days.newest.rawValue)
        u16(state.days.since.rawValue)
    }

    fileprivate mutating func ends(_ ends: EntryEnds) {
        u64(UInt64(bitPattern: ends.stream.milliseconds))
        guard !ends.areSame else { return }
        for kind in Transport.Kind.allCases { u64(UInt64(bitPattern: ends[kind].milliseconds)) }
    }

    mutating func mark(_ mark: InboxMark) {
        u64(mark.history.rawValue)
        varint(mark.generation)
        varint(mark.number.rawValue)
        u64(mark.fingerprint)
        u8(mark.part == nil ? 0 : 1)
        if let part = mark.part {
            varint(part.entry.rawValue)
            varint(UInt64(part.items))
            u64(part.fingerprint)
        }
    }

    mutating func condition(_ ticket: ConditionTicket, _ pending: PendingCondition) {
        self.ticket(ticket)
        varint(UInt64(pending.project.rawValue))
        condition(pending.condition)
        envelope(pending.message)
        partitions(pending.undecided)
    }
}
