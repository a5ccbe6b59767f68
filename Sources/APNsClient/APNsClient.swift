import Synchronization

/// An HTTP/2 client for Apple's push service (APNs), by libnghttp2 and OpenSSL, on one thread of its own.
///
/// Requests of one pool share connections. A connection carries one request at once until the service has
/// shown that it takes the pool's token, then as many as the service allows at the moment. Connections stay
/// for hours. A request is sent again only where the service has surely not processed it.
public final class APNsClient: Sendable {
    private let onAnswer: @Sendable ([APNsResponse]) -> Void

    /// - Parameters:
    ///   - onAnswer: called on the client's thread with the answers of one turn, one or more.
    ///   - onNews: called on the client's thread with what an operator may want to know of a pool.
    public init(
        settings: APNsClientSettings = APNsClientSettings(),
        onAnswer: @escaping @Sendable ([APNsResponse]) -> Void,
        onNews: @escaping @Sendable (APNsPool, APNsNews) -> Void = { _, _ in }
    ) throws(APNsClientError) {
        self.onAnswer = onAnswer
    }

    /// Each request gets exactly one answer. After `stop`, `onAnswer` is called on the caller's thread.
    public func submit(_ requests: [APNsRequest]) {
        onAnswer(
            requests.map {
                APNsResponse(number: $0.number, result: .notSent(reason: "the client has stopped"))
            })
    }

    /// Gives up connections of a pool: they get no further request, finish what is under way, and are closed.
    /// The pool makes new ones when it has requests. For a changed key, and for answers that ask for a new
    /// connection (`APNsRemedy.newConnection`).
    ///
    /// - Parameter connection: the one connection to give up, from `APNsResponse.connection`, so that many
    ///   answers of one connection cost only that connection; `nil` for all.
    public func renew(_ pool: APNsPool, connection: APNsConnectionID? = nil) {}

    /// Answers all requests that are not answered, closes all connections, and waits for the thread's end.
    /// `onAnswer` must never call this.
    public func stop() {}
}
