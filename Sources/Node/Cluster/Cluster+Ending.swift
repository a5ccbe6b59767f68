import NIOCore
import Synchronization

// How a node leaves its cluster, and in which order its threads end.

extension Cluster {
    /// Gives up all partitions. Returns when this is done, or when the time is over.
    func leave(within limit: TimeAmount) async {
        await withCheckedContinuation { (done: CheckedContinuation<Void, Never>) in
            let once = Once { done.resume() }
            eventLoop.execute { self.whenLeft.append { once.run() } }
            eventLoop.scheduleTask(in: limit) { once.run() }
            tellOwnership(.leave)
        }
    }

    /// Ends a node that has given everything up. First its session ends, so that no node waits for its lease;
    /// then gossip, and the threads that call the databases. The event loop goes on, because other threads
    /// may still call it.
    func end() async {
        tell(.end)
        let session = shared.session
        try? databaseConnections[0].control.wait { engine in try engine.fence(session) }
        try? await eventLoop.flatSubmit { self.socket.close() }.get()
        let away = current.away
        for connections in databaseConnections where !away.contains(connections.number) {
            if connections.number > 0 { connections.control.perform({ try $0.fence(session) }) { _ in } }
            connections.shutdown()
        }
    }

    /// Ends a node that failed to start and has taken nothing. Ends its session, so that no node waits for
    /// its lease.
    func abandon() {
        tell(.end)
        let session = shared.session
        try? databaseConnections[0].control.wait { engine in try engine.fence(session) }
        hasEnded.store(true, ordering: .releasing)
        _ = try? eventLoop.flatSubmit { self.socket.close() }.wait()
        for connections in databaseConnections { connections.shutdown() }
        try? group.syncShutdownGracefully()
    }

    /// Ends the event loop, last of all, when no other thread can call it any more.
    func endLoop() async {
        hasEnded.store(true, ordering: .releasing)
        try? await group.shutdownGracefully()
    }
}

/// Runs something at most once, on the thread that is first.
private final class Once: Sendable {
    private let body: Mutex<(@Sendable () -> Void)?>
    init(_ body: @escaping @Sendable () -> Void) { self.body = Mutex(body) }
    func run() { body.withLock { $0.take() }?() }
}
