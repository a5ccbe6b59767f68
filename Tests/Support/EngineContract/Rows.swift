import Journal
import Model

// Rows and sessions for tests of engines.

public func p(_ id: Int) -> PartitionID { PartitionID(UInt16(id)) }

public func body(of sequence: UInt64, partition: Int, bytes: Int) -> [UInt8] {
    var generator = SeededGenerator(seed: sequence &* 4096 &+ UInt64(partition))
    return (0..<bytes).map { _ in UInt8(truncatingIfNeeded: generator.next()) }
}

public func row(_ partition: Int, _ sequence: UInt64, bytes: Int = 100) throws -> Row {
    let header = RecordHeader(
        partition: p(partition), sequence: Sequence(sequence), epoch: Epoch(1), history: History(7))
    let payload = try RecordCodec.encode(
        header: header, body: body(of: sequence, partition: partition, bytes: bytes))
    return Row(partition: p(partition), sequence: Sequence(sequence), payload: payload)
}

/// Begins a session that owns partitions 0..<count, each with its barrier at 1.
public func openSession(_ engine: any Engine, partitions: Int = 2, node: String = "a") throws -> SessionID {
    try engine.createPartitions(count: partitions, histories: (0..<partitions).map { History(UInt64($0)) })
    let session = try engine.beginSession(node: node)
    for former in try engine.partitions() {
        let next = try engine.lastSequence(former.id).next
        let barrier = try row(Int(former.id.rawValue), next.rawValue, bytes: 0)
        guard try engine.takeOver(former.id, from: former, by: session, barrier: barrier) != nil else {
            throw EngineError.refused("lost the race for \(former.id)")
        }
    }
    return session
}

/// Why an engine did not do what `body` asks; empty if it did.
public func sentence(_ body: () throws -> Void) -> String {
    do {
        try body()
        return ""
    } catch EngineError.refused(let reason), EngineError.corrupt(let reason),
        EngineError.ioFailure(let reason)
    {
        return reason
    } catch {
        return "\(error)"
    }
}
