import Model

/// The bounds of a node's journals: of one session's appends, and of the thread that carries them out.
public struct JournalOptions: Hashable, Sendable {
    /// Rows and bytes of one transaction; a row that is longer goes alone.
    public var batchRowsMax = 256
    public var batchBytesMax = 8 << 20
    /// Rows and bytes that wait. Rows past either wait as well, since what made them was folded in already;
    /// their partitions are told, and begin nothing new until those are in.
    public var waitingRowsMax = 65_536
    public var waitingBytesMax = 256 << 20
    /// Nanoseconds until what the engine refused is tried again, doubling from the first to the last.
    public var retryMin: UInt64 = .milliseconds(50)
    public var retryMax: UInt64 = .seconds(2)
    /// Where the engine has taken something else, the next try is this long after the last one.
    public var retrySoon: UInt64 = .milliseconds(250)

    /// Small jobs that run between two appends.
    public var jobsMax = 4
    /// Pauses before a lost answer is followed up, doubling from the first to the last.
    public var pauseMin: UInt64 = .milliseconds(10)
    public var pauseMax: UInt64 = .milliseconds(500)

    public init() {}
}
