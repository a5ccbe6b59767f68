import EngineContract
import Foundation
import Journal
import Model
import PostgresEngine

/// An engine on a database of its own.
func newEngine() throws -> PostgresEngine {
    try PostgresEngine(try Server.shared().makeDatabase())
}

/// The same, with a session on it.
func opened(
    partitions: Int = 2
) throws -> (database: String, engine: PostgresEngine, session: SessionID) {
    let database = try Server.shared().makeDatabase()
    let engine = try PostgresEngine(database)
    return (database, engine, try openSession(engine, partitions: partitions))
}

extension PostgresEngine.Options {
    /// For an engine that must wait for a lock until the test gives the lock up.
    static var patient: Self {
        var options = Self()
        options.lockMilliseconds = 60_000
        return options
    }
}

/// Tries for 5 s until `body` succeeds: a connection that has ended still counts for a moment.
func patiently<Result>(_ body: () throws -> Result) throws -> Result {
    for _ in 0..<100 {
        if let result = try? body() { return result }
        usleep(50_000)
    }
    return try body()
}

extension AppendOutcome {
    var isRefused: Bool { if case .refused = self { true } else { false } }
    var isUnknown: Bool { if case .unknown = self { true } else { false } }
}

/// Runs `body` on a thread of its own; `wait` returns its value or throws its error.
// Safe: `result` is touched only while `condition` is held.
final class Running<Value: Sendable>: @unchecked Sendable {
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
