import Model
import NIOCore
import NodeCore
import Synchronization

/// A loop's inbox: many writers, and one reader that is woken once for everything since its last look.
final class Mailbox: Sendable {
    /// Work that the shell does on the loop, outside the messages of the core.
    typealias Body = @Sendable (NodeLoop) -> Void
    private struct State {
        var bodies: [Body] = []
        var inbox = LoopInbox()
        var isAwake = false
        var isClosed = false
    }
    private let state = Mutex(State())
    private let eventLoop: any EventLoop
    private let wake: @Sendable () -> Void
    private let level = Atomic<UInt8>(Pressure.none.rawValue)

    init(eventLoop: any EventLoop, wake: @escaping @Sendable () -> Void) {
        self.eventLoop = eventLoop
        self.wake = wake
    }

    func post(_ messages: [LoopMessage]) {
        guard !messages.isEmpty else { return }
        add { $0.inbox.post(messages) }
    }

    /// Moves the messages out of `batch`.
    func post(taking batch: inout LoopInbox.Batch) { add { $0.inbox.post(taking: &batch) } }

    func post(_ message: LoopMessage) { add { $0.inbox.post(message) } }

    /// Posts what a frame of another process has for the loop. False if the full inbox left it out.
    func post(_ messages: [LoopMessage], from processID: ProcessID) -> Bool {
        guard !messages.isEmpty else { return true }
        var isTaken = true
        add { isTaken = $0.inbox.post(messages, from: processID) }
        return isTaken
    }

    /// How far the loop is behind. From any thread.
    var pressure: Pressure { Pressure(rawValue: level.load(ordering: .relaxed)) ?? .none }

    /// Runs on the loop, before the messages that come with the same wake-up.
    func run(_ body: @escaping Body) { add { $0.bodies.append(body) } }

    private func add(_ content: (inout State) -> Void) {
        let mustWake = state.withLock { state in
            if state.isClosed { return false }
            content(&state)
            note(state.inbox.pressure)
            defer { state.isAwake = true }
            return !state.isAwake
        }
        if mustWake { eventLoop.execute(wake) }
    }

    /// Must run inside the lock, so that the newest pressure is the one that stays.
    private func note(_ pressure: Pressure) {
        if level.load(ordering: .relaxed) != pressure.rawValue {
            level.store(pressure.rawValue, ordering: .relaxed)
        }
    }

    /// Called before the loop ends. Later posts are dropped.
    func close() { state.withLock { $0.isClosed = true } }

    /// Takes everything that has come: the messages into `batch`, which must be empty. The next post wakes
    /// the loop again.
    func drain(into batch: inout LoopInbox.Batch) -> [Body] {
        state.withLock { state in
            state.isAwake = false
            var bodies: [Body] = []
            swap(&bodies, &state.bodies)
            state.inbox.drain(into: &batch)
            note(state.inbox.pressure)
            return bodies
        }
    }
}
