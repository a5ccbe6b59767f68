import Bytes
import Model

// How facts stand in a record: a tag byte, then the fields. Numbers are varints; times and secrets have a
// fixed length. The tag is the version: a fact with another meaning gets another tag. A build refuses a tag
// that it does not know, and names the tag's number, so that an older build does not misread a newer record.

extension Fact {
    func encode(into out: inout ByteWriter) {
        switch self {
        case .barrier(let session, let epoch):
            out.u8(1)
            out.varint(session.rawValue)
            out.varint(epoch.rawValue)
        case .register(let index, let project, let nonce, let secret, let day):
            out.u8(2)
            out.varint(UInt64(index))
            out.varint(UInt64(project.rawValue))
            out.u32(nonce)
            out.u64(secret)
            out.u16(day.rawValue)
        case .end(let index):
            out.u8(3)
            out.varint(UInt64(index))
        case .subscribe(let project, let topic, let day, let indices):
            out.u8(4)
            out.topic(project, topic)
            out.u16(day.rawValue)
            out.indices(indices)
        case .unsubscribe(let project, let topic, let indices):
            out.u8(5)
            out.topic(project, topic)
            out.indices(indices)
        case .accept(let key, let project, let topic, let message):
            out.u8(message.times.areSame ? 6 : 26)
            out.requestKey(key)
            out.topic(project, topic)
            out.envelope(message)
        case .acceptCondition(let key, let project, let condition, let message):
            out.u8(message.times.areSame ? 7 : 27)
            out.requestKey(key)
            out.varint(UInt64(project.rawValue))
            out.condition(condition)
            out.envelope(message)
        case .resolve(let ticket, let targets):
            out.u8(8)
            out.varint(ticket.record.rawValue)
            out.varint(UInt64(ticket.ordinal))
            out.varint(targets.count)
            for part in targets {
                out.varint(UInt64(part.partition.rawValue))
                out.devices(part.devices)
            }
        case .acceptDirect(let key, let project, let index, let message, let decision):
            out.u8(Fact.directTag(message))
            out.requestKey(key)
            out.varint(UInt64(project.rawValue))
            out.varint(UInt64(index))
            out.envelope(message)
            out.decision(decision)
        case .receive(let from, let history, let entry, let decisions):
            out.u8(10)
            out.varint(UInt64(from.rawValue))
            out.u64(history.rawValue)
            out.entry(entry)
            for decision in decisions { out.decision(decision) }
        case .receivePart(let from, let history, let entry, let decisions, let behind, let isLast):
            out.u8(21)
            out.varint(UInt64(from.rawValue))
            out.u64(history.rawValue)
            out.varint(UInt64(behind))
            out.u8(isLast ? 1 : 0)
            out.entry(entry)
            for decision in decisions { out.decision(decision) }
        default:
            encodeBookkeeping(into: &out)
        }
    }

    /// Builds that know no shares must not read a message that names one.
    private static func directTag(_ message: Envelope) -> UInt8 {
        let isShared = SharedKey.share(of: message.collapseKey) != nil
        if message.times.areSame { return isShared ? 31 : 9 }
        return isShared ? 32 : 28
    }

    private func encodeBookkeeping(into out: inout ByteWriter) {
        switch self {
        case .acknowledge(let marks):
            out.u8(11)
            out.varint(marks.count)
            for mark in marks {
                out.varint(UInt64(mark.partition.rawValue))
                out.varint(mark.number.rawValue)
            }
        case .read(let cursors):
            out.u8(12)
            out.cursors(cursors)
        case .pass(let cursors):
            out.u8(18)
            out.cursors(cursors)
        case .gone(let positions):
            out.u8(22)
            out.varint(positions.count)
            for position in positions { out.varint(position.rawValue) }
        case .expire(let now):
            out.u8(13)
            out.u64(UInt64(bitPattern: now.milliseconds))
        case .seen(let day, let devices):
            out.u8(14)
            out.u16(day.rawValue)
            out.devices(devices)
        case .evict(let session):
            out.u8(15)
            out.u64(session)
        case .rebase(let from, let history, let generation, let number):
            out.u8(19)
            out.varint(UInt64(from.rawValue))
            out.u64(history.rawValue)
            out.varint(generation)
            out.varint(number.rawValue)
        case .compared(let generation):
            out.u8(20)
            out.varint(generation)
        case .generation(let number, let leftOut):
            out.u8(17)
            out.varint(number)
            out.varint(UInt64(leftOut))
        case .repair(let to, let slice):
            out.u8(16)
            out.varint(UInt64(to.rawValue))
            out.slice(slice)
        default:
            encodeTransport(into: &out)
        }
    }

    private func encodeTransport(into out: inout ByteWriter) {
        switch self {
        case .setTransport(let index, let transport, let time):
            out.u8(23)
            out.varint(UInt64(index))
            out.transport(transport)
            out.u64(UInt64(bitPattern: time.milliseconds))
        case .endTransport(let index, let kind, let generation):
            out.u8(24)
            out.varint(UInt64(index))
            out.u8(kind.rawValue)
            out.varint(generation)
        case .markTransport(let index, let kind, let generation, let mark):
            out.u8(33)
            out.varint(UInt64(index))
            out.u8(kind.rawValue)
            out.varint(generation)
            out.mark(mark)
        case .pushed(let cursors):
            out.u8(25)
            out.cursors(cursors)
        case .pushedOne(let position, let index):
            out.u8(29)
            out.varint(position.rawValue)
            out.varint(UInt64(index))
        case .pushedKept(let position, let index, let kind):
            out.u8(30)
            out.varint(position.rawValue)
            out.varint(UInt64(index))
            out.u8(kind.rawValue)
        default:
            preconditionFailure("every fact is encoded in one of the three functions")
        }
    }

    static func decode(from reader: inout ByteReader) throws(DecodeError) -> Fact {
        let tag = try reader.u8()
        switch tag {
        case 1: return .barrier(session: SessionID(try reader.varint()), epoch: Epoch(try reader.varint()))
        case 2:
            return .register(
                index: try reader.deviceIndex(), project: try reader.project(), nonce: try reader.u32(),
                secret: try reader.u64(), day: Day(try reader.u16()))
        case 3: return .end(index: try reader.deviceIndex())
        case 4:
            let (project, topic) = try reader.topic()
            return .subscribe(
                project: project, topic: topic, day: Day(try reader.u16()), indices: try reader.indices())
        case 5:
            let (project, topic) = try reader.topic()
            return .unsubscribe(project: project, topic: topic, indices: try reader.indices())
        case 6, 26:
            let key = try reader.requestKey()
            let (project, topic) = try reader.topic()
            return .accept(
                key: key, project: project, topic: topic, message: try reader.envelope(withEnds: tag == 26))
        case 7, 27:
            return .acceptCondition(
                key: try reader.requestKey(), project: try reader.project(),
                condition: try reader.condition(), message: try reader.envelope(withEnds: tag == 27))
        case 8:
            let ticket = ConditionTicket(record: Sequence(try reader.varint()), ordinal: try reader.number())
            let count = try reader.count(max: PartitionID.countMax)
            var targets: [PartitionTargets] = []
            for _ in 0..<count {
                targets.append(
                    PartitionTargets(partition: try reader.partition(), devices: try reader.devices()))
            }
            return .resolve(ticket: ticket, targets: targets)
        case 9, 28, 31, 32:
            return .acceptDirect(
                key: try reader.requestKey(), project: try reader.project(), index: try reader.deviceIndex(),
                message: try reader.envelope(withEnds: tag == 28 || tag == 32),
                decision: try reader.decision())
        case 10:
            let from = try reader.partition()
            let history = History(try reader.u64())
            let entry = try reader.entry()
            let decisions = try reader.decisions(of: entry)
            return .receive(from: from, history: history, entry: entry, decisions: decisions)
        case 21:
            let from = try reader.partition()
            let history = History(try reader.u64())
            let behind = try reader.number()
            let isLast = try reader.flag()
            let entry = try reader.entry()
            guard UInt32.max - behind > UInt32(clamping: entry.items.count) else {
                throw reader.fail("an item that no entry has")
            }
            return .receivePart(
                from: from, history: history, entry: entry, decisions: try reader.decisions(of: entry),
                behind: behind, isLast: isLast)
        default: return try decodeBookkeeping(tag, from: &reader)
        }
    }

    private static func decodeBookkeeping(
        _ tag: UInt8, from reader: inout ByteReader
    ) throws(DecodeError) -> Fact {
        switch tag {
        case 11:
            var marks: [OutboxMark] = []
            for _ in 0..<(try reader.count(max: PartitionID.countMax)) {
                marks.append(
                    OutboxMark(partition: try reader.partition(), number: Sequence(try reader.varint())))
            }
            return .acknowledge(marks)
        case 12:
            return .read(try reader.cursors())
        case 13: return .expire(now: try reader.wallTime())
        case 14: return .seen(day: Day(try reader.u16()), devices: try reader.devices())
        case 15: return .evict(session: try reader.u64())
        case 22:
            var positions: [Position] = []
            for _ in 0..<(try reader.count(max: Int(UInt32.max))) { positions.append(try reader.position()) }
            return .gone(positions)
        case 18: return .pass(try reader.cursors())
        case 17:
            let number = try reader.varint()
            return .generation(number: number, leavingOut: try reader.number())
        case 19:
            return .rebase(
                from: try reader.partition(), history: History(try reader.u64()),
                generation: try reader.varint(), number: Sequence(try reader.varint()))
        case 20: return .compared(generation: try reader.varint())
        case 23:
            return .setTransport(
                index: try reader.deviceIndex(), try reader.transport(), at: try reader.wallTime())
        case 24:
            return .endTransport(
                index: try reader.deviceIndex(), try reader.transportKind(), generation: try reader.varint())
        case 33:
            return .markTransport(
                index: try reader.deviceIndex(), try reader.transportKind(),
                generation: try reader.varint(), try reader.mark())
        case 25: return .pushed(try reader.cursors())
        case 29: return .pushedOne(at: try reader.position(), index: try reader.deviceIndex())
        case 30:
            return .pushedKept(
                upTo: try reader.position(), index: try reader.deviceIndex(), try reader.transportKind())
        case 16: return .repair(to: try reader.partition(), try reader.pairSlice())
        default: throw reader.fail("a fact of unknown kind \(tag), as only a newer tidecast writes it,")
        }
    }
}
