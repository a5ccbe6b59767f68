import Bytes
import Journal
import Model

/// A partition as an engine has it: the newest snapshot that can be read, and the records behind the
/// snapshot. The engine's thread reads it; the partition's loop folds it.
public struct StoredPartition: Sendable {
    /// How far a reading came, and how a later reading sees whether that still holds. Until a node owns a
    /// partition, nothing that the node reads of it is sure to be durable.
    public struct Mark: Sendable {
        var applied: Sequence
        /// The highest epoch of the records that were read: the last barrier's.
        var epoch = Epoch(0)
        /// The checksum of the newest record's payload. `nil` if nothing is behind the snapshot, which covers
        /// durable records only.
        var digest: UInt64?
    }

    /// Bytes of records that a call asks of the engine.
    public static let readBytesMax = 16 << 20

    public let id: PartitionID
    /// Whether only the records behind the mark of an earlier reading are here.
    public private(set) var isTail = false
    public private(set) var mark = Mark(applied: .zero)
    public private(set) var snapshot: [UInt8]?
    /// Newer snapshots that cannot be read, each with its name and the reason.
    public private(set) var unreadable: [String] = []
    private var records: [StoredRecord] = []

    /// Reads everything. Throws `RecoveryError` for a gap or an earlier epoch, and the engine's errors.
    public init(
        _ id: PartitionID, from engine: any Engine, bytesMax: Int = readBytesMax
    ) throws {
        self.id = id
        for row in try engine.snapshots(id) {
            do {
                snapshot = try engine.readSnapshot(id, covering: row.covering)
                mark.applied = row.covering
                break
            } catch {
                unreadable.append("\(row.name): \(error)")
            }
        }
        do {
            try readRecords(engine, bytesMax)
        } catch let error as RecoveryError {
            guard case .gap = error, !unreadable.isEmpty, snapshot == nil else { throw error }
            throw RecoveryError.snapshots(id, unreadable.joined(separator: "; "))
        }
    }

    /// The given records, from the first of the journal on.
    public init(_ id: PartitionID, records: [StoredRecord]) {
        self.id = id
        self.records = records
        mark.applied = records.last?.sequence ?? .zero
    }

    private init(_ id: PartitionID, tailBehind mark: Mark) {
        self.id = id
        self.mark = mark
        isTail = true
    }

    /// Reads what came behind the mark. Reads everything if there is no mark, or if the mark's record is not
    /// there any more.
    public static func read(
        _ id: PartitionID, behind mark: Mark?, from engine: any Engine, bytesMax: Int = readBytesMax
    ) throws -> StoredPartition {
        guard let mark else { return try StoredPartition(id, from: engine, bytesMax: bytesMax) }
        if let digest = mark.digest {
            let row = try engine.read(id, rows: [mark.applied]).first
            guard let row, Checksum.of(row.payload) == digest else {
                return try StoredPartition(id, from: engine, bytesMax: bytesMax)
            }
        }
        var tail = StoredPartition(id, tailBehind: mark)
        do {
            try tail.readRecords(engine, bytesMax)
        } catch RecoveryError.gap {
            // The engine has trimmed these records meanwhile, behind a newer snapshot.
            return try StoredPartition(id, from: engine, bytesMax: bytesMax)
        }
        return tail
    }

    /// All records behind the mark, which must follow one another.
    private mutating func readRecords(_ engine: any Engine, _ bytesMax: Int) throws {
        while true {
            let rows = try engine.read(id, from: mark.applied.next, bytesMax: bytesMax)
            for row in rows {
                guard row.sequence == mark.applied.next else {
                    throw RecoveryError.gap(
                        id, expected: mark.applied.next, found: row.sequence, isFirst: records.isEmpty)
                }
                let record = try RecordCodec.decode(row.payload, expecting: id, row.sequence)
                guard record.header.epoch >= mark.epoch else {
                    throw RecoveryError.epoch(id, row.sequence, record.header.epoch, since: mark.epoch)
                }
                mark.epoch = record.header.epoch
                records.append(
                    StoredRecord(sequence: row.sequence, epoch: record.header.epoch, body: record.body))
                mark.applied = row.sequence
            }
            guard let last = rows.last else { return }
            mark.digest = Checksum.of(last.payload)
        }
    }

    /// Folds what was read into a new partition, or a tail into the partition of the earlier reading.
    public func fold(into partition: Partition) throws(DecodeError) {
        if let snapshot { try partition.restore(snapshot: snapshot) }
        for record in records where record.sequence > partition.applied {
            // The snapshot may cover the last barrier, so the epoch is compared here too.
            guard record.epoch >= partition.state.epoch else {
                throw DecodeError(
                    offset: 0,
                    reason: .invalid(
                        "record \(record.sequence.rawValue): its epoch is before the last barrier's"))
            }
            try partition.replay(record.sequence, record.body)
        }
    }
}

/// A record as a journal stores it.
public struct StoredRecord: Sendable {
    public var sequence: Sequence
    public var epoch: Epoch
    public var body: [UInt8]

    public init(sequence: Sequence, epoch: Epoch, body: [UInt8]) {
        self.sequence = sequence
        self.epoch = epoch
        self.body = body
    }
}

/// What an heir has read of a partition before it owns the partition.
public struct FollowedPartition {
    public let partition: Partition
    public let mark: StoredPartition.Mark

    public init(partition: Partition, mark: StoredPartition.Mark) {
        self.partition = partition
        self.mark = mark
    }
}

public enum RecoveryError: Error, CustomStringConvertible {
    /// `isFirst`: the journal begins too late, so a snapshot is missing. Else a record inside is missing.
    case gap(PartitionID, expected: Sequence, found: Sequence, isFirst: Bool)
    case snapshots(PartitionID, String)
    /// A record of an earlier owner, behind the barrier of a later owner.
    case epoch(PartitionID, Sequence, Epoch, since: Epoch)

    public var description: String {
        switch self {
        case .gap(let partition, let expected, let found, _):
            "partition \(partition.rawValue): record \(expected.rawValue) is missing, "
                + "\(found.rawValue) follows; restore the data folder from a backup"
        case .snapshots(let partition, let what):
            "partition \(partition.rawValue): no snapshot can be read and the journal does not begin at its "
                + "start: \(what)"
        case .epoch(let partition, let sequence, let epoch, let since):
            "partition \(partition.rawValue): record \(sequence.rawValue) is of epoch \(epoch.rawValue), and "
                + "stands behind one of epoch \(since.rawValue)"
        }
    }
}

extension Partition {
    /// The barrier of a new owner: its first record, in the epoch that it begins.
    public static func barrier(
        of row: PartitionRow, by session: SessionID, behind last: Sequence
    ) throws -> Row {
        let epoch = Epoch(row.epoch.rawValue + 1)
        let header = RecordHeader(partition: row.id, sequence: last.next, epoch: epoch, history: row.history)
        let body = barrier(session: session, epoch: epoch)
        return Row(
            partition: row.id, sequence: last.next,
            payload: try RecordCodec.encode(header: header, body: body))
    }
}
