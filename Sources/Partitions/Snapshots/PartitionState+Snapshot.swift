import Bytes
import Model

// A partition's state in one piece, in a fixed order, so that equal states give equal bytes. Snapshots before
// version 3 have this form; now `SnapshotWriter` makes them, and this writing is for checks.

extension PartitionState {
    /// 2: a mark says what is applied of an entry that did not fit into one record. 1 is read as well.
    static let snapshotVersion: UInt8 = 2

    func snapshot() -> [UInt8] {
        var out = ByteWriter(capacity: 64 + devices.count * 40)
        out.u8(PartitionState.snapshotVersion)
        out.header(of: self)
        let order = writeNames(&out)
        writeDevices(order, &out)
        writeTopics(order, &out)
        writeLog(&out)
        writeStreams(&out)
        writeTransports(&out)
        writeEnds(&out)
        return out.bytes
    }

    mutating func restore(_ bytes: [UInt8]) throws(DecodeError) {
        var reader = ByteReader(bytes)
        let version = try reader.version(of: "a snapshot", 1...SnapshotWriter.versionWithShares)
        hasSeveralEnds = version >= SnapshotWriter.versionWithEnds
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
        if version > PartitionState.snapshotVersion { return try readItems(&reader) }
        // Each name is retained once here, until the tables have retained the names that they use.
        var numbers: [TopicNumber] = []
        defer { for number in numbers { names.release(number) } }
        try readNames(&numbers, &reader)
        try readDevices(numbers, &reader)
        try readTopics(numbers, &reader)
        try readLog(&reader)
        try readStreams(&reader, version)
        try readTransports(&reader)
        try readEnds(&reader)
        try reader.expectEnd()
    }

    // MARK: Transports

    /// Nothing where no device has a transport: a former build's snapshot ends before them.
    private func writeTransports(_ out: inout ByteWriter) {
        guard !transports.isEmpty || hasSeveralEnds else { return }
        out.varint(transports.count)
        for row in transports.all {
            out.varint(UInt64(row.index))
            out.varint(row.list.count)
            for one in row.list { out.stored(one) }
        }
    }

    private mutating func readTransports(_ reader: inout ByteReader) throws(DecodeError) {
        guard !reader.isAtEnd else { return }
        let count = try reader.count(max: Int(DeviceIndex.limit), elementBytesMin: 13)
        guard count > 0 || !reader.isAtEnd else {
            throw reader.fail("no transports where there should be some")
        }
        for _ in 0..<count {
            let index = try reader.deviceIndex()
            guard devices.project(index) != 0, !transports.has(index) else {
                throw reader.fail("transports of a device that is not there")
            }
            transports[index] = try reader.transports(applied)
        }
    }

    // MARK: Names

    /// Every topic that a device or a set here refers to, in the order of project and name.
    private func writeNames(_ out: inout ByteWriter) -> [UInt32: UInt32] {
        var used = Set(topics.numbers.map(\.rawValue))
        devices.forEach { _, page, slot in
            let list = page.topics[slot]
            for at in 0..<list.count { used.insert(list[at].topic.rawValue) }
            return true
        }
        let sorted = used.map { TopicNumber(rawValue: $0) }.sorted { left, right in
            let (one, other) = (names.project(of: left), names.project(of: right))
            return one != other
                ? one < other : names.nameBytes(left).lexicographicallyPrecedes(names.nameBytes(right))
        }
        out.varint(sorted.count)
        var order: [UInt32: UInt32] = [:]
        order.reserveCapacity(sorted.count)
        for (index, number) in sorted.enumerated() {
            out.varint(UInt64(names.project(of: number).rawValue))
            out.string(names.nameBytes(number))
            order[number.rawValue] = UInt32(index)
        }
        return order
    }

    private func readNames(_ numbers: inout [TopicNumber], _ reader: inout ByteReader) throws(DecodeError) {
        let count = try reader.count(max: Int(UInt32.max), elementBytesMin: 2)
        numbers.reserveCapacity(count)
        for _ in 0..<count {
            let project = try reader.project()
            numbers.append(names.retain(try reader.stringSlice(max: TopicName.lengthMax), in: project))
        }
    }

    // MARK: Devices

    private func writeDevices(_ order: [UInt32: UInt32], _ out: inout ByteWriter) {
        out.varint(UInt64(devices.next))
        out.varint(devices.count)
        var last: UInt32 = 0
        devices.forEach { index, page, slot in
            out.varint(UInt64(index - last))
            last = index
            out.varint(UInt64(page.projects[slot]))
            out.u32(page.nonces[slot])
            out.u64(page.secrets[slot])
            out.u16(page.seen[slot])
            let list = page.topics[slot]
            let sorted = (0..<list.count).map { (order[list[$0].topic.rawValue] ?? 0, list[$0].since) }
                .sorted { $0.0 < $1.0 }
            out.varint(sorted.count)
            for (topic, since) in sorted {
                out.varint(UInt64(topic))
                out.u16(since.rawValue)
            }
            return true
        }
        out.varint(overflowed.count)
        for index in overflowed.keys.sorted() {
            out.varint(UInt64(index))
            out.varint(overflowed[index]?.told.rawValue ?? 0)
        }
    }

    private mutating func readDevices(_ numbers: [TopicNumber], _ reader: inout ByteReader)
        throws(DecodeError)
    {
        let next = try reader.number()
        guard next <= DeviceIndex.limit else { throw reader.fail("a device index of more than 28 bits") }
        let count = try reader.count(max: Int(DeviceIndex.limit), elementBytesMin: 16)
        var index: UInt32 = 0
        for number in 0..<count {
            let step = try reader.deviceIndex()
            guard number == 0 || step > 0, index + step < DeviceIndex.limit else {
                throw reader.fail("devices out of order")
            }
            index += step
            let project = try reader.project()
            guard project.rawValue > 0 else { throw reader.fail("a device of no project") }
            devices.add(
                index: index, project: project, nonce: try reader.u32(), secret: try reader.u64(),
                seen: Day(try reader.u16()))
            guard let (page, at) = devices.find(index) else {
                throw reader.fail("a device that is not there")
            }
            for _ in 0..<(try reader.count(max: DeliveryLimits.topicsStoredMax, elementBytesMin: 3)) {
                let topic = Int(try reader.number())
                guard topic < numbers.count else { throw reader.fail("a topic without a name") }
                let since = Day(try reader.u16())
                names.retain(numbers[topic])
                page.topics[at].append(numbers[topic], since: since)
            }
        }
        devices.skip(to: next)
        for _ in 0..<(try reader.count(max: Int(DeviceIndex.limit), elementBytesMin: 2)) {
            // A snapshot covers durable records only, so the loss rests on no record that is not durable.
            overflowed[try reader.deviceIndex()] = Loss(told: Position(try reader.varint()), record: .zero)
        }
    }

    // MARK: Topics

    private func writeTopics(_ order: [UInt32: UInt32], _ out: inout ByteWriter) {
        let sorted = topics.numbers.map { (order[$0.rawValue] ?? 0, $0) }.sorted { $0.0 < $1.0 }
        out.varint(sorted.count)
        for (local, number) in sorted {
            out.varint(UInt64(local))
            let parts = topics.parts(number)
            out.varint(parts.count)
            for part in parts {
                out.varint(UInt64(part.partition.rawValue))
                out.devices(part.devices)
            }
        }
    }

    private mutating func readTopics(_ numbers: [TopicNumber], _ reader: inout ByteReader) throws(DecodeError)
    {
        var last = -1
        for _ in 0..<(try reader.count(max: Int(UInt32.max), elementBytesMin: 2)) {
            let local = Int(try reader.number())
            guard local < numbers.count else { throw reader.fail("a topic without a name") }
            guard local > last else { throw reader.fail("topics out of order") }
            last = local
            var parts: [(partition: PartitionID, devices: DeviceSet)] = []
            for _ in 0..<(try reader.count(max: PartitionID.countMax, elementBytesMin: 2)) {
                let partition = try reader.partition()
                guard parts.last.map({ $0.partition < partition }) ?? true else {
                    throw reader.fail("partitions out of order")
                }
                parts.append((partition, try reader.devices()))
            }
            names.retain(numbers[local])
            topics.restore(numbers[local], MemberSet(parts: parts))
        }
    }

    // MARK: Log

    private func writeLog(_ out: inout ByteWriter) {
        out.varint(log.last.rawValue)
        out.varint(log.count)
        log.forEach { entry in
            out.varint(entry.position.rawValue)
            out.u64(UInt64(bitPattern: entry.ends.stream.milliseconds))
            out.varint(UInt64(entry.project))
            out.string(log.keys.bytes(of: entry.key))
            out.varint(entry.record.rawValue)
            out.varint(UInt64(entry.ordinal))
            out.varint(UInt64(entry.bytes))
            out.devices(entry.targets)
        }
    }

    private mutating func readLog(_ reader: inout ByteReader) throws(DecodeError) {
        let last = try reader.position()
        for _ in 0..<(try reader.count(max: Int(UInt32.max), elementBytesMin: 12)) {
            try readMessage(&reader)
        }
        log.skip(to: last)
    }

    mutating func readMessage(_ reader: inout ByteReader, withEnds: Bool = false) throws(DecodeError) {
        let position = try reader.position()
        guard position > log.last else { throw reader.fail("positions out of order") }
        let ends = withEnds ? try reader.ends(at: position) : EntryEnds.same(try reader.wallTime())
        let project = try reader.project().rawValue
        let key = log.key(try reader.string(max: 4096), in: project)
        let entry = LogEntry(
            position: position, ends: ends, project: project, key: key,
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

    // MARK: Outboxes, marks, windows, conditions

    private func writeStreams(_ out: inout ByteWriter) {
        out.varint(outboxes.count)
        outboxes.forEach { partition, outbox in
            out.varint(UInt64(partition.rawValue))
            out.varint(outbox.last.rawValue)
            out.u64(outbox.fingerprint)
            out.varint(outbox.unacknowledged.count)
            for entry in outbox.unacknowledged { out.entry(entry) }
        }
        out.varint(marks.count)
        marks.forEach { partition, mark in
            out.varint(UInt64(partition.rawValue))
            out.mark(mark)
        }
        out.varint(windows.count)
        for (session, window) in windows.sorted(by: <) {
            out.u64(session)
            out.varint(window.highest)
            for word in window.bits { out.u64(word) }
        }
        out.varint(conditions.count)
        for (ticket, pending) in conditions.sorted(by: { ConditionTicket.isBefore($0.key, $1.key) }) {
            // What follows the whole says how else such a message ends.
            var pending = pending
            pending.message.times = TimesToLive(pending.message.times.stream)
            out.condition(ticket, pending)
        }
    }

    private mutating func readStreams(_ reader: inout ByteReader, _ version: UInt8) throws(DecodeError) {
        var parts: [MessageID: (project: ProjectNumber, count: Int)] = [:]
        for _ in 0..<(try reader.count(max: PartitionID.countMax, elementBytesMin: 11)) {
            let partition = try reader.partition()
            let last = Sequence(try reader.varint())
            guard last <= applied else { throw reader.fail("an outbox entry of a later record") }
            let fingerprint = try reader.u64()
            var entries: [OutboxEntry] = []
            for _ in 0..<(try reader.count(max: Int(UInt32.max), elementBytesMin: 11)) {
                let entry = try reader.entry()
                for item in entry.items {
                    guard case .message(let project, let message, _) = item else { continue }
                    parts[message.id, default: (project, 0)].count += 1
                }
                entries.append(entry)
            }
            outboxes[partition] = Outbox(entries: entries, last: last, fingerprint: fingerprint)
        }
        for (message, part) in parts { fanouts.begin(part.project, message, parts: part.count) }
        for _ in 0..<(try reader.count(max: PartitionID.countMax, elementBytesMin: 19)) {
            try readMark(&reader, version)
        }
        for _ in 0..<(try reader.count(max: Int(UInt32.max), elementBytesMin: 137)) {
            try readWindow(&reader)
        }
        for _ in 0..<(try reader.count(max: Int(UInt32.max), elementBytesMin: 30)) {
            try readCondition(&reader)
        }
    }

    mutating func readMark(_ reader: inout ByteReader, _ version: UInt8) throws(DecodeError) {
        let partition = try reader.partition()
        var mark = InboxMark(
            history: History(try reader.u64()), generation: try reader.varint(),
            number: Sequence(try reader.varint()), fingerprint: try reader.u64())
        if version >= 2, try reader.flag() {
            mark.part = InboxMark.Part(
                entry: Sequence(try reader.varint()), items: try reader.number(),
                fingerprint: try reader.u64())
        }
        marks[partition] = mark
    }

    mutating func readWindow(_ reader: inout ByteReader) throws(DecodeError) {
        let session = try reader.u64()
        let highest = try reader.varint()
        var bits: [UInt64] = []
        for _ in 0..<Int(DeduplicationWindow.width / 64) { bits.append(try reader.u64()) }
        windows[session] = DeduplicationWindow(highest: highest, bits: bits)
    }

    mutating func readCondition(
        _ reader: inout ByteReader, withEnds: Bool = false
    ) throws(DecodeError) {
        let ticket = ConditionTicket(record: Sequence(try reader.varint()), ordinal: try reader.number())
        let pending = PendingCondition(
            project: try reader.project(), condition: try reader.condition(),
            message: try reader.envelope(withEnds: withEnds))
        fanouts.begin(pending.project, pending.message.id, parts: 1)
        conditions[ticket] = pending
    }
}
