import Journal
import Model

/// A partition's state as of one record, written piece by piece while the partition goes on.
///
/// Devices and topics are too many to be copied. Their walk goes on in slices, and what is about to change
/// before the walk has come to it is written at once, as it still is: `touch`. So items come in any order,
/// each at most once. Everything else is held as a value and written last: whoever changes it first copies
/// the array that it stands in, never more. Names are written where they are first used, and retained until
/// the end, so that no number means another name meanwhile.
final class SnapshotWriter {
    /// 3: items in any order. 1 and 2, one piece in a fixed order, are read as well.
    static let version: UInt8 = 3

    enum Item: UInt8 {
        case end = 0
        case device, topic, message, outbox, entry, mark, window, condition
    }

    private enum Phase: Comparable {
        case devices, topics, log, streams, names, done

        /// What a step costs besides the bytes that it makes, as so many bytes, measured (`core-bench
        /// snapshots`): a topic of few members takes longer to find than to write.
        var cost: Int {
            switch self {
            case .devices: 8
            case .topics, .streams: 64
            case .log, .names, .done: 16
            }
        }
    }

    let covering: Sequence
    /// Records whose bodies somebody waited for, ascending; whole when everything is written.
    private(set) var keeping: [Sequence] = []
    private var phase = Phase.devices
    /// Bytes that are made and not taken.
    private var out = ByteWriter()

    // What is held.
    private let deviceEnd: UInt32
    private var blocks: [[LogEntry]]
    private var outboxes: [(partition: PartitionID, outbox: Outbox)] = []
    private var marks: [(partition: PartitionID, mark: InboxMark)] = []
    private var windows: [(key: UInt64, value: RequestWindow)]
    private var conditions: [(key: ConditionTicket, value: PendingCondition)]

    // How far the walk has come.
    private var nextDevice: UInt32 = 0
    private var shard = 0
    private var shardTopics: [TopicNumber] = []
    private var place = 0
    private var block = 0
    /// Devices and topics that were written out of their turn, or did not exist.
    private let early = (devices: Bitmap(), topics: Bitmap())
    /// The days of devices that were seen since, page by page.
    private var days: [Int: [UInt16]] = [:]

    /// One more than the place of each topic's name among those written, by its number, in pages.
    private var places: [ContiguousArray<UInt32>?] = []
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
        out.u8(SnapshotWriter.version)
        out.header(of: state)
        out.varint(UInt64(deviceEnd))
        out.varint(state.log.last.rawValue)
    }

    /// Whether all bytes are made.
    var isWritten: Bool { phase >= .names }
    /// Whether it has let go of all names, too.
    var isDone: Bool { phase == .done }
    /// Bytes that are made and not taken.
    var waiting: Int { out.count }

    /// The next bytes, at most so many. What is left moves to the front: it is two parts at most, where an
    /// array that only grew would be copied whole now and then.
    func take(_ count: Int) -> [UInt8] {
        let bytes = Array(out.bytes.prefix(count))
        out.bytes.removeFirst(bytes.count)
        return bytes
    }

    /// Nobody wants it any more. What it retains is let go in slices.
    func abandon() {
        if phase < .names { phase = .names }
        out = ByteWriter()
        (blocks, outboxes, marks, windows, conditions) = ([], [], [], [], [])
    }

    /// Lets go of all names at once, where the names themselves are about to end.
    func releaseNames(_ names: TopicNames) {
        for number in used { names.release(number) }
        used = []
    }

    /// Goes on until about so many bytes are made, or as much was looked at.
    func advance(_ bytes: Int, _ state: borrowing PartitionState) {
        var work = 0
        while work < bytes, phase != .done {
            let before = out.count
            work += phase.cost
            switch phase {
            case .devices: nextDevicePlace(state)
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

    /// The device's topics are about to change, or what it has lost, or it is about to end.
    func touch(device index: UInt32, _ state: borrowing PartitionState) {
        guard phase == .devices, index >= nextDevice, index < deviceEnd, early.devices.add(index),
            let (page, at) = state.devices.find(index)
        else { return }
        write(index, page, at, state)
    }

    /// Devices of this page are about to be seen.
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
        return place > 0 && topic.rawValue <= shardTopics[place - 1].rawValue
    }

    // MARK: Devices and topics

    private func nextDevicePlace(_ state: borrowing PartitionState) {
        guard nextDevice < deviceEnd else {
            shardTopics = state.topics.numbers(inShard: 0)
            days = [:]
            phase = .topics
            return
        }
        let index = nextDevice
        let number = Int(index) / DeviceTable.pageSize
        guard number < state.devices.pages.count, let page = state.devices.pages[number] else {
            // Those that were on it were written when they ended.
            nextDevice = min(deviceEnd, UInt32((number + 1) * DeviceTable.pageSize))
            return
        }
        nextDevice += 1
        let at = Int(index) % DeviceTable.pageSize
        guard page.projects[at] != 0, !early.devices.contains(index) else { return }
        write(index, page, at, state)
    }

    private func write(
        _ index: UInt32, _ page: DevicePage, _ at: Int, _ state: borrowing PartitionState
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
        for place in 0..<list.count {
            write(name: list[place].topic, state.names)
            out.u16(list[place].since.rawValue)
        }
    }

    private func nextTopic(_ state: borrowing PartitionState) {
        guard place < shardTopics.count else {
            shard += 1
            place = 0
            if shard < TopicTable.shardCount {
                shardTopics = state.topics.numbers(inShard: shard)
            } else {
                shardTopics = []
                phase = .log
            }
            return
        }
        let topic = shardTopics[place]
        place += 1
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

    /// A name's place among those that were written; behind the first use of each stands the name itself.
    private func write(name number: TopicNumber, _ names: TopicNames) {
        let page = Int(number.rawValue) / SnapshotWriter.pageSize
        let at = Int(number.rawValue) % SnapshotWriter.pageSize
        while places.count <= page { places.append(nil) }
        if let known = places[page]?[at], known > 0 { return out.varint(UInt64(known - 1)) }
        if places[page] == nil {
            places[page] = ContiguousArray(repeating: 0, count: SnapshotWriter.pageSize)
        }
        names.retain(number)
        out.varint(used.count)
        used.append(number)
        places[page]?[at] = UInt32(used.count)
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
            place = 0
            phase = .streams
            return
        }
        guard place < blocks[block].count else {
            blocks[block] = []
            block += 1
            place = 0
            return
        }
        let entry = blocks[block][place]
        place += 1
        guard !entry.targets.isEmpty else { return }
        if keeping.last != entry.record { keeping.append(entry.record) }
        out.u8(Item.message.rawValue)
        out.varint(entry.position.rawValue)
        out.u64(UInt64(bitPattern: entry.expires.milliseconds))
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
            out.u8(Item.condition.rawValue)
            out.condition(ticket, pending)
        } else {
            out.u8(Item.end.rawValue)
            phase = .names
        }
    }

    private func nextEntry(of partition: PartitionID, _ outbox: Outbox) {
        let entries = outbox.unacknowledged
        if place == 0 {
            out.u8(Item.outbox.rawValue)
            out.varint(UInt64(partition.rawValue))
            out.varint(outbox.last.rawValue)
            out.u64(outbox.fingerprint)
        } else {
            out.u8(Item.entry.rawValue)
            out.entry(entries[entries.startIndex + place - 1])
        }
        place += 1
        if place > entries.count {
            outboxes.removeLast()
            place = 0
        }
    }
}

extension ByteWriter {
    /// Which state a snapshot is of.
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
