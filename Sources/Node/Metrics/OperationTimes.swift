import Synchronization

/// One loop's histogram of the times from a request's last byte to its answer. No other loop writes to its
/// memory.
// Safe: the pointer is to memory that lives as long as the cell and is only reached through atomics.
final class OperationTimes: @unchecked Sendable {
    /// Upper bounds of the buckets in nanoseconds, 50 µs to 10 s; the last bucket has none.
    static let bounds: [UInt64] = [
        50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000, 25_000_000,
        50_000_000, 100_000_000, 250_000_000, 500_000_000, 1_000_000_000, 2_500_000_000, 10_000_000_000,
    ]
    /// One count for each bucket, and the sum.
    private static let count = bounds.count + 2
    private let values: UnsafeMutablePointer<Atomic<UInt64>>

    init() {
        values = .allocate(capacity: Self.count)
        for index in 0..<Self.count { (values + index).initialize(to: Atomic(0)) }
    }

    deinit {
        values.deinitialize(count: Self.count)
        values.deallocate()
    }

    /// For the only thread that writes: loads and stores.
    @inline(__always)
    func record(_ nanoseconds: UInt64) {
        var bucket = 0
        while bucket < Self.bounds.count, nanoseconds > Self.bounds[bucket] { bucket += 1 }
        let number = values[bucket].load(ordering: .relaxed)
        values[bucket].store(number &+ 1, ordering: .relaxed)
        let sum = values[Self.count - 1].load(ordering: .relaxed)
        values[Self.count - 1].store(sum &+ nanoseconds, ordering: .relaxed)
    }

    /// The histogram of all loops, in seconds.
    static func histogram(_ loops: [OperationTimes]) -> MetricHistogram {
        var all = [UInt64](repeating: 0, count: count)
        for loop in loops {
            for index in 0..<count { all[index] &+= loop.values[index].load(ordering: .relaxed) }
        }
        return MetricHistogram(
            bounds: bounds.map { Double($0) / 1e9 }, counts: all.dropLast(), sum: Double(all[count - 1]) / 1e9
        )
    }
}
