/// One POST to a push service.
public struct PushHTTPRequest: Sendable {
    /// The caller's own number of the request; the answer has it again.
    public var number: UInt64
    /// Whose request this is, by any number: requests of one share leave slots to those of others.
    public var share: UInt64
    /// An absolute URL of the scheme `https`, without user information. The path is sent unchanged.
    public var url: String
    /// The authorities, as PEM, that may sign the service's certificate; `nil` for those of the system.
    public var caPEM: String?
    /// Whether the request may go to this address: 4 or 16 bytes in network order. The client asks for each
    /// address that it is about to connect to, and again before the request leaves, on a connection that was
    /// open already too. So a name that resolves to another address later changes nothing.
    public var mayDial: @Sendable ([UInt8]) -> Bool
    /// Throws if the request must not leave any more. The client asks when a connection is ready, just before
    /// the request goes out on it: making a connection may have taken long.
    public var mayLeave: @Sendable () throws -> Void
    /// Makes the header fields and the body. Runs on the client's thread when the request's turn has come,
    /// before a connection is looked for: encryption and signing happen there, and a request that waits in
    /// line has no stale signature.
    ///
    /// The body has 1 to `PushClientSettings.sentBytesMax` bytes. The client sets `content-length` and the
    /// fields of the connection itself.
    public var prepare: @Sendable () throws -> (fields: [(String, String)], body: [UInt8])

    public init(
        number: UInt64, share: UInt64 = 0, url: String, caPEM: String? = nil,
        mayDial: @escaping @Sendable ([UInt8]) -> Bool,
        mayLeave: @escaping @Sendable () throws -> Void = {},
        prepare: @escaping @Sendable () throws -> (fields: [(String, String)], body: [UInt8])
    ) {
        self.number = number
        self.share = share
        self.url = url
        self.caPEM = caPEM
        self.mayDial = mayDial
        self.mayLeave = mayLeave
        self.prepare = prepare
    }
}

/// The outcome of one request. Each submitted request has exactly one.
public struct PushHTTPAnswer: Sendable {
    public enum Result: Sendable {
        /// The service sent a whole final header block. A redirect is an answer like each other. `fields`
        /// have lower-case names and at most `PushClientSettings.answerFieldBytesMax` bytes in all; `body`
        /// is the beginning, at most `PushClientSettings.answerBodyBytesMax` bytes, and may be cut.
        case answered(status: Int, fields: [(name: String, value: String)], body: [UInt8])
        /// `prepare` or `mayLeave` threw this, or `prepare` gave what HTTP does not allow. Nothing was sent.
        case notPrepared(any Error)
        /// Too many requests waited, the request waited for too long, or the client stopped. Nothing was
        /// sent, which is no evidence about the service.
        case notTried(reason: String)
        /// No answer: a refused address, a name without an address, TLS, a bound in time, a broken
        /// connection. `mayHaveArrived` is false only if the service cannot have got the whole request. The
        /// client sends no request twice.
        case failed(reason: String, mayHaveArrived: Bool)
    }

    public var number: UInt64
    public var result: Result
}
