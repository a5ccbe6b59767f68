import Dispatch
import Journal
import Synchronization

extension EngineThread {
    /// Runs `body` on the engine's thread and waits for it. Only for threads that may wait, at the start or
    /// the end of a node; never on a loop.
    public func wait<Value: Sendable>(
        _ body: @escaping @Sendable (any Engine) throws -> Value
    ) throws -> Value {
        let done = WaitBox<Value>()
        perform(body) { done.finish($0) }
        return try done.wait().get()
    }
}

/// Hands one value from one thread to another that waits for it.
private final class WaitBox<Value: Sendable>: Sendable {
    private let result = Mutex<Result<Value, any Error>?>(nil)
    private let isThere = DispatchSemaphore(value: 0)

    func finish(_ value: Result<Value, any Error>) {
        result.withLock { $0 = value }
        isThere.signal()
    }

    func wait() -> Result<Value, any Error> {
        while true {
            if let value = result.withLock({ $0 }) { return value }
            isThere.wait()
        }
    }
}
