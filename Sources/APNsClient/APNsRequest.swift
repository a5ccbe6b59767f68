/// What requests must have in common to share connections. Apple's service binds a connection to the team and
/// the key of its first request, so a pool has one of each.
public struct APNsPool: Hashable, Sendable {
    /// A name or an address.
    public var host: String
    public var port: Int
    /// The authorities, as PEM, that may sign the service's certificate; `nil` for those of the system.
    public var caPEM: String?
    /// Apple's ids of the team and of its key, 10 characters each.
    public var teamID: String
    public var keyID: String
    /// Tells keys apart that somebody gave the same id by mistake: the wrong one must not spoil the right
    /// one's connections.
    public var keyDigest: String

    public init(
        host: String, port: Int = 443, caPEM: String? = nil, teamID: String, keyID: String,
        keyDigest: String = ""
    ) {
        self.keyDigest = keyDigest
        self.host = host
        self.port = port
        self.caPEM = caPEM
        self.teamID = teamID
        self.keyID = keyID
    }

    /// The authorities are left out: they are long, and nearly always the same.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(host)
        hasher.combine(port)
        hasher.combine(teamID)
        hasher.combine(keyID)
    }
}

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
    /// that a request that waits has no stale signature. Runs again where the request is sent again, which
    /// the client does only where the service has surely not processed the request.
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

    public init(number: UInt64, result: Result, connection: APNsConnectionID? = nil) {
        self.number = number
        self.result = result
        self.connection = connection
    }
}

/// Names one connection of a client; never used twice.
public struct APNsConnectionID: Hashable, Sendable {
    let number: UInt64
    init(_ number: UInt64) { self.number = number }
}

/// What happened to a pool's connections, for an operator.
public enum APNsNews: Hashable, Sendable {
    /// A connection stands: TLS is done, and the service chose HTTP/2.
    case connected
    /// A connection could not be made. The next attempt comes after a time that grows.
    case unreachable(reason: String)
    /// A connection that stood has ended otherwise than by GOAWAY or by the client's own wish.
    case broke(reason: String)
    /// The service ends a connection in order (GOAWAY). `reason`: Apple's word, where the frame has one. Told
    /// once for a connection; a second time where only a later frame has the word.
    case goAway(reason: String?)
}
