import Bytes
import Model

// The parts of facts in records, in outbox entries and in snapshots.

extension ByteWriter {
    mutating func topic(_ project: ProjectNumber, _ topic: TopicName) {
        varint(UInt64(project.rawValue))
        string(topic.utf8)
    }

    mutating func cursors(_ cursors: [ReadUpTo]) {
        varint(cursors.count)
        for cursor in cursors {
            varint(cursor.position.rawValue)
            devices(cursor.devices)
        }
    }

    /// `indices` must ascend. The first is written as it is, then the distances.
    mutating func indices(_ indices: [UInt32]) {
        varint(indices.count)
        var last: UInt32 = 0
        for index in indices {
            varint(UInt64(index - last))
            last = index
        }
    }

    mutating func devices(_ devices: DeviceSet) {
        // The number of devices decides, not the form: a bitmap that has shrunk must equal an array.
        if case .many(let bitmap) = devices.storage, bitmap.count > DeviceSet.arrayMax {
            let serialized = bitmap.serialized()
            varint(UInt64(serialized.count) << 1 | 1)
            raw(serialized)
        } else {
            let indices = devices.sorted
            varint(UInt64(indices.count) << 1)
            var last: UInt32 = 0
            for index in indices {
                varint(UInt64(index - last))
                last = index
            }
        }
    }

    mutating func requestKey(_ key: RequestKey?) {
        varint(key?.number ?? 0)
        if let key { u64(key.session) }
    }

    mutating func ticket(_ ticket: ConditionTicket) {
        varint(ticket.record.rawValue)
        varint(UInt64(ticket.ordinal))
    }

    mutating func targets(_ targets: [PartitionTargets]) {
        varint(targets.count)
        for part in targets {
            varint(UInt64(part.partition.rawValue))
            devices(part.devices)
        }
    }

    mutating func partitions(_ partitions: [PartitionID]) {
        varint(partitions.count)
        for partition in partitions { varint(UInt64(partition.rawValue)) }
    }

    /// The flags say which parts follow. A property that few messages have is a flag and a part.
    mutating func envelope(_ message: Envelope) {
        u8(message.flags.rawValue)
        u64(message.id.time)
        u64(message.id.random)
        u64(UInt64(bitPattern: message.sent.milliseconds))
        varint(UInt64(message.times.stream))
        if !message.times.areSame {
            for kind in Transport.Kind.allCases { varint(UInt64(message.times[kind])) }
        }
        collapseKey(message.collapseKey, share: message.share)
        string(message.event)
    }

    mutating func collapseKey(_ key: [UInt8], share: [UInt8]) {
        if !key.isEmpty { string(key) }
        if !share.isEmpty { string(share) }
    }

    mutating func condition(_ condition: Condition) {
        varint(condition.topics.count)
        for topic in condition.topics { string(topic.utf8) }
        node(condition.root)
    }

    private mutating func node(_ node: Condition.Node) {
        switch node {
        case .topic(let index):
            u8(0)
            u8(UInt8(index))
        case .not(let inner):
            u8(1)
            self.node(inner)
        case .and(let left, let right):
            u8(2)
            self.node(left)
            self.node(right)
        case .or(let left, let right):
            u8(3)
            self.node(left)
            self.node(right)
        }
    }

    mutating func decision(_ decision: DeliveryDecision) {
        let hasPassed: UInt8 = decision.passed.isEmpty ? 0 : 4
        let hasExempt: UInt8 = decision.exempt.isEmpty ? 0 : 8
        let reach = decision.reach.rawValue << 4 | (decision.isReachRefused ? 128 : 0)
        u8(decision.disposition.rawValue | hasPassed | hasExempt | reach)
        varint(decision.position.rawValue)
        if hasPassed != 0 {
            devices(decision.passed)
            varint(decision.passedUpTo.rawValue)
        }
        if hasExempt != 0 { devices(decision.exempt) }
    }

    mutating func slice(_ slice: PairSlice) {
        varint(UInt64(slice.number))
        varint(UInt64(slice.count))
        varint(slice.topics.count)
        for members in slice.topics {
            topic(members.project, members.topic)
            indices(members.indices)
        }
    }

    mutating func entry(_ entry: OutboxEntry) {
        varint(entry.number.rawValue)
        varint(entry.predecessor.rawValue)
        u64(entry.fingerprint)
        varint(entry.items.count)
        for item in entry.items {
            switch item {
            case .message(let project, let message, let targets):
                u8(1)
                varint(UInt64(project.rawValue))
                envelope(message)
                devices(targets)
            case .join(let project, let name, let members):
                u8(2)
                topic(project, name)
                indices(members)
            case .leave(let project, let name, let members):
                u8(3)
                topic(project, name)
                indices(members)
            case .replace(let slice):
                u8(4)
                self.slice(slice)
            }
        }
    }
}

extension ByteReader {
    mutating func cursors() throws(DecodeError) -> [ReadUpTo] {
        var cursors: [ReadUpTo] = []
        for _ in 0..<(try count(max: Int(UInt32.max))) {
            cursors.append(ReadUpTo(position: Position(try varint()), devices: try devices()))
        }
        return cursors
    }

    mutating func number() throws(DecodeError) -> UInt32 {
        let value = try varint()
        guard value <= UInt64(UInt32.max) else { throw fail("a number of more than 32 bits") }
        return UInt32(value)
    }

    mutating func deviceIndex() throws(DecodeError) -> UInt32 {
        let value = try varint()
        guard value < UInt64(DeviceIndex.limit) else { throw fail("a device index of more than 28 bits") }
        return UInt32(value)
    }

    mutating func partition() throws(DecodeError) -> PartitionID {
        let value = try varint()
        guard value < UInt64(PartitionID.countMax) else { throw fail("a partition of more than 12 bits") }
        return PartitionID(UInt16(value))
    }

    mutating func project() throws(DecodeError) -> ProjectNumber {
        let value = try varint()
        guard value < UInt64(ProjectNumber.limit) else { throw fail("a project of more than 24 bits") }
        return ProjectNumber(UInt32(value))
    }

    mutating func topic() throws(DecodeError) -> (ProjectNumber, TopicName) {
        (try project(), TopicName(checked: try string(max: TopicName.lengthMax)))
    }

    mutating func indices() throws(DecodeError) -> [UInt32] {
        try ascending(count(max: Int(DeviceIndex.limit)))
    }

    private mutating func ascending(_ count: Int) throws(DecodeError) -> [UInt32] {
        var indices: [UInt32] = []
        indices.reserveCapacity(count)
        var last: UInt64 = 0
        for number in 0..<count {
            let step = try varint()
            guard number == 0 || step > 0, step < UInt64(DeviceIndex.limit),
                last + step < UInt64(DeviceIndex.limit)
            else { throw fail("device indices out of order or range") }
            last += step
            indices.append(UInt32(last))
        }
        return indices
    }

    mutating func devices() throws(DecodeError) -> DeviceSet {
        let head = try varint()
        guard head >> 1 <= UInt64(remaining) else { throw DecodeError(offset: offset, reason: .truncated) }
        let count = Int(head >> 1)
        if head & 1 == 0 { return DeviceSet(sorted: try ascending(count)) }
        guard let bitmap = Bitmap.deserialize(try slice(count)) else { throw fail("a malformed bitmap") }
        guard bitmap.isEmpty || bitmap.maximum < DeviceIndex.limit else {
            throw fail("a device index of more than 28 bits")
        }
        return DeviceSet(bitmap)
    }

    /// Bounded, so that later numbers cannot overflow.
    mutating func sequence() throws(DecodeError) -> Sequence {
        let value = try varint()
        guard value <= 1 << 62 else { throw fail("a record that no journal reaches") }
        return Sequence(value)
    }

    /// Bounded, so that later positions cannot overflow.
    mutating func position() throws(DecodeError) -> Position {
        let value = try varint()
        guard value <= 1 << 62 else { throw fail("a position that no log reaches") }
        return Position(value)
    }

    /// Bounded to some hundred million years around 1970, so that a sum cannot overflow.
    mutating func wallTime() throws(DecodeError) -> WallTime {
        let value = Int64(bitPattern: try u64())
        guard value.magnitude <= 1 << 62 else { throw fail("a time that no clock shows") }
        return WallTime(milliseconds: value)
    }

    mutating func pairSlice() throws(DecodeError) -> PairSlice {
        let number = try number()
        let count = try self.number()
        guard number < count else { throw fail("a slice past the last one") }
        var topics: [PairSlice.Members] = []
        for _ in 0..<(try self.count(max: Int(UInt32.max), elementBytesMin: 3)) {
            let (project, topic) = try topic()
            topics.append(PairSlice.Members(project: project, topic: topic, indices: try indices()))
        }
        return PairSlice(number: number, count: count, topics: topics)
    }

    mutating func requestKey() throws(DecodeError) -> RequestKey? {
        let number = try varint()
        return number == 0 ? nil : RequestKey(session: try u64(), number: number)
    }

    mutating func ticket() throws(DecodeError) -> ConditionTicket {
        ConditionTicket(record: Sequence(try varint()), ordinal: try number())
    }

    mutating func targets() throws(DecodeError) -> [PartitionTargets] {
        var targets: [PartitionTargets] = []
        for _ in 0..<(try count(max: PartitionID.countMax)) {
            targets.append(PartitionTargets(partition: try partition(), devices: try devices()))
        }
        return targets
    }

    mutating func partitions() throws(DecodeError) -> [PartitionID] {
        var partitions: [PartitionID] = []
        for _ in 0..<(try count(max: PartitionID.countMax)) { partitions.append(try partition()) }
        return partitions
    }

    mutating func flags() throws(DecodeError) -> Envelope.Flags {
        let flags = Envelope.Flags(rawValue: try u8())
        guard flags.isSubset(of: .all) else {
            throw fail("a message with unknown flags \(flags.rawValue), as only a newer tidecast writes it,")
        }
        return flags
    }

    mutating func collapseKey(_ flags: Envelope.Flags) throws(DecodeError) -> [UInt8] {
        guard flags.contains(.collapseKey) else { return [] }
        let key = try string(max: 4096)
        guard !key.isEmpty else { throw fail("a collapse key without a byte") }
        return key
    }

    mutating func share(_ flags: Envelope.Flags) throws(DecodeError) -> [UInt8] {
        guard flags.contains(.share) else { return [] }
        let share = try string(max: Envelope.shareBytesMax)
        guard !share.isEmpty else { throw fail("a share without a byte") }
        return share
    }

    mutating func envelope() throws(DecodeError) -> Envelope {
        let flags = try flags()
        let id = MessageID(time: try u64(), random: try u64())
        let sent = try wallTime()
        var times = TimesToLive(try number())
        if flags.contains(.severalTimes) {
            times = TimesToLive(
                stream: times.stream, web: try number(), apns: try number(), fcm: try number())
            guard !times.areSame else { throw fail("times to live that are one") }
        }
        let (key, share) = (try collapseKey(flags), try share(flags))
        return Envelope(
            id: id, event: try string(max: 1 << 20), collapseKey: key, share: share, sent: sent, times: times)
    }

    mutating func condition() throws(DecodeError) -> Condition {
        let count = try self.count(max: Condition.topicCountMax)
        guard count > 0 else { throw fail("a condition without topics") }
        var topics: [TopicName] = []
        for _ in 0..<count { topics.append(TopicName(checked: try string(max: TopicName.lengthMax))) }
        return Condition(topics: topics, root: try node(topicCount: count, depth: 0))
    }

    private mutating func node(topicCount: Int, depth: Int) throws(DecodeError) -> Condition.Node {
        guard depth <= 256 else { throw fail("a condition nested too deeply") }
        switch try u8() {
        case 0:
            let index = Int(try u8())
            guard index < topicCount else { throw fail("a topic that the condition does not have") }
            return .topic(index)
        case 1: return .not(try node(topicCount: topicCount, depth: depth + 1))
        case 2:
            return .and(
                try node(topicCount: topicCount, depth: depth + 1),
                try node(topicCount: topicCount, depth: depth + 1))
        case 3:
            return .or(
                try node(topicCount: topicCount, depth: depth + 1),
                try node(topicCount: topicCount, depth: depth + 1))
        default: throw fail("an unknown part of a condition")
        }
    }

    mutating func decision() throws(DecodeError) -> DeliveryDecision {
        let flags = try u8()
        guard let disposition = DeliveryDecision.Disposition(rawValue: flags & 3) else {
            throw fail("unknown flags of a decision")
        }
        let reaches = flags >> 4 & 7 != 0 && (disposition == .passing || disposition == .late)
        guard flags < 16 || reaches else { throw fail("unknown flags of a decision") }
        var decision = DeliveryDecision(disposition: disposition, position: try position())
        decision.reach = Transport.Kinds(rawValue: flags >> 4 & 7)
        decision.isReachRefused = flags & 128 != 0
        guard decision.position > .zero else { throw fail("a message without a position") }
        if flags & 4 != 0 {
            decision.passed = try devices()
            decision.passedUpTo = Position(try varint())
        }
        if flags & 8 != 0 { decision.exempt = try devices() }
        return decision
    }

    mutating func entry() throws(DecodeError) -> OutboxEntry {
        let number = try sequence()
        let predecessor = try sequence()
        let fingerprint = try u64()
        let count = try self.count(max: Int(UInt32.max), elementBytesMin: 4)
        var items: [OutboxItem] = []
        for _ in 0..<count {
            let kind = try u8()
            switch kind {
            case 1: items.append(.message(project: try project(), try envelope(), try devices()))
            case 2:
                let (project, topic) = try topic()
                items.append(.join(project: project, topic: topic, indices: try indices()))
            case 3:
                let (project, topic) = try topic()
                items.append(.leave(project: project, topic: topic, indices: try indices()))
            case 4: items.append(.replace(try pairSlice()))
            default: throw fail("an outbox item of unknown kind \(kind), as only a newer tidecast writes it,")
            }
        }
        return OutboxEntry(number: number, predecessor: predecessor, items: items, fingerprint: fingerprint)
    }
}
