import NIOCore
import NodeCore
import Synchronization

/// A loop's inbox: many writers, one reader, which is woken once for all that has come since it last looked.
final class Mailbox: Sendable {
    /// Something that the shell itself does on the loop: it concerns clients' requests, never the core.
    typealias Body = @Sendable (NodeLoop) -> Void
    private struct State {
        var bodies: [Body] = []
        var messages: [LoopMessage] = []
        var isAwake = false
        var isClosed = false
    }
    private let state = Mutex(State())
    private let eventLoop: any EventLoop
    private let wake: @Sendable () -> Void

    init(eventLoop: any EventLoop, wake: @escaping @Sendable () -> Void) {
        self.eventLoop = eventLoop
        self.wake = wake
    }

    func post(_ messages: [LoopMessage]) {
        guard !messages.isEmpty else { return }
        add { $0.messages.append(contentsOf: messages) }
    }

    func post(_ message: LoopMessage) { add { $0.messages.append(message) } }

    /// Runs on the loop, before the messages that come with the same wake-up.
    func run(_ body: @escaping Body) { add { $0.bodies.append(body) } }

    private func add(_ content: (inout State) -> Void) {
        let mustWake = state.withLock { state in
            if state.isClosed { return false }
            content(&state)
            defer { state.isAwake = true }
            return !state.isAwake
        }
        if mustWake { eventLoop.execute(wake) }
    }

    /// Before the loop ends: what comes later is dropped.
    func close() { state.withLock { $0.isClosed = true } }

    /// Everything that has come. The next post wakes the loop again.
    func take() -> (bodies: [Body], messages: [LoopMessage]) {
        state.withLock { state in
            state.isAwake = false
            var bodies: [Body] = []
            var messages: [LoopMessage] = []
            swap(&bodies, &state.bodies)
            swap(&messages, &state.messages)
            return (bodies, messages)
        }
    }
}
