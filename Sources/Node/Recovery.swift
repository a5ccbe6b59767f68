import Journal
import Model
import Partitions

/// A partition as the engine has it: the newest snapshot that can be read, and the records after it.
struct LoadedPartition: Sendable {
    var id: PartitionID
    var snapshot: [UInt8]?
    var records: [(sequence: Sequence, body: [UInt8])]
    /// Only what came behind that which was read before.
    var isTail = false
    /// Of the newest record that was read.
    var lastDigest: UInt64?
}

enum RecoveryError: Error, CustomStringConvertible {
    case gap(PartitionID, expected: Sequence, found: Sequence)
    case snapshots(PartitionID, String)

    var description: String {
        switch self {
        case .gap(let partition, let expected, let found):
            "partition \(partition.rawValue): record \(expected.rawValue) is missing, \(found.rawValue) follows; "
                + "restore the data folder from a backup"
        case .snapshots(let partition, let what):
            "partition \(partition.rawValue): no snapshot can be read and the journal does not begin at its start: \(what)"
        }
    }
}

/// Reading partitions from an engine, and taking them. Runs on the engine's thread.
enum Recovery {
    static let readBytesMax = 16 << 20

    /// Makes `session` the owner of every partition; each begins its new epoch with a barrier.
    static func takeAll(_ session: SessionID, of engine: any Engine) throws -> [OwnedPartition] {
        var owned: [OwnedPartition] = []
        for row in try engine.partitions() {
            guard let epoch = try take(row, by: session, of: engine) else { throw EngineError.fenced }
            owned.append(
                OwnedPartition(
                    id: row.id, history: row.history, epoch: epoch,
                    next: try engine.lastSequence(row.id).next))
        }
        return owned
    }

    /// Makes `session` the owner, if the row still is as it was, and begins its epoch with a barrier. `nil`:
    /// somebody was faster.
    static func take(_ row: PartitionRow, by session: SessionID, of engine: any Engine) throws -> Epoch? {
        let last = try engine.lastSequence(row.id)
        let epoch = Epoch(row.epoch.rawValue + 1)
        let header = RecordHeader(partition: row.id, sequence: last.next, epoch: epoch, history: row.history)
        let payload = try RecordCodec.encode(
            header: header, body: Partition.barrier(session: session, epoch: epoch))
        let barrier = Row(partition: row.id, sequence: last.next, payload: payload)
        return try engine.take(row.id, from: row, by: session, barrier: barrier)
    }

    static func load(_ id: PartitionID, from engine: any Engine) throws -> LoadedPartition {
        var loaded = LoadedPartition(id: id, snapshot: nil, records: [])
        var from = Sequence(1)
        var unreadable: [String] = []
        for row in try engine.snapshots(id) {
            do {
                loaded.snapshot = try engine.readSnapshot(id, covering: row.covering)
                from = row.covering.next
                break
            } catch {
                unreadable.append("\(row.name): \(error)")
            }
        }
        do {
            try readRecords(&loaded, from: from, engine)
        } catch let error as RecoveryError {
            guard case .gap = error, !unreadable.isEmpty, loaded.snapshot == nil else { throw error }
            throw RecoveryError.snapshots(id, unreadable.joined(separator: "; "))
        }
        return loaded
    }

    /// All records from there on, which must follow one another.
    static func readRecords(
        _ loaded: inout LoadedPartition, from first: Sequence, _ engine: any Engine
    ) throws {
        var from = first
        while true {
            let rows = try engine.read(loaded.id, from: from, bytesMax: readBytesMax)
            for row in rows {
                guard row.sequence == from else {
                    throw RecoveryError.gap(loaded.id, expected: from, found: row.sequence)
                }
                let record = try RecordCodec.decode(row.payload, expecting: loaded.id, row.sequence)
                loaded.records.append((row.sequence, record.body))
                from = from.next
            }
            guard let last = rows.last else { return }
            loaded.lastDigest = Checksum.of(last.payload)
        }
    }
}

extension NodeLoop {
    /// Folds a partition from what was read, and begins to serve it.
    func restore(_ loaded: LoadedPartition, onto followed: Partition? = nil) {
        // Given up and thrown away while the rest was read.
        if loaded.isTail, followed == nil { return }
        let partition: Partition
        do {
            partition = try fold(loaded, into: loaded.isTail ? followed : nil)
        } catch {
            // What was verified by checksum and still cannot be folded is a fault that going on would make
            // worse.
            shared.stop("partition \(loaded.id.rawValue) cannot be folded from its journal: \(error)")
            return
        }
        shared.engines.open(loaded.id, next: partition.applied.next)
        adopt(partition)
    }

    func fold(_ loaded: LoadedPartition, into followed: Partition?) throws -> Partition {
        let partition =
            followed
            ?? Partition(
                id: loaded.id, history: shared.histories[Int(loaded.id.rawValue)], options: shared.options,
                names: names, proofs: keys)
        if let snapshot = loaded.snapshot { try partition.restore(snapshot: snapshot) }
        for record in loaded.records { try partition.replay(record.sequence, record.body) }
        return partition
    }
}

extension RegistrationKeys: DeviceProofMaker {}
