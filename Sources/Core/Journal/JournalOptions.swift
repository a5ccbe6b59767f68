import Model

/// The bounds of a node's journals: of one session's appends, and of the thread that carries them out.
public struct JournalOptions: Hashable, Sendable {
    /// Rows and bytes of one transaction; a longer row goes alone.
    public var batchRowsMax = 256
    public var batchBytesMax = 8 << 20
    /// Rows and bytes that may wait. Rows past either bound wait as well, because their partitions have
    /// folded the facts already. The appender notifies these partitions, and they begin nothing new until the
    /// rows are in.
    public var waitingRowsMax = 65_536
    public var waitingBytesMax = 256 << 20
    /// How long refused rows wait before they are tried again, doubling from the first to the last.
    public var retryMin: TimeSpan = .milliseconds(50)
    public var retryMax: TimeSpan = .seconds(2)
    /// If the engine has accepted other rows meanwhile, the next try comes this long after the last one.
    public var retrySoon: TimeSpan = .milliseconds(250)

    /// Small jobs that run between two appends.
    public var jobsMax = 4
    /// How long to pause after a lost answer before the next try, doubling from the first to the last.
    public var pauseMin: TimeSpan = .milliseconds(10)
    public var pauseMax: TimeSpan = .milliseconds(500)

    public init() {}
}
