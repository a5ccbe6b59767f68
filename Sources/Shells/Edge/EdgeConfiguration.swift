/// Every limit and deadline of the edge, with its default.
public struct EdgeConfiguration: Sendable {
    /// Streams that an HTTP/2 client may have open on one connection (`SETTINGS_MAX_CONCURRENT_STREAMS`).
    public var concurrentStreamsMax = 256
    /// Bytes of one request's header block: names, values, and 32 for each field (RFC 9113 §10.5.1).
    public var headerBytesMax = 16 << 10
    public var headerFieldsMax = 100
    /// Bytes of a header block that cost a turn nothing beside the request. The bytes past them count as a
    /// body's bytes do.
    static let usualFieldBytes = 4 << 10
    /// Bytes of a body that any request may have. The edge asks the handler only about longer bodies.
    public var smallBodyBytes = 4 << 10
    /// Bytes of unfinished requests on one connection, and on all together: of bodies, and of the fields of
    /// requests that wait for their body. Past either bound the edge answers a request 503.
    public var bodyBytesMax = 1 << 20
    public var bodyBytesOfAllMax = 256 << 20
    /// Bytes of unsent answers on one HTTP/2 connection, and on all together, with the memory of the streams
    /// that wait for one. At half of a connection's bound, and when all together have no room for one more
    /// stream, the edge refuses new streams. Past either bound the edge answers 503 instead of a long answer.
    public var answerBytesMax = 4 << 20
    public var answerBytesOfAllMax = 256 << 20
    /// Bytes of event streams that have waited for 1 to 2 s and that only one stream keeps in memory: on one
    /// connection, and on all together. Past either bound the edge resets the HTTP/2 streams that keep most,
    /// or closes the HTTP/1.1 connection.
    public var streamBytesMax = 4 << 20
    public var streamBytesOfAllMax = 256 << 20
    /// About what an open HTTP/2 stream costs in memory, without its request and its answer.
    static let openStreamBytes = 1536
    /// An answer of up to so many bytes is never replaced by a 503.
    public var smallAnswerBytes = 4 << 10
    /// The window of a whole HTTP/2 connection, in bytes.
    public var connectionWindow = 16 << 20
    /// Bytes that a connection may have written and the kernel has not taken; past them the edge produces
    /// nothing more. The smaller this bound, the sooner a stream falls behind in a burst.
    public var pendingBytesMax = 1 << 20
    /// The same bytes on all connections whose clients do not read. Past the bound the edge closes such a
    /// connection.
    public var pendingBytesOfAllMax = 256 << 20
    /// Bytes of the kernel's send buffer for one connection.
    public var sendBufferBytes: Int32 = 256 << 10
    /// Seconds from the beginning of a connection, TLS included, to its first whole header block, or to the
    /// SETTINGS of HTTP/2. Also the seconds that each later header block may take.
    public var handshakeSeconds = 10
    /// Seconds for a whole request to arrive: over HTTP/1.1 from the end of its header block, over HTTP/2
    /// from the block's beginning.
    public var bodySeconds = 30
    /// Seconds that a connection may stay without an open request or stream.
    public var idleSeconds = 120
    /// Seconds for which a client may leave written bytes unread, or may keep the window closed for the next
    /// 16 KiB of an answer.
    public var stuckSeconds = 60
    /// Seconds for which the edge reads and discards what a client sends behind a last answer. A connection
    /// that is closed with unread bytes takes the answer with it (RFC 9112 §9.6).
    public var lingerSeconds = 2
    /// Bytes of one message that a client sends on a WebSocket, and frames over which the message may come.
    public var socketMessageBytesMax = 16 << 10
    public var socketFramesMax = 8
    /// Seconds without a frame of the client after which the server sends a PING on a WebSocket. Proxies cut
    /// a silent connection off: HAProxy after the 30 s of `deploy/balancer.cfg`, nginx after 60 s by default.
    /// `socketPongSeconds` later the server closes the WebSocket of a client that has not answered.
    public var socketPingSeconds = 25
    public var socketPongSeconds = 60
    /// The bounds of the lines in which requests wait for their turn.
    var fairness = FairQueue<Responder>.Bounds()
    #if DEBUG
        /// A planted bug: a request becomes a WebSocket though a tab behind `upgrade` lets the parser go on
        /// with HTTP.
        var plantedLooseUpgrade = false
    #endif
    public init() {}
}
