import Journal
import Model
import NodeCore
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
    /// A partition of a node of its own was read as the node begins, or could not be. On the loop.
    func begin(_ answer: EngineAnswer) {
        enqueue(.engine(answer))
        turn()
    }
}

extension RegistrationKeys: DeviceProofMaker {}
