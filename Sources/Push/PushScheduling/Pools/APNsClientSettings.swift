import Model

/// The bounds of an `APNsClient`.
public struct APNsClientSettings: Hashable, Sendable {
    // MARK: Requests

    /// Requests that wait, of all pools together. Each further request is answered immediately: not sent.
    public var waitingMax = 65_536
    /// How long after its submission a request may leave. Then it is answered: not sent.
    public var waitMax: TimeSpan = .seconds(30)
    /// How long the service may take to answer, from when the request leaves.
    public var answerMax: TimeSpan = .seconds(30)
    /// How often a request may leave, if the service refuses its streams.
    public var triesMax = 5
    /// Requests that are prepared between two turns of the event loop.
    public var begunAtOnceMax = 32

    // MARK: Connections

    /// Requests under way at once on a connection, if the service allows more.
    public var streamsMax = 500
    /// Connections of one pool that take requests. As many again may be finishing theirs.
    public var connectionsPerPoolMax = 4
    /// Connections of all pools, and how many of these may be in the making. The second half is for pools
    /// that have none.
    public var connectionsMax = 256
    public var connectingMax = 16
    /// How long a connection may take, with name and TLS.
    public var connectMax: TimeSpan = .seconds(10)
    /// A pool makes a further connection if a request has waited for so long, and all streams of its
    /// connections are taken.
    public var loadWait: TimeSpan = .milliseconds(500)
    /// The shortest time between two connections of a pool.
    public var connectSpacing: TimeSpan = .seconds(1)
    /// How long the pool waits after a connection that failed: a random time up to twice the previous one,
    /// between these. Apple takes repeated opening and closing for an attack.
    public var backoffMin: TimeSpan = .seconds(1)
    public var backoffMax: TimeSpan = .seconds(300)
    /// A connection that ends before this age counts as failed, unless it has answered so many requests.
    public var stableAfter: TimeSpan = .seconds(60)
    public var stableAnswers = 500
    /// How long a connection that refused a stream gets no new one, doubled while it goes on refusing, and at
    /// most.
    public var refusedPauseMin: TimeSpan = .milliseconds(100)
    public var refusedPauseMax: TimeSpan = .seconds(5)
    /// Requests in a row without an answer after which a connection is given up.
    public var unansweredMax = 3
    /// The client asks (PING) after so long without a byte from the service: while requests are under way,
    /// and while none is. 0 for never.
    public var busyPing: TimeSpan = .seconds(10)
    public var idlePing: TimeSpan = .seconds(600)
    /// How long the service may take until it sends anything after a PING. Then the connection is dead.
    public var pingMax: TimeSpan = .seconds(10)
    /// A connection without requests for this time is closed. Apple wants connections that stay for hours.
    public var idleMax: TimeSpan = .seconds(8 * 3600)

    // MARK: Bytes

    /// Bytes of a request's body, and of its path with the names and values of its fields.
    public var sentBodyBytesMax = 16 << 10
    public var sentFieldBytesMax = 8 << 10
    /// Bytes that the client keeps of an answer: its body, and the names and values of its fields.
    public var answerBodyBytesMax = 4 << 10
    public var answerFieldBytesMax = 8 << 10
    /// Frames that the service may send beyond what its answers need: in a burst, for each request, and in
    /// each second. Past this it floods, and the connection is ended.
    public var framesAtOnce = 1_000
    public var framesPerRequest = 20
    public var framesPerSecond = 100

    public init() {}
}
