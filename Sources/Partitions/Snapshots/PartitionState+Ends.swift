import Bytes
import Model

// Messages that do not end everywhere at once, in snapshots.

extension PartitionState {
    /// What the form for checks has no place for: nothing where a partition has had no such message.
    func writeEnds(_ out: inout ByteWriter) {
        guard hasSeveralEnds else { return }
        var entries: [LogEntry] = []
        log.forEach { if !$0.ends.areSame { entries.append($0) } }
        out.varint(entries.count)
        for entry in entries {
            out.varint(entry.position.rawValue)
            out.ends(entry.ends)
        }
        let open = conditions.filter { !$0.value.message.times.areSame }
            .sorted { ConditionTicket.isBefore($0.key, $1.key) }
        out.varint(open.count)
        for (ticket, pending) in open {
            out.varint(ticket.record.rawValue)
            out.varint(UInt64(ticket.ordinal))
            for kind in Transport.Kind.allCases { out.varint(UInt64(pending.message.times[kind])) }
        }
    }

    mutating func readEnds(_ reader: inout ByteReader) throws(DecodeError) {
        guard !reader.isAtEnd else { return }
        hasSeveralEnds = true
        for _ in 0..<(try reader.count(max: Int(UInt32.max), elementBytesMin: 33)) {
            let position = try reader.position()
            guard log.setEnds(try reader.ends(at: position), at: position) else {
                throw reader.fail("ends of a message that is not there")
            }
        }
        for _ in 0..<(try reader.count(max: Int(UInt32.max), elementBytesMin: 5)) {
            let ticket = ConditionTicket(record: Sequence(try reader.varint()), ordinal: try reader.number())
            guard let stream = conditions[ticket]?.message.times.stream else {
                throw reader.fail("ends of a condition that is not there")
            }
            conditions[ticket]?.message.times = TimesToLive(
                stream: stream, web: try reader.number(), apns: try reader.number(), fcm: try reader.number())
        }
    }
}

extension ByteWriter {
    mutating func ends(_ ends: EntryEnds) {
        u64(UInt64(bitPattern: ends.stream.milliseconds))
        guard !ends.areSame else { return }
        for kind in Transport.Kind.allCases { u64(UInt64(bitPattern: ends[kind].milliseconds)) }
    }
}

extension ByteReader {
    mutating func ends(at position: Position) throws(DecodeError) -> EntryEnds {
        let ends = EntryEnds(
            stream: try wallTime(), web: try wallTime(), apns: try wallTime(), fcm: try wallTime(),
            at: position)
        guard !ends.areSame else { throw fail("ends that are one") }
        return ends
    }
}
