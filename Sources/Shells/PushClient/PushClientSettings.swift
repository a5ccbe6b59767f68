/// The bounds of a `PushClient`.
public struct PushClientSettings: Sendable {
    /// Requests under way at once, in all and to one origin (host and port). More wait: projects and their
    /// origins take turns, and leave slots to others.
    public var transfersMax = 512
    public var transfersPerOriginMax = 100
    /// Requests that wait. Each further request is answered immediately: not tried.
    public var waitingMax = 65_536
    /// How long a request may wait before it leaves, in ms. Then it is answered: not tried.
    public var waitMilliseconds = 30_000
    /// Connections, in all and to one origin. Requests to a service with HTTP/1.1 take one each, so that
    /// fewer connections than requests would make requests wait inside libcurl, as if their service were
    /// slow.
    public var connectionsMax = 512
    public var connectionsPerOriginMax = 8
    /// How long a connection may take, with name and TLS, in ms.
    public var connectMilliseconds = 10_000
    /// How long a request may take from when it leaves to the end of its answer, in ms.
    public var totalMilliseconds = 30_000
    /// How long the client waits for the rest of an answer whose header block is there, in ms. Then it gives
    /// the answer with the part of the body that came.
    public var answerRestMilliseconds = 1_000
    /// A connection that had no request for this time, in s, is used no more. When the client has had no
    /// request for this time, it closes all connections.
    public var idleSeconds = 3_600
    /// Bytes of a request's body.
    public var sentBytesMax = 64 << 10
    /// Bytes that the client keeps of an answer: its body, and the names and values of its fields.
    public var answerBodyBytesMax = 4 << 10
    public var answerFieldBytesMax = 16 << 10

    public init() {}
}

/// A client could not be created.
public struct PushClientError: Error, CustomStringConvertible {
    public var description: String
}
