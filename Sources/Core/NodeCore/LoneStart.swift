import Journal
import Model

/// A partition that a session owns.
public struct OwnedPartition: Sendable {
    public var id: PartitionID
    public var history: History
    public var epoch: Epoch
    /// The sequence of the partition's next record.
    public var next: Sequence

    public init(id: PartitionID, history: History, epoch: Epoch, next: Sequence) {
        self.id = id
        self.history = history
        self.epoch = epoch
        self.next = next
    }
}

/// What a lone node takes and finds at its start, on the engine's thread.
public struct LoneStart: Sendable {
    public let partitions: [OwnedPartition]
    public let formerQuotas: FormerQuotas
    public let clockWitness: WallTime?

    /// Makes `session` the owner of every partition; each begins its new epoch with a barrier.
    public init(
        _ session: SessionID, of engine: any Engine, projects: [ProjectNumber], clock: () -> Instant
    ) throws {
        partitions = try engine.partitions().map { row in
            guard let taken = try PartitionTransfer.takeOver(row, by: session, of: engine) else {
                throw EngineError.fenced
            }
            return OwnedPartition(
                id: row.id, history: row.history, epoch: taken.epoch,
                next: try engine.lastSequence(row.id).next)
        }
        formerQuotas = try FormerQuotas.claim(from: engine, projects: projects, now: clock().wall)
        clockWitness = try ClockWitness.claim(from: engine, now: clock())
    }
}
