import Model
import NIOCore
import Partitions
import Quotas
import Routing
import Synchronization

/// What loops, the engine's thread and the administrator say to a loop.
enum LoopMessage: Sendable {
    /// Anything but a request.
    case partition(PartitionID, PartitionEvent)
    case request(PartitionID, RequestID, Request, Mandate)
    case reply(RequestID, Reply)
    case stream(from: PartitionID, StreamFrame)
    /// The same from another process; believed only while it owns the partition.
    case peerStream(life: UInt32, from: PartitionID, StreamFrame)
    /// The journal is lost to this partition's machine: another is made from what is durable.
    case lost(PartitionID, mayHaveAppended: Bool, reason: String)
    /// From a spender to the owner of its project's buckets, and back.
    case quotaRequest(QuotaRequest)
    case quotaGrant(QuotaGrant)
    /// A send to one device passed the device's own limit.
    case quotaRefusal(RequestID, QuotaRefusal)
    case run(@Sendable (NodeLoop) -> Void)
}

/// A loop's inbox: many writers, one reader, which is woken once for all that has come since it last looked.
final class Mailbox: Sendable {
    private struct State {
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
        let mustWake = state.withLock { state in
            if state.isClosed { return false }
            state.messages.append(contentsOf: messages)
            defer { state.isAwake = true }
            return !state.isAwake
        }
        if mustWake { eventLoop.execute(wake) }
    }

    func post(_ message: LoopMessage) { post([message]) }

    /// Before the loop ends: what comes later is dropped.
    func close() { state.withLock { $0.isClosed = true } }

    /// Everything that has come. The next post wakes the loop again.
    func take() -> [LoopMessage] {
        state.withLock { state in
            state.isAwake = false
            var taken: [LoopMessage] = []
            swap(&taken, &state.messages)
            return taken
        }
    }
}
