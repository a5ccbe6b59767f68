import NIOCore

/// Every limit and deadline of the edge, with its default.
public struct EdgeConfiguration: Sendable {
    /// Streams that an HTTP/2 client may have open on one connection (`SETTINGS_MAX_CONCURRENT_STREAMS`).
    public var concurrentStreamsMax = 256
    /// Bytes of one request's header block: names, values and 32 for each field (RFC 9113 §10.5.1).
    public var headerBytesMax = 16 << 10
    public var headerFieldsMax = 100
    /// Bytes of a body that any request may have without the handler being asked.
    public var smallBodyBytes = 4 << 10
    /// Bytes of unfinished requests on one connection, and on all together: of their bodies, and over HTTP/2
    /// of their fields. Past it a request is answered 503.
    public var bodyBytesMax = 1 << 20
    public var bodyBytesOfAllMax = 256 << 20
    /// Bytes of unsent answers on one HTTP/2 connection, and on all together. At half of a connection's no
    /// new stream is begun; past either a long answer is replaced by a 503.
    public var answerBytesMax = 4 << 20
    public var answerBytesOfAllMax = 256 << 20
    /// Bytes of event streams that have waited for a second or two and that one connection alone keeps, and
    /// all together. Past it the streams that keep most are reset, or their connection closed.
    public var streamBytesMax = 4 << 20
    public var streamBytesOfAllMax = 256 << 20
    /// Bytes of an answer that is never replaced.
    public var smallAnswerBytes = 4 << 10
    /// The window of a whole HTTP/2 connection, in bytes.
    public var connectionWindow = 16 << 20
    /// Bytes that a connection may have written and not yet handed to the kernel; past it nothing more is
    /// produced. A stream that a burst reaches is behind the sooner the less it is.
    public var pendingBytesMax = 1 << 20
    /// The same on all connections whose clients do not read; past it such a connection is closed.
    public var pendingBytesOfAllMax = 256 << 20
    /// The kernel's send buffer for one connection.
    public var sendBufferBytes: Int32 = 256 << 10
    /// Seconds from a connection's beginning to its first whole header block, TLS included, and for the
    /// header block of each later request.
    public var handshakeSeconds = 10
    /// Seconds that a request may take to arrive once its header block has come.
    public var bodySeconds = 30
    /// Seconds that a connection may stay without an open request or stream.
    public var idleSeconds = 120
    /// Seconds for which a client may leave what was written to it unread, or hold the next 16 KiB of an
    /// answer back by its window.
    public var stuckSeconds = 60
    /// Seconds for which what a client still sends is read and thrown away behind a last answer: a
    /// connection that is closed while bytes of it are unread takes the answer with it (RFC 9112 §9.6).
    public var lingerSeconds = 2
    /// How requests that wait for their turn are told apart, and how many may wait.
    var fairness = FairQueue<Responder>.Bounds()
    public init() {}
}
