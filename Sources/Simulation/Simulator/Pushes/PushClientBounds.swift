import Model

/// The bounds of a simulated node's client for push services: those of `PushClientSettings`, but for times
/// that fit into a short run.
public struct PushClientBounds: Sendable {
    /// Requests under way at once, in all and to one origin, and requests that wait.
    public var allMax = 512
    public var perOriginMax = 100
    public var waitingMax = 65_536
    /// How long a request may wait before it leaves, and how long an answer may take then.
    public var waitMax: TimeSpan = .seconds(4)
    public var answerMax: TimeSpan = .seconds(4)
}
