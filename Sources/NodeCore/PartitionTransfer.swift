import Journal
import Model
import Partitions

/// How a partition changes hands in an engine. Runs where the engine does.
public enum PartitionTransfer {
    /// Makes `session` the owner, if the row still is as it was, and begins its epoch with a barrier. `nil`:
    /// somebody was faster.
    public static func take(
        _ row: PartitionRow, by session: SessionID, of engine: any Engine
    ) throws -> (epoch: Epoch, barrier: Row)? {
        let last = try engine.lastSequence(row.id)
        let barrier = try Partition.barrier(of: row, by: session, behind: last)
        return try engine.take(row.id, from: row, by: session, barrier: barrier).map { ($0, barrier) }
    }

    public struct Loaded: Sendable {
        public var partition: StoredPartition
        /// What its former owner left in the buckets of its projects.
        public var quotas: [ProjectNumber: [UInt64]] = [:]
        /// Why that cannot be read: its buckets begin empty.
        public var unreadableQuotas: DecodeError?
    }

    /// Reads a partition for its owner since `epoch`: what came behind the mark, or everything.
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
        // Last of all: what was left is there for the next try where anything before failed.
        try QuotaHandover.remove(id, from: engine)
        return Loaded(partition: partition, quotas: quotas, unreadableQuotas: unreadable)
    }

    /// Gives the row up, and keeps what is left in the buckets of its projects for its next owner.
    public static func giveUp(
        _ id: PartitionID, _ epoch: Epoch, left quotas: [ProjectNumber: [UInt64]], by session: SessionID,
        of engine: any ClusterEngine
    ) throws {
        try QuotaHandover.put(quotas, of: id, epoch: epoch, to: engine)
        try engine.release(id, by: session)
    }
}

extension EngineAnswer {
    /// What is damaged stays so; anything else may have been the engine's bad moment.
    public static func loadFailed(_ id: PartitionID, _ epoch: Epoch, of error: any Error) -> EngineAnswer {
        var isDamaged = error is RecoveryError || error is DecodeError
        if case EngineError.corrupt = error { isDamaged = true }
        return .loadFailed(id, epoch, isDamaged: isDamaged, reason: "\(error)")
    }

    public var isOfDamage: Bool { if case .loadFailed(_, _, true, _) = self { true } else { false } }
}
