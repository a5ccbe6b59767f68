import Journal
import Model
import Partitions

/// Taking partitions. Runs on the engine's thread.
enum Recovery {
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
        let barrier = try Partition.barrier(of: row, by: session, behind: last)
        return try engine.take(row.id, from: row, by: session, barrier: barrier)
    }
}

extension NodeLoop {
    /// Folds a partition from what was read, and begins to serve it.
    func restore(_ loaded: StoredPartition, onto followed: Partition? = nil) {
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

    func fold(_ loaded: StoredPartition, into followed: Partition?) throws -> Partition {
        let partition =
            followed
            ?? Partition(
                id: loaded.id, history: shared.histories[Int(loaded.id.rawValue)], options: shared.options,
                names: names, proofs: keys)
        try loaded.fold(into: partition)
        return partition
    }
}

extension RegistrationKeys: DeviceProofMaker {}
