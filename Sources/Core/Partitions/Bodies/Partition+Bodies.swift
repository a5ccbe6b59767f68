import Bytes
import Journal
import Model

// Reads bodies from the journal for streams that come back.

extension Partition {
    /// The events that wait for the device, found in these records.
    public func waitingEvents(
        of device: DeviceIndex, in records: [(sequence: Sequence, body: [UInt8])]
    ) -> [[UInt8]] {
        let events = Dictionary(
            records.map { ($0.sequence, Fact.events(in: $0.body)) }, uniquingKeysWith: { first, _ in first })
        return state.log.waiting(for: device.rawValue, after: .zero, limit: .max).compactMap { entry in
            guard let found = events[entry.record], entry.ordinal < found.count else { return nil }
            return found[Int(entry.ordinal)]
        }
    }

    func readNext(_ turn: inout Turn) {
        guard let records = bodyReads.next(options.bodiesAtOnce, token: lastToken + 1) else { return }
        lastToken += 1
        turn.effects.append(.readRecords(records, bytesMax: options.bodyBytesAtOnce, token: lastToken))
    }

    func onRecords(_ read: RecordBodies, token: UInt64, _ turn: inout Turn) {
        guard let (records, readers) = bodyReads.answered(through: read.through, token: token) else { return }
        var bodies: [Sequence: [[UInt8]]] = [:]
        for record in read.records { bodies[record.sequence] = Fact.events(in: record.body) }
        var left = readers
        let missing = records.filter { bodies[$0] == nil }
        if !missing.isEmpty {
            // Looked up before anything leaves the log, so that every device that waited is notified of the
            // loss.
            let lost = readers.map { (reader: $0, gone: waiting($0.index, for: missing, turn.now)) }
            let losing = lost.filter { !$0.gone.isEmpty }
            give(up: Set(losing.flatMap(\.gone)), for: losing.map(\.reader.index))
            left = lost.filter(\.gone.isEmpty).map(\.reader)
        }
        for (index, count) in left { onBodies(bodies, count: count, of: records, for: index, &turn) }
        onBodiesToPush(bodies, of: records, for: readers.map(\.index), &turn)
        readNext(&turn)
    }

    /// The messages of these records whose bodies the stream waits for.
    private func waiting(_ index: UInt32, for records: Set<Sequence>, _ now: Instant) -> [Position] {
        guard let attachment = streams.attachment(index), case .reading = attachment.state else { return [] }
        return durableWaiting(index, after: attachment.written, now)
            .filter { $0.body == nil && records.contains($0.record) }.map(\.position)
    }

    /// `count` of the records for which the stream waits have come.
    private func onBodies(
        _ bodies: [Sequence: [[UInt8]]], count: Int, of records: Set<Sequence>, for index: UInt32,
        _ turn: inout Turn
    ) {
        guard let attachment = streams.attachment(index), case .reading(let awaited) = attachment.state
        else { return }
        var waiting = durableWaiting(index, after: attachment.written, turn.now)
        var gone: [Position] = []
        for offset in waiting.indices where waiting[offset].body == nil {
            let entry = waiting[offset]
            if let events = bodies[entry.record], entry.ordinal < events.count {
                waiting[offset].body = events[Int(entry.ordinal)]
                state.log.cache(events[Int(entry.ordinal)], at: entry.position)
            } else if records.contains(entry.record) {
                gone.append(entry.position)
            }
        }
        if !gone.isEmpty { return give(up: Set(gone), for: [index]) }
        // The rest has its turn when the link has room.
        let arrived = waiting.prefix { records.contains($0.record) }
        _ = sendFirst(
            of: Array(arrived), isAll: arrived.count == waiting.count, to: attachment, of: index, &turn)
        guard awaited > count else { return catchUp(index, &turn) }
        streams.setReading(index, records: awaited - count)
    }

    /// Bodies that the journal was asked for and does not have are gone, whatever took them. The streams go
    /// on when that fact is durable, and only then their devices are notified. A previous owner that does not
    /// know of its heir would otherwise take for gone what the heir has trimmed.
    func give(up gone: Set<Position>, for readers: [UInt32]) {
        guard !gone.isEmpty else { return }
        propose(.gone(gone.sorted()))
        pipeline.gated.bodiesGone += gone.count
        pipeline.isUrgent = true
        for index in readers {
            guard let attachment = streams.attachment(index) else { continue }
            pipeline.gated.continuing.append((attachment.stream, index))
            streams.setLosing(index)
        }
    }

    /// A record for which the stream waited is durable.
    func continueReading(_ stream: StreamID, of index: UInt32, _ turn: inout Turn) {
        guard let attachment = streams.attachment(index), attachment.stream == stream,
            case .losing = attachment.state
        else { return }
        catchUp(index, &turn)
    }
}

extension Fact {
    /// The event bodies of a record, in the order of their ordinals. A condition's acceptance takes an
    /// ordinal too.
    static func events(in body: [UInt8]) -> [[UInt8]] {
        var reader = ByteReader(body)
        var events: [[UInt8]] = []
        while !reader.isAtEnd, let fact = try? Fact.decode(from: &reader) {
            switch fact {
            case .accept(_, _, _, let message), .acceptCondition(_, _, _, let message),
                .acceptDirect(_, _, _, let message, _):
                events.append(message.event)
            case .receive(_, _, let entry, _), .receivePart(_, _, let entry, _, _, _):
                for item in entry.items {
                    if case .message(_, let message, _) = item { events.append(message.event) }
                }
            default: break
            }
        }
        return events
    }
}
