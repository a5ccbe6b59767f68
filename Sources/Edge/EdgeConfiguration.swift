import NIOCore

/// Every limit and deadline of the edge, with its default.
public struct EdgeConfiguration: Sendable {
    /// Streams that an HTTP/2 client may have open on one connection (`SETTINGS_MAX_CONCURRENT_STREAMS`).
    public var concurrentStreamsMax = 256
    /// Bytes of one request's header block: names, values and 32 for each field (RFC 9113 §10.5.1).
    public var headerBytesMax = 16 << 10
    public var headerFieldsMax = 100
    public var bodyBytesMax = 4 << 20
    /// The window of a whole HTTP/2 connection, in bytes.
    public var connectionWindow = 16 << 20
    /// Bytes that a connection may have written and not yet handed to the kernel; past it nothing more is
    /// produced.
    public var pendingBytesMax = 1 << 20
    /// The kernel's send buffer for one connection.
    public var sendBufferBytes: Int32 = 256 << 10
    /// Seconds from a connection's beginning to its first whole header block, TLS included.
    public var handshakeSeconds = 10
    /// Seconds that a request may take to arrive once its header block has come.
    public var bodySeconds = 30
    /// Seconds that a connection may stay without an open request or stream.
    public var idleSeconds = 120
    /// Seconds for which a client may leave what was written to it unread.
    public var stuckSeconds = 60
    public init() {}
}
