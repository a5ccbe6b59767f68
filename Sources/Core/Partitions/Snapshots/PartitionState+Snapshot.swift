import Bytes
import Model

// Reads what `SnapshotWriter` wrote.

extension PartitionState {
    mutating func restore(_ bytes: [UInt8]) throws(DecodeError) {
        var reader = ByteReader(bytes)
        _ = try reader.version(of: "a snapshot", SnapshotWriter.version...SnapshotWriter.version)
        let rules = try reader.u64()
        if let refusal = StoredRules.refusal(of: "a snapshot", rules, here: StoredRules.ofPartitions) {
            throw reader.fail(refusal)
        }
        guard try reader.u64() == history.rawValue else { throw reader.fail("a snapshot of another history") }
        applied = Sequence(try reader.varint())
        guard applied.rawValue <= 1 << 62 else { throw reader.fail("a record that no journal reaches") }
        epoch = Epoch(try reader.varint())
        generation = try reader.varint()
        for _ in 0..<(try reader.count(max: FormerGeneration.countMax)) {
            let former = FormerGeneration(
                number: try reader.varint(), ended: Position(try reader.varint()),
                before: Sequence(try reader.varint()), next: try reader.varint())
            guard former.next > former.number else { throw reader.fail("generations out of order") }
            formerGenerations.append(former)
        }
        comparedGeneration = try reader.varint()
        days = ObservedDays(newest: Day(try reader.u16()), since: Day(try reader.u16()))
        try readItems(&reader)
    }

    /// Everything behind the header.
    private mutating func readItems(_ reader: inout ByteReader) throws(DecodeError) {
        let next = try reader.number()
        guard next <= DeviceIndex.limit else { throw reader.fail("a device index of more than 28 bits") }
        let last = try reader.position()
        // Each name is retained once here, until the tables have retained the names that they use.
        var numbers: [TopicNumber] = []
        defer { for number in numbers { names.release(number) } }
        var former = SnapshotWriter.Item.end
        var outbox: (partition: PartitionID, outbox: Outbox)?
        var entries: [OutboxEntry] = []
        var parts: [MessageID: (project: ProjectNumber, count: Int)] = [:]
        while true {
            guard let item = SnapshotWriter.Item(rawValue: try reader.u8()) else {
                throw reader.fail("an item of no kind")
            }
            // Devices and topics come in any order, but before the items that refer to them.
            guard item == .end || item.rank >= former.rank else { throw reader.fail("items out of order") }
            if item != .entry, let (partition, open) = outbox {
                outboxes[partition] = Outbox(entries: entries, last: open.last, fingerprint: open.fingerprint)
                (outbox, entries) = (nil, [])
            }
            switch item {
            case .device: try readDevice(&numbers, below: next, &reader)
            case .topic: try readTopic(&numbers, &reader)
            case .message: try readMessage(&reader)
            case .outbox: outbox = try readOutbox(&reader)
            case .entry:
                guard let outbox else { throw reader.fail("an entry of no outbox") }
                let entry = try reader.entry()
                guard entry.number > entries.last?.number ?? .zero, entry.number <= outbox.outbox.last else {
                    throw reader.fail("outbox entries out of order")
                }
                for case .message(let project, let message, _) in entry.items {
                    parts[message.id, default: (project, 0)].count += 1
                }
                entries.append(entry)
            case .mark: try readMark(&reader)
            case .window: try readWindow(&reader)
            case .condition:
                let pending = try readCondition(&reader)
                parts[pending.message.id, default: (pending.project, 0)].count += 1
            case .end:
                for (message, part) in parts { fanouts.begin(part.project, message, parts: part.count) }
                devices.skip(to: next)
                log.skip(to: last)
                return try reader.expectEnd()
            }
            former = item
        }
    }

    private mutating func readName(
        _ numbers: inout [TopicNumber], _ reader: inout ByteReader
    ) throws(DecodeError) -> TopicNumber {
        let index = Int(try reader.number())
        guard index <= numbers.count else { throw reader.fail("a topic without a name") }
        if index == numbers.count {
            let project = try reader.project()
            numbers.append(names.retain(try reader.stringSlice(max: TopicName.lengthMax), in: project))
        }
        return numbers[index]
    }

    private mutating func readDevice(
        _ numbers: inout [TopicNumber], below next: UInt32, _ reader: inout ByteReader
    ) throws(DecodeError) {
        let index = try reader.deviceIndex()
        guard index < next, devices.project(index) == 0 else { throw reader.fail("a device that is there") }
        let project = try reader.project()
        guard project.rawValue > 0 else { throw reader.fail("a device of no project") }
        devices.add(
            index: index, project: project, nonce: try reader.u32(), secret: try reader.u64(),
            seen: Day(try reader.u16()))
        // A snapshot covers durable records only, so the loss rests on no record that is not durable.
        let told = Position(try reader.varint())
        if told > .zero { overflowed[index] = Loss(told: told, record: .zero) }
        guard let (page, at) = devices.find(index) else { throw reader.fail("a device that is not there") }
        for _ in 0..<(try reader.count(max: StoredRules.topicsMax, elementBytesMin: 3)) {
            let topic = try readName(&numbers, &reader)
            let since = Day(try reader.u16())
            guard page.topics[at].index(of: topic) == nil else { throw reader.fail("a topic twice") }
            names.retain(topic)
            page.topics[at].append(topic, since: since)
        }
        let stored = try reader.transports(applied)
        if !stored.isEmpty { transports[index] = stored }
    }

    private mutating func readTopic(
        _ numbers: inout [TopicNumber], _ reader: inout ByteReader
    ) throws(DecodeError) {
        let topic = try readName(&numbers, &reader)
        guard !topics.contains(topic) else { throw reader.fail("a topic that is there") }
        var parts: [(partition: PartitionID, devices: DeviceSet)] = []
        for _ in 0..<(try reader.count(max: PartitionID.countMax, elementBytesMin: 2)) {
            let partition = try reader.partition()
            guard parts.last.map({ $0.partition < partition }) ?? true else {
                throw reader.fail("partitions out of order")
            }
            parts.append((partition, try reader.devices()))
        }
        names.retain(topic)
        topics.restore(topic, MemberSet(parts: parts))
    }

    private mutating func readOutbox(
        _ reader: inout ByteReader
    ) throws(DecodeError) -> (partition: PartitionID, outbox: Outbox) {
        let partition = try reader.partition()
        guard outboxes[partition] == nil else { throw reader.fail("an outbox that is there") }
        let last = Sequence(try reader.varint())
        guard last <= applied else { throw reader.fail("an outbox entry of a later record") }
        return (partition, Outbox(entries: [], last: last, fingerprint: try reader.u64()))
    }

    private mutating func readMessage(_ reader: inout ByteReader) throws(DecodeError) {
        let flags = try reader.flags()
        let position = try reader.position()
        guard position > log.last else { throw reader.fail("positions out of order") }
        let ends = try reader.ends(at: position, flags)
        let project = try reader.project().rawValue
        let (key, share) = (try reader.collapseKey(flags), try reader.share(flags))
        let entry = LogEntry(
            position: position, ends: ends, project: project, key: log.key(key, of: share, in: project),
            record: Sequence(try reader.varint()), ordinal: try reader.number(),
            bytes: try reader.number(),
            targets: try reader.devices())
        var strangers = 0
        entry.targets.forEach { index in
            guard let (page, slot) = devices.find(index), page.projects[slot] == project else {
                strangers += 1
                return
            }
            if !entry.isCollapsible { page.waiting[slot] &+= 1 } else { page.collapsible[slot] &+= 1 }
        }
        guard strangers == 0 else { throw reader.fail("a message for a device that is not there") }
        log.append(entry)
    }

    private mutating func readMark(_ reader: inout ByteReader) throws(DecodeError) {
        let partition = try reader.partition()
        var mark = InboxMark(
            history: History(try reader.u64()), generation: try reader.varint(),
            number: Sequence(try reader.varint()), fingerprint: try reader.u64())
        if try reader.flag() {
            mark.part = InboxMark.Part(
                entry: Sequence(try reader.varint()), items: try reader.number(),
                fingerprint: try reader.u64())
        }
        marks[partition] = mark
    }

    private mutating func readWindow(_ reader: inout ByteReader) throws(DecodeError) {
        let session = try reader.u64()
        let highest = try reader.varint()
        var bits: [UInt64] = []
        for _ in 0..<Int(DeduplicationWindow.width / 64) { bits.append(try reader.u64()) }
        windows[session] = DeduplicationWindow(highest: highest, bits: bits)
    }

    private mutating func readCondition(
        _ reader: inout ByteReader
    ) throws(DecodeError) -> PendingCondition {
        let ticket = try reader.ticket()
        let pending = PendingCondition(
            project: try reader.project(), condition: try reader.condition(),
            message: try reader.envelope(), undecided: try reader.partitions())
        conditions[ticket] = pending
        return pending
    }
}

extension SnapshotWriter.Item {
    fileprivate var rank: Int {
        switch self {
        case .end, .device, .topic: 0
        case .message: 1
        case .outbox, .entry, .mark, .window, .condition: 2
        }
    }
}

extension ByteReader {
    /// `ByteWriter.ends`.
    fileprivate mutating func ends(
        at position: Position, _ flags: Envelope.Flags
    ) throws(DecodeError) -> EntryEnds {
        let stream = try wallTime()
        guard flags.contains(.severalTimes) else { return .same(stream) }
        let ends = EntryEnds(
            stream: stream, web: try wallTime(), apns: try wallTime(), fcm: try wallTime(), at: position)
        guard !ends.areSame else { throw fail("ends that are one") }
        return ends
    }
}
