import Journal
import Model
import NodeCore
import Partitions
import RegistrationIDs

/// Takes partitions at the start of a node of its own. Runs on the engine's thread.
enum Recovery {
    /// Makes `session` the owner of every partition; each begins its new epoch with a barrier.
    static func takeAll(_ session: SessionID, of engine: any Engine) throws -> [OwnedPartition] {
        var owned: [OwnedPartition] = []
        for row in try engine.partitions() {
            guard let taken = try PartitionTransfer.takeOver(row, by: session, of: engine) else {
                throw EngineError.fenced
            }
            owned.append(
                OwnedPartition(
                    id: row.id, history: row.history, epoch: taken.epoch,
                    next: try engine.lastSequence(row.id).next))
        }
        return owned
    }
}

extension NodeLoop {
    /// Hands a partition that was read at the start, or could not be read, to the core. On the loop.
    func deliver(_ answer: EngineAnswer) {
        enqueue(.engine(answer))
        turn()
    }
}

extension RegistrationKeys: DeviceMACMaker {}
