import Bytes
import Journal
import Model
import Partitions

/// The steps in which a partition changes owners in an engine. They run on the engine's thread.
public enum PartitionTransfer {
    /// Makes `session` the owner, if the row is still as it was read, and begins its epoch with a barrier.
    /// `nil`: another node was faster.
    public static func takeOver(
        _ row: PartitionRow, by session: SessionID, of engine: any Engine
    ) throws -> (epoch: Epoch, barrier: Row)? {
        let last = try engine.lastSequence(row.id)
        let barrier = try Partition.barrier(of: row, by: session, behind: last)
        return try engine.takeOver(row.id, from: row, by: session, barrier: barrier).map { ($0, barrier) }
    }

    public struct Loaded: Sendable {
        public var partition: StoredPartition
        /// The tokens that its previous owner left in the buckets of its projects.
        public var quotas: [ProjectNumber: [UInt64]] = [:]
        /// Why these tokens cannot be read; the buckets then begin empty.
        public var unreadableQuotas: DecodeError?
    }

    /// Reads a partition for its owner of `epoch`: the records behind the mark, or everything.
    public static func load(
        _ id: PartitionID, _ epoch: Epoch, behind mark: StoredPartition.Mark?, from engine: any Engine,
        bytesMax: Int = StoredPartition.readBytesMax
    ) throws -> Loaded {
        var quotas: [ProjectNumber: [UInt64]] = [:]
        var unreadable: DecodeError?
        do {
            quotas = try QuotaHandover.left(id, epoch: epoch, from: engine)
        } catch let error as DecodeError {
            unreadable = error
        }
        let partition = try StoredPartition.read(id, behind: mark, from: engine, bytesMax: bytesMax)
        // Last of all: if a step before this one fails, the next try must still find the tokens.
        try QuotaHandover.remove(id, from: engine)
        return Loaded(partition: partition, quotas: quotas, unreadableQuotas: unreadable)
    }

    /// Clears the row's owner, and keeps the tokens that are left in the projects' buckets for the next
    /// owner.
    public static func giveUp(
        _ id: PartitionID, _ epoch: Epoch, left quotas: [ProjectNumber: [UInt64]], by session: SessionID,
        of engine: any ClusterEngine
    ) throws {
        try QuotaHandover.put(quotas, of: id, epoch: epoch, to: engine)
        try engine.release(id, by: session)
    }
}

extension EngineAnswer {
    /// Damage stays; after any other error the engine may answer the next try.
    public static func loadFailed(_ id: PartitionID, _ epoch: Epoch, of error: any Error) -> EngineAnswer {
        var isDamaged = error is RecoveryError || error is DecodeError
        if case EngineError.corrupt = error { isDamaged = true }
        return .loadFailed(id, epoch, isDamaged: isDamaged, reason: "\(error)")
    }

    public var isOfDamage: Bool { if case .loadFailed(_, _, true, _) = self { true } else { false } }
}
