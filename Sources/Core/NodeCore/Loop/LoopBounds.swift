import Model

/// The bounds of one loop's core, beside those of its router and of its partitions.
public struct LoopBounds: Hashable, Sendable {
    /// Bytes of messages past which a frame is full. One message has less than a quarter of what a connection
    /// takes.
    public var frameBytesTarget = 16 << 20
    /// The time until a loop asks again for what it could not hand over to a process, and sends that
    /// process a gap notice. A process that began a moment ago may ask before this node knows it, so the loop
    /// repeats the notice until the process gets one, for `gapNoticesFor` at most.
    public var unreachablePause: TimeSpan = .milliseconds(50)
    public var gapNoticesFor: TimeSpan = .seconds(10)
    /// The time until a loop attaches its streams again at a partition whose owner was not there.
    public var reattachPause: TimeSpan = .milliseconds(100)
    /// Bytes of waiting messages that a turn sends to another loop or process: at most one part in 32 of what
    /// a connection takes. After `readPause` streams that are left look for room again.
    public var readBytesAtOnce = 2 << 20
    public var readPause: TimeSpan = .milliseconds(10)
    /// The time until a loop asks the engine again for what the engine did not answer: bodies, the
    /// session, a partition.
    public var readRetry: TimeSpan = .milliseconds(500)
    public var confirmRetry: TimeSpan = .milliseconds(100)
    public var loadRetry: TimeSpan = .seconds(1)
    /// How often a damaged partition is read again before it is quarantined.
    public var damagedLoadsMax: UInt64 = 3

    /// The time between two witnesses of the clock that a node stores.
    static let witnessPause: TimeSpan = .seconds(3600)

    public init() {}

    var gapNoticesMax: Int { Int(gapNoticesFor / max(.nanoseconds(1), unreachablePause)) }
}
