import Foundation
import Journal
import Model
import PostgresEngine

func p(_ id: Int) -> PartitionID { PartitionID(UInt16(id)) }

func body(of sequence: UInt64, partition: Int, bytes: Int) -> [UInt8] {
    var generator = Splitmix(state: sequence &* 4096 &+ UInt64(partition))
    return (0..<bytes).map { _ in UInt8(truncatingIfNeeded: generator.next()) }
}

func row(_ partition: Int, _ sequence: UInt64, bytes: Int = 100) throws -> Row {
    let header = RecordHeader(
        partition: p(partition), sequence: Sequence(sequence), epoch: Epoch(1), history: History(7))
    let payload = try RecordCodec.encode(
        header: header, body: body(of: sequence, partition: partition, bytes: bytes))
    return Row(partition: p(partition), sequence: Sequence(sequence), payload: payload)
}

struct Splitmix: RandomNumberGenerator {
    var state: UInt64
    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var z = state
        z = (z ^ (z >> 30)) &* 0xbf58_476d_1ce4_e5b9
        z = (z ^ (z >> 27)) &* 0x94d0_49bb_1331_11eb
        return z ^ (z >> 31)
    }
}

/// A session that owns partitions 0..<count, each with its barrier at 1.
func begin(_ engine: any Engine, partitions: Int = 2, node: String = "a") throws -> SessionID {
    try engine.createPartitions(count: partitions, histories: (0..<partitions).map { History(UInt64($0)) })
    let session = try engine.beginSession(node: node)
    for former in try engine.partitions() {
        let next = try engine.lastSequence(former.id).next
        let barrier = try row(Int(former.id.rawValue), next.rawValue, bytes: 0)
        guard try engine.take(former.id, from: former, by: session, barrier: barrier) != nil else {
            throw EngineError.refused("lost the race for \(former.id)")
        }
    }
    return session
}

/// An engine on a database of its own.
func newEngine() throws -> PostgresEngine {
    try PostgresEngine(connection: try Server.shared().makeDatabase())
}

func sentence(_ body: () throws -> Void) -> String {
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

extension AppendOutcome {
    var isRefused: Bool { if case .refused = self { true } else { false } }
    var isUnknown: Bool { if case .unknown = self { true } else { false } }
}

/// Runs `body` on a thread of its own; `wait` gives back what came of it.
final class Running<Value: Sendable>: @unchecked Sendable {
    // Sound: `result` is touched only while `condition` is held.
    private let condition = NSCondition()
    private var result: Result<Value, any Error>?

    init(_ body: @escaping @Sendable () throws -> Value) {
        Thread.detachNewThread { [self] in
            let result = Result { try body() }
            condition.withLock {
                self.result = result
                condition.broadcast()
            }
        }
    }

    var isDone: Bool { condition.withLock { result != nil } }

    func wait() throws -> Value {
        try condition.withLock {
            while true {
                if let result { return try result.get() }
                condition.wait()
            }
        }
    }
}
