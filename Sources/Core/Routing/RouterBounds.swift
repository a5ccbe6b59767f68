import Model

/// The bounds of one gateway loop's router.
public struct RouterBounds: Hashable, Sendable {
    /// How long an operation may take. A request to another process has a second less
    /// (`Deadline.handoverMax`).
    public var deadline: TimeSpan = .seconds(25)
    /// The time within which deadlines count as one.
    public var deadlineStep: TimeSpan = .milliseconds(250)
    /// Operations under way, past which new ones are refused.
    public var operationsMax = 65_536

    /// How many operations of one project and kind may wait for quota before new ones are refused, and after
    /// how long one is answered as unavailable: nothing of it has been done.
    public var quotaWaitersMax = 20_000
    public var quotaWaitMax: TimeSpan = .seconds(10)

    /// The time until the router asks again for a request whose partition has no owner, doubling from the
    /// first to the last.
    public var retryMin: TimeSpan = .milliseconds(10)
    public var retryMax: TimeSpan = .milliseconds(250)
    /// How many requests of a queue the router asks again in one go, and the time between two goes:
    /// however many wait, the loop has time for new requests.
    public var retriesAtOnce = 1024
    public var retryPause: TimeSpan = .milliseconds(5)
    /// After this long a silence the router asks again; then it waits twice as long each time.
    public var silenceMin: TimeSpan = .seconds(2)
    /// The time between two looks for such requests.
    public var silenceStep: TimeSpan = .seconds(1)

    public init() {}
}
