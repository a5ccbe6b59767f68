import Bytes
import Model

/// A partition's state as of one record, written piece by piece while the partition goes on.
///
/// Devices and topics are too many to be copied, so the writer walks over them in slices. A device or topic
/// that is about to change before the walk has come to it is written at once, as it still is: `touch`. So
/// items come in any order, each at most once. The writer holds everything else as values, and writes it
/// last: the first change copies the array in which the value stands, never more. Each name is written at its
/// first use, and retained until the end, so that no number means another name meanwhile.
final class SnapshotWriter {
    /// Version 3: items in any order. Versions 1 and 2, one piece in a fixed order, are read as well.
    static let version: UInt8 = 3
    /// Version 4: a device's transports follow the device. Written only where a device has transports, so
    /// that a former build reads every other snapshot.
    static let versionWithTransports: UInt8 = 4
    /// Version 5: messages that do not end everywhere at once. Written only by a partition that has had one.
    static let versionWithEnds: UInt8 = 5
    /// Version 6: messages whose keys name a share. Written only while one waits.
    static let versionWithShares: UInt8 = 6

    enum Item: UInt8 {
        case end = 0
        case device, topic, message, outbox, entry, mark, window, condition, transports, messageWithEnds,
            conditionWithEnds
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

    init(_ state: borrowing PartitionState) {
        covering = state.applied
        deviceEnd = state.devices.next
        blocks = state.log.frozen()
        windows = state.windows.sorted(by: <)
        conditions = state.conditions.sorted { ConditionTicket.isBefore($0.key, $1.key) }
        state.outboxes.forEach { outboxes.append(($0, $1)) }
        state.marks.forEach { marks.append(($0, $1)) }
        let version =
            state.transports.isEmpty ? SnapshotWriter.version : SnapshotWriter.versionWithTransports
        let withEnds = state.hasSeveralEnds ? SnapshotWriter.versionWithEnds : version
        out.u8(state.log.keys.shareCount > 0 ? SnapshotWriter.versionWithShares : withEnds)
        out.header(of: state)
        out.varint(UInt64(deviceEnd))
        out.varint(state.log.last.rawValue)
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
        out.u8(Item.device.rawValue)
        out.varint(UInt64(index))
        out.varint(UInt64(page.projects[at]))
        out.u32(page.nonces[at])
        out.u64(page.secrets[at])
        out.u16(days.isEmpty ? page.seen[at] : days[Int(index) / DeviceTable.pageSize]?[at] ?? page.seen[at])
        out.varint(state.overflowed.isEmpty ? 0 : state.overflowed[index]?.told.rawValue ?? 0)
        let list = page.topics[at]
        out.varint(list.count)
        for position in 0..<list.count {
            write(name: list[position].topic, state.names)
            out.u16(list[position].since.rawValue)
        }
        guard !state.transports.isEmpty, let stored = state.transports[index] else { return }
        out.u8(Item.transports.rawValue)
        out.varint(UInt64(index))
        out.varint(stored.count)
        for one in stored { out.stored(one) }
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
        out.u8(Item.topic.rawValue)
        write(name: topic, state.names)
        let parts = state.topics.parts(topic)
        out.varint(parts.count)
        for part in parts {
            out.varint(UInt64(part.partition.rawValue))
            out.devices(part.devices)
        }
    }

    /// Writes a name's index among the written names; behind its first use stands the name itself.
    private func write(name number: TopicNumber, _ names: TopicNames) {
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
        out.varint(UInt64(names.project(of: number).rawValue))
        out.string(names.nameBytes(number))
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
        out.u8(entry.ends.areSame ? Item.message.rawValue : Item.messageWithEnds.rawValue)
        out.varint(entry.position.rawValue)
        out.ends(entry.ends)
        out.varint(UInt64(entry.project))
        out.string(state.log.keys.bytes(of: entry.key))
        out.varint(entry.record.rawValue)
        out.varint(UInt64(entry.ordinal))
        out.varint(UInt64(entry.bytes))
        out.devices(entry.targets)
    }

    private func nextOfStreams() {
        if let (partition, outbox) = outboxes.last {
            nextEntry(of: partition, outbox)
        } else if let (partition, mark) = marks.popLast() {
            out.u8(Item.mark.rawValue)
            out.varint(UInt64(partition.rawValue))
            out.mark(mark)
        } else if let (session, window) = windows.popLast() {
            out.u8(Item.window.rawValue)
            out.u64(session)
            out.varint(window.highest)
            for word in window.bits { out.u64(word) }
        } else if let (ticket, pending) = conditions.popLast() {
            out.u8((pending.message.times.areSame ? Item.condition : .conditionWithEnds).rawValue)
            out.condition(ticket, pending)
        } else {
            out.u8(Item.end.rawValue)
            phase = .names
        }
    }

    private func nextEntry(of partition: PartitionID, _ outbox: Outbox) {
        let entries = outbox.unacknowledged
        if cursor == 0 {
            out.u8(Item.outbox.rawValue)
            out.varint(UInt64(partition.rawValue))
            out.varint(outbox.last.rawValue)
            out.u64(outbox.fingerprint)
        } else {
            out.u8(Item.entry.rawValue)
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
        varint(ticket.record.rawValue)
        varint(UInt64(ticket.ordinal))
        varint(UInt64(pending.project.rawValue))
        condition(pending.condition)
        envelope(pending.message)
    }
}
