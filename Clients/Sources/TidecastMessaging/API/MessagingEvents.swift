/// What a listening app receives: see `Messaging.events`.
public struct MessagingEvents: AsyncSequence, Sendable {
    public typealias Element = MessagingEvent
    let client: Messaging

    public func makeAsyncIterator() -> Iterator { Iterator(listener: Listener(client)) }

    public struct Iterator: AsyncIteratorProtocol {
        let listener: Listener

        /// The next event. The last one counts as handled. `nil` if the task is cancelled, another loop
        /// has begun, or another process has taken the stream over.
        public mutating func next() async -> MessagingEvent? { await listener.next() }
    }
}

/// The messages of `MessagingEvents`: see `Messaging.messages`.
public struct MessagingMessages: AsyncSequence, Sendable {
    public typealias Element = RemoteMessage
    let client: Messaging

    public func makeAsyncIterator() -> Iterator { Iterator(listener: Listener(client)) }

    public struct Iterator: AsyncIteratorProtocol {
        let listener: Listener

        /// The next message. The last one counts as handled.
        public mutating func next() async -> RemoteMessage? {
            while let event = await listener.next() {
                if case .message(let message) = event { return message }
            }
            return nil
        }
    }
}

/// A loop over events. The client closes the stream when the loop is gone.
final class Listener: Sendable {
    /// A client lives as long as a loop over its events.
    private let client: Messaging
    private let number: UInt64
    private var engine: Engine { client.engine }

    init(_ client: Messaging) {
        self.client = client
        number = client.engine.listen()
    }

    deinit { engine.stopListening(number) }

    func next() async -> MessagingEvent? {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                engine.pull(number) { continuation.resume(returning: $0) }
            }
        } onCancel: {
            engine.stopListening(number)
        }
    }
}
