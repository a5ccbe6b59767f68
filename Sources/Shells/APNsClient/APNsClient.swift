import NIOCore
import NIOPosix
import PushScheduling
import Synchronization

/// An HTTP/2 client for Apple's push service (APNs), by libnghttp2 and OpenSSL, on its own thread.
///
/// Requests of one pool share connections. A connection carries one request at a time until the service has
/// shown that it takes the pool's token, then as many as the service allows at the moment. Connections stay
/// for hours. A request is sent again only if the service has surely not processed it.
public final class APNsClient: Sendable {
    private let onAnswer: @Sendable ([APNsResponse]) -> Void
    private let inbox = ClientInbox()
    private let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    private let loop: NIOLoopBoundBox<ClientLoop?>
    private let isJoined = Mutex(false)

    /// - Parameters:
    ///   - onAnswer: called on the client's thread with the answers of one turn, one or more.
    ///   - onNews: called on the client's thread with what an operator may want to know of a pool.
    public init(
        settings: APNsClientSettings = APNsClientSettings(),
        onAnswer: @escaping @Sendable ([APNsResponse]) -> Void,
        onNews: @escaping @Sendable (APNsPool, APNsNews) -> Void = { _, _ in }
    ) {
        self.onAnswer = onAnswer
        let eventLoop = group.next()
        loop = NIOLoopBoundBox.makeEmptyBox(valueType: ClientLoop.self, eventLoop: eventLoop)
        eventLoop.execute { [loop, inbox] in
            loop.value = ClientLoop(
                eventLoop, settings, inbox: inbox, onAnswer: onAnswer, onNews: onNews)
        }
    }

    /// Each request gets exactly one answer. After `stop`, `onAnswer` is called on the caller's thread.
    public func submit(_ requests: [APNsRequest]) {
        guard !requests.isEmpty else { return }
        guard !post({ $0.requests += requests }) else { return }
        let result = APNsResponse.Result.notSent(reason: "the client has stopped")
        onAnswer(requests.map { APNsResponse(number: $0.number, result: result) })
    }

    /// Gives up connections of a pool: they get no further request, finish what is under way, and are closed.
    /// The pool creates new ones when it has requests. For a changed key, and for answers that ask for a new
    /// connection (`APNsRemedy.newConnection`).
    ///
    /// - Parameter connection: the one connection to give up, from `APNsResponse.connection`, so that many
    ///   answers of one connection cost only that connection; `nil` for all.
    public func renew(_ pool: APNsPool, connection: APNsConnectionID? = nil) {
        _ = post { $0.renewals.append((pool, connection)) }
    }

    private func post(_ add: (inout ClientInbox.Mail) -> Void) -> Bool {
        switch inbox.post(add) {
        case .isFirst: group.next().execute { [loop] in loop.value?.schedule() }
        case .isExpected: break
        case .isRefused: return false
        }
        return true
    }

    /// Answers all requests that are not answered, closes all connections, and waits for the thread's end.
    /// `onAnswer` and `onNews` must never call this.
    public func stop() {
        isJoined.withLock { isJoined in
            guard !isJoined else { return }
            isJoined = true
            askToStop()
            // Only a second shutdown could fail.
            try? group.syncShutdownGracefully()
        }
    }

    private func askToStop() {
        guard inbox.stop() else { return }
        group.next().execute { [loop] in loop.value?.stop() }
    }

    deinit {
        guard isJoined.withLock({ !$0 }) else { return }
        askToStop()
        // The last reference may go away on the client's thread, which cannot wait for itself.
        group.shutdownGracefully { _ in }
    }
}
