import Bytes
import Model

// The form of facts in a record: a tag byte, then the fields. Numbers are varints; times and secrets have a
// fixed length. The tag is the version: a fact with another meaning gets another tag. A build refuses a tag
// that it does not know, and names the tag's number, so that an older build does not misread a newer record.

extension Fact {
    enum Tag: UInt8, CaseIterable {
        case barrier = 1
        case register, end, subscribe, unsubscribe, accept, acceptCondition, resolve, acceptDirect, receive,
            receivePart, acknowledge, read, pass, gone, expire, seen, evict, generation, rebase, compared,
            repair, setTransport, endTransport, markTransport, pushedOne, pushedKept
    }

    func encode(into out: inout ByteWriter) {
        switch self {
        case .barrier(let session, let epoch, let rules):
            out.tag(.barrier)
            out.varint(session.rawValue)
            out.varint(epoch.rawValue)
            out.u64(rules)
        case .register(let index, let project, let nonce, let secret, let day):
            out.tag(.register, of: index, in: project)
            out.u32(nonce)
            out.u64(secret)
            out.u16(day.rawValue)
        case .end(let index):
            out.tag(.end, of: index)
        case .subscribe(let project, let topic, let day, let indices):
            out.tag(.subscribe)
            out.topic(project, topic)
            out.u16(day.rawValue)
            out.indices(indices)
        case .unsubscribe(let project, let topic, let indices):
            out.tag(.unsubscribe)
            out.topic(project, topic)
            out.indices(indices)
        case .accept(let key, let project, let topic, let message):
            out.tag(.accept)
            out.requestKey(key)
            out.topic(project, topic)
            out.envelope(message)
        case .acceptCondition(let key, let project, let condition, let message):
            out.tag(.acceptCondition)
            out.requestKey(key)
            out.varint(UInt64(project.rawValue))
            out.condition(condition)
            out.envelope(message)
        case .resolve(let ticket, let targets, let undecided):
            out.tag(.resolve)
            out.ticket(ticket)
            out.targets(targets)
            out.partitions(undecided)
        case .acceptDirect(let key, let project, let index, let message, let decision):
            out.tag(.acceptDirect, of: index, in: project)
            out.requestKey(key)
            out.envelope(message)
            out.decision(decision)
        case .receive(let from, let history, let entry, let decisions):
            out.tag(.receive, from: from, history)
            out.entry(entry, decisions)
        case .receivePart(let from, let history, let entry, let decisions, let behind, let isLast):
            out.tag(.receivePart, from: from, history)
            out.varint(UInt64(behind))
            out.u8(isLast ? 1 : 0)
            out.entry(entry, decisions)
        case .acknowledge(let marks):
            out.tag(.acknowledge)
            out.marks(marks)
        case .read(let cursors):
            out.tag(.read)
            out.cursors(cursors)
        case .pass(let cursors):
            out.tag(.pass)
            out.cursors(cursors)
        case .gone(let positions):
            out.tag(.gone)
            out.varint(positions.count)
            for position in positions { out.varint(position.rawValue) }
        case .expire(let now):
            out.tag(.expire)
            out.u64(UInt64(bitPattern: now.milliseconds))
        case .seen(let day, let devices):
            out.tag(.seen)
            out.u16(day.rawValue)
            out.devices(devices)
        case .evict(let session):
            out.tag(.evict)
            out.u64(session)
        case .generation(let number, let leftOut):
            out.tag(.generation)
            out.varint(number)
            out.varint(UInt64(leftOut))
        case .rebase(let from, let history, let generation, let number):
            out.tag(.rebase, from: from, history)
            out.varint(generation)
            out.varint(number.rawValue)
        case .compared(let generation):
            out.tag(.compared)
            out.varint(generation)
        case .repair(let to, let slice):
            out.tag(.repair)
            out.varint(UInt64(to.rawValue))
            out.slice(slice)
        case .setTransport(let index, let transport, let time):
            out.tag(.setTransport, of: index)
            out.transport(transport)
            out.u64(UInt64(bitPattern: time.milliseconds))
        case .endTransport(let index, let kind, let generation):
            out.tag(.endTransport, of: index)
            out.u8(kind.rawValue)
            out.varint(generation)
        case .markTransport(let index, let kind, let generation, let mark):
            out.tag(.markTransport, of: index)
            out.u8(kind.rawValue)
            out.varint(generation)
            out.mark(mark)
        case .pushedOne(let position, let index):
            out.tag(.pushedOne, of: index)
            out.varint(position.rawValue)
        case .pushedKept(let position, let index, let kind):
            out.tag(.pushedKept, of: index)
            out.varint(position.rawValue)
            out.u8(kind.rawValue)
        }
    }

    static func decode(from reader: inout ByteReader) throws(DecodeError) -> Fact {
        let byte = try reader.u8()
        guard let tag = Tag(rawValue: byte) else {
            throw reader.fail("a fact of unknown kind \(byte), as only a newer tidecast writes it,")
        }
        switch tag {
        case .barrier:
            return .barrier(
                session: SessionID(try reader.varint()), epoch: Epoch(try reader.varint()),
                rules: try reader.u64())
        case .register:
            return .register(
                index: try reader.deviceIndex(), project: try reader.project(), nonce: try reader.u32(),
                secret: try reader.u64(), day: Day(try reader.u16()))
        case .end: return .end(index: try reader.deviceIndex())
        case .subscribe:
            let (project, topic) = try reader.topic()
            return .subscribe(
                project: project, topic: topic, day: Day(try reader.u16()), indices: try reader.indices())
        case .unsubscribe:
            let (project, topic) = try reader.topic()
            return .unsubscribe(project: project, topic: topic, indices: try reader.indices())
        case .accept:
            let key = try reader.requestKey()
            let (project, topic) = try reader.topic()
            return .accept(key: key, project: project, topic: topic, message: try reader.envelope())
        case .acceptCondition:
            return .acceptCondition(
                key: try reader.requestKey(), project: try reader.project(),
                condition: try reader.condition(), message: try reader.envelope())
        case .resolve:
            return .resolve(
                ticket: try reader.ticket(), targets: try reader.targets(),
                undecided: try reader.partitions())
        case .acceptDirect:
            let (index, project) = (try reader.deviceIndex(), try reader.project())
            return .acceptDirect(
                key: try reader.requestKey(), project: project, index: index,
                message: try reader.envelope(), decision: try reader.decision())
        case .receive:
            let (from, history) = (try reader.partition(), History(try reader.u64()))
            let (entry, decisions) = try reader.entryWithDecisions()
            return .receive(from: from, history: history, entry: entry, decisions: decisions)
        case .receivePart: return try receivePart(&reader)
        case .acknowledge: return .acknowledge(try reader.marks())
        case .read: return .read(try reader.cursors())
        case .pass: return .pass(try reader.cursors())
        case .gone:
            var positions: [Position] = []
            for _ in 0..<(try reader.count(max: Int(UInt32.max))) { positions.append(try reader.position()) }
            return .gone(positions)
        case .expire: return .expire(now: try reader.wallTime())
        case .seen: return .seen(day: Day(try reader.u16()), devices: try reader.devices())
        case .evict: return .evict(session: try reader.u64())
        case .generation:
            return .generation(number: try reader.varint(), leavingOut: try reader.number())
        case .rebase:
            return .rebase(
                from: try reader.partition(), history: History(try reader.u64()),
                generation: try reader.varint(), number: Sequence(try reader.varint()))
        case .compared: return .compared(generation: try reader.varint())
        case .repair: return .repair(to: try reader.partition(), try reader.pairSlice())
        case .setTransport:
            return .setTransport(
                index: try reader.deviceIndex(), try reader.transport(), at: try reader.wallTime())
        case .endTransport:
            return .endTransport(
                index: try reader.deviceIndex(), try reader.transportKind(), generation: try reader.varint())
        case .markTransport:
            return .markTransport(
                index: try reader.deviceIndex(), try reader.transportKind(),
                generation: try reader.varint(), try reader.mark())
        case .pushedOne:
            let index = try reader.deviceIndex()
            return .pushedOne(at: try reader.position(), index: index)
        case .pushedKept:
            let index = try reader.deviceIndex()
            return .pushedKept(upTo: try reader.position(), index: index, try reader.transportKind())
        }
    }

    private static func receivePart(_ reader: inout ByteReader) throws(DecodeError) -> Fact {
        let (from, history) = (try reader.partition(), History(try reader.u64()))
        let (behind, isLast) = (try reader.number(), try reader.flag())
        let (entry, decisions) = try reader.entryWithDecisions()
        guard UInt32.max - behind > UInt32(clamping: entry.items.count) else {
            throw reader.fail("an item that no entry has")
        }
        return .receivePart(
            from: from, history: history, entry: entry, decisions: decisions, behind: behind, isLast: isLast)
    }
}

extension ByteWriter {
    fileprivate mutating func tag(_ tag: Fact.Tag) { u8(tag.rawValue) }

    fileprivate mutating func tag(_ tag: Fact.Tag, of index: UInt32, in project: ProjectNumber? = nil) {
        u8(tag.rawValue)
        varint(UInt64(index))
        if let project { varint(UInt64(project.rawValue)) }
    }

    fileprivate mutating func tag(_ tag: Fact.Tag, from partition: PartitionID, _ history: History) {
        u8(tag.rawValue)
        varint(UInt64(partition.rawValue))
        u64(history.rawValue)
    }

    fileprivate mutating func entry(_ entry: OutboxEntry, _ decisions: [DeliveryDecision]) {
        self.entry(entry)
        for decision in decisions { self.decision(decision) }
    }

    fileprivate mutating func marks(_ marks: [OutboxMark]) {
        varint(marks.count)
        for mark in marks {
            varint(UInt64(mark.partition.rawValue))
            varint(mark.number.rawValue)
        }
    }
}

extension ByteReader {
    /// The entry, and one decision for each of its messages, in order.
    fileprivate mutating func entryWithDecisions() throws(DecodeError) -> (OutboxEntry, [DeliveryDecision]) {
        let entry = try entry()
        var decisions: [DeliveryDecision] = []
        for case .message in entry.items { decisions.append(try decision()) }
        return (entry, decisions)
    }

    fileprivate mutating func marks() throws(DecodeError) -> [OutboxMark] {
        var marks: [OutboxMark] = []
        for _ in 0..<(try count(max: PartitionID.countMax)) {
            marks.append(OutboxMark(partition: try partition(), number: Sequence(try varint())))
        }
        return marks
    }
}
