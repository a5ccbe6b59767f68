import Model

/// The bounds of one loop's core, beside those of its router and of its partitions.
public struct LoopBounds: Hashable, Sendable {
    /// Bytes of messages past which a frame is full. One message has less than a quarter of what a connection
    /// takes.
    public var frameBytesTarget = 16 << 20
    /// Nanoseconds until a loop asks again for what it could not hand over to a process, and sends that
    /// process a gap notice. A process that began a moment ago may ask before this node knows it, so the loop
    /// repeats the notice until the process gets one, for `gapNoticesFor` nanoseconds at most.
    public var unreachablePause: UInt64 = .milliseconds(50)
    public var gapNoticesFor: UInt64 = .seconds(10)
    /// Nanoseconds until a loop attaches its streams again at a partition whose owner was not there.
    public var reattachPause: UInt64 = .milliseconds(100)
    /// Nanoseconds until a loop asks the engine again for what the engine did not answer: bodies, the
    /// session, a partition.
    public var readRetry: UInt64 = .milliseconds(500)
    public var confirmRetry: UInt64 = .milliseconds(100)
    public var loadRetry: UInt64 = .seconds(1)
    /// How often a damaged partition is read again before it is quarantined.
    public var damagedLoadsMax: UInt64 = 3

    public init() {}

    var gapNoticesMax: Int { Int(gapNoticesFor / max(1, unreachablePause)) }
}
