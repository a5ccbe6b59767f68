import PushScheduling

/// One notification for Apple's service: a POST.
public struct APNsRequest: Sendable {
    /// Lower-case names, without HTTP/2's own (`:path` and the like), and 1 to
    /// `APNsClientSettings.sentBodyBytesMax` bytes of body.
    public typealias Content = (fields: [(name: String, value: String)], body: [UInt8])

    /// The caller's own number of the request; the answer has it again.
    public var number: UInt64
    public var pool: APNsPool
    /// `/3/device/` and the device's token in hexadecimal. No compression table gets the path.
    public var path: String
    /// Makes the header fields and the body. Runs on the client's thread just before the request leaves, so
    /// that a request that waits has no stale signature. Runs again if the request is sent again, which the
    /// client does only if the service has surely not processed the request.
    public var prepare: @Sendable () throws -> Content

    public init(
        number: UInt64, pool: APNsPool, path: String, prepare: @escaping @Sendable () throws -> Content
    ) {
        self.number = number
        self.pool = pool
        self.path = path
        self.prepare = prepare
    }
}

/// The outcome of one request. Each submitted request has exactly one.
public struct APNsResponse: Sendable {
    public enum Result: Sendable {
        /// The service sent a whole final header block. `fields` have lower-case names and at most
        /// `APNsClientSettings.answerFieldBytesMax` bytes in all; `body` is the beginning, at most
        /// `APNsClientSettings.answerBodyBytesMax` bytes, and may be cut.
        case answered(status: Int, fields: [(name: String, value: String)], body: [UInt8])
        /// `prepare` threw this, or gave what HTTP does not allow. Nothing was sent.
        case notPrepared(any Error)
        /// The service has surely not processed the request: no connection, too long a wait, a full line, a
        /// stream that the service refused (REFUSED_STREAM, or above a GOAWAY's last stream).
        case notSent(reason: String)
        /// There is no answer, and the notification may have arrived: a broken connection, a stream that the
        /// service reset, a bound in time.
        case failed(reason: String)
    }

    public var number: UInt64
    public var result: Result
    /// The connection that the service answered on, for `APNsClient.renew`; `nil` without an answer.
    public var connection: APNsConnectionID?
}

/// What keeps a request from being sent.
struct APNsClientError: Error, CustomStringConvertible {
    var description: String
}
