import Foundation

/// Runs a completion of the app on the main thread.
func onMain(_ body: @escaping @MainActor @Sendable () -> Void) {
    DispatchQueue.main.async { MainActor.assumeIsolated(body) }
}

func result(of error: MessagingError?) -> Result<Void, any Error> {
    error.map { .failure($0) } ?? .success(())
}

/// Waits for an answer. If the task is cancelled, the waiting ends with `CancellationError`.
func settled<Value: Sendable>(
    _ ask: (@escaping @Sendable (Result<Value, any Error>) -> Void) -> Void
) async throws -> Value {
    let box = AnswerBox<Value>()
    return try await withTaskCancellationHandler {
        try await withCheckedThrowingContinuation { continuation in
            box.wait(continuation)
            ask { box.answer($0) }
        }
    } onCancel: {
        box.answer(.failure(CancellationError()))
    }
}

/// Gives a continuation the first of several answers, also one that came before the continuation.
private final class AnswerBox<Value: Sendable>: @unchecked Sendable {  // Safe, because `lock` guards all.
    private let lock = NSLock()
    private var continuation: CheckedContinuation<Value, any Error>?
    private var early: Result<Value, any Error>?
    private var isAnswered = false

    func wait(_ continuation: CheckedContinuation<Value, any Error>) {
        let answer = lock.withLock {
            if early == nil { self.continuation = continuation }
            return early
        }
        if let answer { continuation.resume(with: answer) }
    }

    func answer(_ result: Result<Value, any Error>) {
        let waiting: CheckedContinuation<Value, any Error>? = lock.withLock {
            guard !isAnswered else { return nil }
            isAnswered = true
            if continuation == nil { early = result }
            defer { continuation = nil }
            return continuation
        }
        waiting?.resume(with: result)
    }
}

/// The app's client, created once.
final class AppClient: @unchecked Sendable {  // Safe, because `lock` guards the only variable.
    static let shared = AppClient()
    private let lock = NSLock()
    private var made: Messaging?

    var messaging: Messaging? { lock.withLock { made } }

    func set(_ make: () throws -> Messaging) throws {
        try lock.withLock {
            guard made == nil else {
                throw MessagingError(.operationInProgress, "The app has configured its client already.")
            }
            made = try make()
        }
    }
}

/// A client that does not live for this reference.
final class Weak: @unchecked Sendable {  // Safe, because `lock` guards the only variable.
    private let lock = NSLock()
    private weak var value: Messaging?

    var object: Messaging? { lock.withLock { value } }
    func set(_ object: Messaging) { lock.withLock { value = object } }
}

extension MessagingError {
    static func topicName(_ text: String) -> MessagingError {
        MessagingError(
            .invalidTopicName,
            "\"\(text.prefix(100))\" is no topic: 1 to 900 characters of a-z, A-Z, 0-9, - _ . ~ and %.")
    }
}

extension Data {
    /// The bytes of a hexadecimal text; a digit that is none ends them.
    init(hexadecimal text: String) {
        self.init()
        var rest = text.utf8.map { Character(UnicodeScalar($0)).hexDigitValue }[...]
        while rest.count >= 2, let high = rest.removeFirst(), let low = rest.removeFirst() {
            append(UInt8(high << 4 | low))
        }
    }
}
