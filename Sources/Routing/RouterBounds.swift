import Model

/// The bounds of one gateway loop's router.
public struct RouterBounds: Hashable, Sendable {
    /// Nanoseconds that an operation may take. Its request loses a second of them on the way
    /// (`Deadline.handoverMax`).
    public var deadline: UInt64 = .seconds(25)
    /// Deadlines this close together are looked at together.
    public var deadlineStep: UInt64 = .milliseconds(250)
    /// Operations under way, past which new ones are refused.
    public var operationsMax = 65_536

    /// Operations of one project and kind that wait for quota, past which new ones are refused, and
    /// nanoseconds after which one is answered as unavailable: nothing of it has been done.
    public var quotaWaitersMax = 20_000
    public var quotaWaitMax: UInt64 = .seconds(10)

    /// Nanoseconds until a request whose partition has no owner is asked again, doubling from the first to
    /// the last.
    public var retryMin: UInt64 = .milliseconds(10)
    public var retryMax: UInt64 = .milliseconds(250)
    /// Requests that are asked again in one go, and nanoseconds between two: however many wait, asking again
    /// leaves time for what is new.
    public var retriesAtOnce = 1024
    public var retryPause: UInt64 = .milliseconds(5)
    /// Nanoseconds after which a request that nothing was heard of is asked again; then twice as long.
    public var silenceMin: UInt64 = .seconds(2)
    /// Nanoseconds between two looks for such requests.
    public var silenceStep: UInt64 = .seconds(1)

    public init() {}
}
