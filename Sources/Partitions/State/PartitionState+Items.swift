import Bytes
import Model

// Snapshots of versions 3 and 4: items as `SnapshotWriter` wrote them.

extension PartitionState {
    /// Everything behind the header.
    mutating func readItems(_ reader: inout ByteReader) throws(DecodeError) {
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
            case .transports: try readTransports(&reader)
            case .message: try readMessage(&reader)
            case .messageWithEnds: try readMessage(&reader, withEnds: true)
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
            case .mark: try readMark(&reader, SnapshotWriter.version)
            case .window: try readWindow(&reader)
            case .condition: try readCondition(&reader)
            case .conditionWithEnds: try readCondition(&reader, withEnds: true)
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
        for _ in 0..<(try reader.count(max: DeliveryLimits.topicsStoredMax, elementBytesMin: 3)) {
            let topic = try readName(&numbers, &reader)
            let since = Day(try reader.u16())
            guard page.topics[at].index(of: topic) == nil else { throw reader.fail("a topic twice") }
            names.retain(topic)
            page.topics[at].append(topic, since: since)
        }
    }

    private mutating func readTransports(_ reader: inout ByteReader) throws(DecodeError) {
        let index = try reader.deviceIndex()
        guard devices.project(index) != 0, !transports.has(index) else {
            throw reader.fail("transports of a device that is not there")
        }
        transports[index] = try reader.transports(applied)
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
}

extension SnapshotWriter.Item {
    fileprivate var rank: Int {
        switch self {
        case .end, .device, .topic, .transports: 0
        case .message, .messageWithEnds: 1
        case .outbox, .entry, .mark, .window, .condition, .conditionWithEnds: 2
        }
    }
}
