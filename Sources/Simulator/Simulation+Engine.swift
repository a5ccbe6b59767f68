import Journal
import Model
import Partitions

// What an engine can do to an append other than put it in: refuse it, stall, lose its reply.

extension Simulation {
    /// The fate of one append.
    enum Fate {
        case durable
        /// The record is known not to be in, because the disk is full. It goes in so much later.
        case refused(TimeSpan)
        /// The reply is lost, and the machine with it: the node does not know whether the record is in.
        case unknown(isIn: Bool)
    }

    func append(_ id: PartitionID, _ sequence: Sequence, body: [UInt8]) {
        let number = Int(id.rawValue)
        if body.count > options.recordBytesLimit {
            broken = "record \(sequence.rawValue) of partition \(number) has \(body.count) bytes"
        }
        var delay = TimeSpan.microseconds(500) + random.next(upperBound: .milliseconds(8))
        var fate = Fate.durable
        if !isHealing {
            let roll = random.next(upperBound: UInt64(100))
            if roll < options.refusedPercent {
                fate = .refused(.milliseconds(50) + random.next(upperBound: .seconds(2)))
            } else if roll < options.refusedPercent + options.unknownPercent {
                fate = .unknown(isIn: random.next(upperBound: UInt64(2)) == 0)
            } else if roll < options.refusedPercent + options.unknownPercent + options.stallPercent {
                delay += random.next(upperBound: .milliseconds(1500))
            }
        }
        let at = max(appendTimes[number] + .nanoseconds(1), now + delay)
        appendTimes[number] = at
        // Later records of the partition wait behind a refused one.
        if case .refused(let time) = fate { appendTimes[number] = appendTimes[number] + time }
        schedule(.appended(id, incarnation: machineNumbers[number], sequence, body, fate), in: at.since(now))
    }

    func finishAppend(_ id: PartitionID, _ sequence: Sequence, body: [UInt8], fate: Fate) {
        switch fate {
        case .durable:
            record(Int(id.rawValue), sequence, body: body)
            feed(id, .appended(sequence))
        case .refused(let time):
            feed(id, .postponed("a fault"))
            schedule(
                .appended(id, incarnation: machineNumbers[Int(id.rawValue)], sequence, body, .durable),
                in: time
            )
        case .unknown(let isIn):
            if isIn { record(Int(id.rawValue), sequence, body: body) }
            lose(id, mayHaveAppended: true)
        }
    }

    /// Reads the bodies of records, until they have `bytesMax` bytes together.
    func bodies(_ id: PartitionID, _ sequences: [Sequence], bytesMax: Int) -> RecordBodies {
        var read = RecordBodies(records: [], through: sequences.max() ?? .zero)
        var bytes = 0
        for record in journal[Int(id.rawValue)] where sequences.contains(record.sequence) {
            read.records.append(record)
            bytes += record.body.count
            if bytes < bytesMax { continue }
            read.through = record.sequence
            break
        }
        return read
    }

    /// Stores a part of a snapshot, which counts when its last part is there. A machine that was lost
    /// meanwhile may have had its snapshot written, so the two newest are kept. Sometimes the disk is full.
    func store(_ id: PartitionID, _ covering: Sequence, part: SnapshotPart, token: UInt64) {
        if !isHealing, random.next(upperBound: UInt64(100)) < options.refusedPercent {
            return feed(id, .snapshotFailed(token: token))
        }
        if part.number == 0 { uploads.append([]) }
        let upload = part.upload ?? UInt64(uploads.count - 1)
        uploads[Int(upload)] += part.bytes
        if part.end != nil {
            let stored = snapshots[Int(id.rawValue)] + [(covering, uploads[Int(upload)])]
            snapshots[Int(id.rawValue)] = Array(stored.sorted { $0.covering > $1.covering }.prefix(2))
        }
        feed(id, .snapshotPart(upload: upload, token: token))
    }

    /// Trims as engines do: never past what the older of two snapshots covers.
    func trim(_ number: Int, _ below: Sequence, keeping: [Sequence]) {
        guard snapshots[number].count == 2 else { return }
        var limit = min(below, snapshots[number][1].covering)
        #if DEBUG
            if options.partition.planted.contains(.trimToNewest) { limit = below }
        #endif
        journal[number].removeAll { $0.sequence < limit && !keeping.contains($0.sequence) }
    }

    /// Throws the machine away, and answers its clients; another is made from the journal a little later.
    private func lose(_ id: PartitionID, mayHaveAppended: Bool) {
        let number = Int(id.rawValue)
        guard let partition = partitions[number] else { return }
        history.faults.append("partition \(number) lost at \(now.nanoseconds)")
        partitions[number] = nil
        machineNumbers[number] += 1
        appendTimes[number] = .zero
        var replies: [(RequestID, Reply)] = []
        partition.abandon(mayHaveAppended: mayHaveAppended, reason: "a fault", into: &replies)
        for (request, reply) in replies { answer(request.number, reply) }
        streams.lost(id, sink: sink)
        schedule(
            .recovered(id, incarnation: machineNumbers[number]),
            in: random.next(upperBound: .milliseconds(30)))
    }

    func recover(_ id: PartitionID) {
        let number = Int(id.rawValue)
        guard let partition = replayed(number) else { return }
        partitions[number] = partition
        var effects: [PartitionEffect] = []
        partition.start(
            now: instant, incarnation: UInt32(truncatingIfNeeded: machineNumbers[number]), into: &effects)
        partition.flush(now: instant, into: &effects)
        carryOut(effects, of: id)
    }

    /// Answers a request for a partition that has no machine at the moment.
    func refuse(_ event: PartitionEvent) {
        guard case .request(let id, _) = event else { return }
        answer(id.number, .refused(.unavailable("the partition is being read")))
    }
}
