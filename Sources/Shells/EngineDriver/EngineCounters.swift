import Model
import Synchronization

/// What an engine's thread has done since it began.
public struct EngineCounters: Sendable, Hashable {
    /// Upper bounds of the buckets of commit times; the last bucket has none.
    public static let timeBounds: [TimeSpan] =
        [100, 250, 500].map(TimeSpan.microseconds)
        + [1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500].map(TimeSpan.milliseconds)
    /// Upper bounds of the buckets of rows in a batch; the last bucket has none.
    public static let batchBounds: [Int] = [1, 2, 4, 8, 16, 32, 64, 128, 256]

    /// Appends that were acknowledged, rows and bytes of payload in them.
    public var commits: UInt64 = 0
    public var rows: UInt64 = 0
    public var bytes: UInt64 = 0
    public var refused: UInt64 = 0
    public var unknown: UInt64 = 0
    public var jobs: UInt64 = 0
    /// Sum of all commits' times.
    public var commitTime = TimeSpan.zero
    public var commitTimes = [UInt64](repeating: 0, count: EngineCounters.timeBounds.count + 1)
    public var batchSizes = [UInt64](repeating: 0, count: EngineCounters.batchBounds.count + 1)

    mutating func count(rows: Int, bytes: Int, time: TimeSpan) {
        commits += 1
        self.rows += UInt64(rows)
        self.bytes += UInt64(bytes)
        commitTime += time
        let times = EngineCounters.timeBounds
        let sizes = EngineCounters.batchBounds
        commitTimes[times.firstIndex { time <= $0 } ?? times.count] += 1
        batchSizes[sizes.firstIndex { rows <= $0 } ?? sizes.count] += 1
    }
}

extension EngineCounters {
    /// Nothing done yet.
    public static let none = EngineCounters()

    /// Adds what another thread has done.
    public mutating func add(_ other: EngineCounters) {
        commits += other.commits
        rows += other.rows
        bytes += other.bytes
        refused += other.refused
        unknown += other.unknown
        jobs += other.jobs
        commitTime += other.commitTime
        for (index, count) in other.commitTimes.enumerated() { commitTimes[index] += count }
        for (index, count) in other.batchSizes.enumerated() { batchSizes[index] += count }
    }
}

/// The counters, written by the thread and read by any other.
final class Tally: Sendable {
    let counters = Mutex(EngineCounters())
}
