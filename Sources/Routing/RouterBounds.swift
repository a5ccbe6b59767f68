import Model

/// The bounds of one gateway loop's router.
public struct RouterBounds: Hashable, Sendable {
    /// Nanoseconds that an operation may take. A request to another process has a second less
    /// (`Deadline.handoverMax`).
    public var deadline: UInt64 = .seconds(25)
    /// Nanoseconds within which deadlines count as one.
    public var deadlineStep: UInt64 = .milliseconds(250)
    /// Operations under way, past which new ones are refused.
    public var operationsMax = 65_536

    /// How many operations of one project and kind may wait for quota before new ones are refused, and after
    /// how many nanoseconds one is answered as unavailable: nothing of it has been done.
    public var quotaWaitersMax = 20_000
    public var quotaWaitMax: UInt64 = .seconds(10)

    /// Nanoseconds until the router asks again for a request whose partition has no owner, doubling from the
    /// first to the last.
    public var retryMin: UInt64 = .milliseconds(10)
    public var retryMax: UInt64 = .milliseconds(250)
    /// How many requests of a queue the router asks again in one go, and nanoseconds between two goes:
    /// however many wait, the loop has time for new requests.
    public var retriesAtOnce = 1024
    public var retryPause: UInt64 = .milliseconds(5)
    /// Nanoseconds of silence after which the router asks again; then it waits twice as long each time.
    public var silenceMin: UInt64 = .seconds(2)
    /// Nanoseconds between two looks for such requests.
    public var silenceStep: UInt64 = .seconds(1)

    public init() {}
}
