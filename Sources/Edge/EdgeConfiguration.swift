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
    /// Bytes that a connection may have written and not yet handed to the kernel; past it nothing more is produced.
    public var pendingBytesMax = 1 << 20
    /// The kernel's send buffer for one connection.
    public var sendBufferBytes: Int32 = 256 << 10
    /// From the connection's first byte to the first whole request.
    public var handshakeDeadline: TimeAmount = .seconds(10)
    /// A connection without open requests or streams.
    public var idleDeadline: TimeAmount = .seconds(120)
    public init() {}
}
