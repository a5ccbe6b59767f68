import Synchronization

// Instruments that are cheap to count with. An instrument has one or several cells. A loop takes a cell of
// its own once; it then adds to that cell without a lock, and no other loop writes to the same cache line. A
// scrape sums the cells.

/// One number of one writer; several writers must use `add`.
public final class CounterCell: Sendable {
    private let value = Atomic<UInt64>(0)
    // A cell fills a cache line, so that the cells of two loops do not share one.
    private let padding = (UInt64(0), UInt64(0), UInt64(0), UInt64(0), UInt64(0))

    init() {}

    /// For the only thread that writes this cell: a load and a store.
    @inline(__always)
    public func increment(by count: UInt64 = 1) {
        value.store(value.load(ordering: .relaxed) &+ count, ordering: .relaxed)
    }

    /// For any thread.
    public func add(_ count: UInt64 = 1) { value.wrappingAdd(count, ordering: .relaxed) }

    func load() -> UInt64 { value.load(ordering: .relaxed) }
}

/// A number that only rises.
public final class MetricCounter: Sendable {
    /// For writers without a cell of their own.
    public let shared = CounterCell()
    private let cells = Mutex<[CounterCell]>([])

    init() {}

    /// A cell for one writer, for as long as the process lives. Take it once, not for each event.
    public func cell() -> CounterCell {
        let cell = CounterCell()
        cells.withLock { $0.append(cell) }
        return cell
    }

    public func add(_ count: UInt64 = 1) { shared.add(count) }

    public var value: UInt64 { cells.withLock { $0.reduce(shared.load()) { $0 &+ $1.load() } } }
}

/// A number that rises and falls.
public final class MetricGauge: Sendable {
    /// A Double's bits.
    private let bits = Atomic<UInt64>(0)

    init() {}

    public var value: Double { Double(bitPattern: bits.load(ordering: .relaxed)) }
    public func set(_ value: Double) { bits.store(value.bitPattern, ordering: .relaxed) }
    public func set(_ value: some BinaryInteger) { set(Double(value)) }

    public func add(_ change: Double) {
        var old = bits.load(ordering: .relaxed)
        while true {
            let new = (Double(bitPattern: old) + change).bitPattern
            let (exchanged, current) = bits.weakCompareExchange(
                expected: old, desired: new, ordering: .relaxed)
            if exchanged { return }
            old = current
        }
    }
}

/// The ends of a histogram's buckets, and the unit in which a scrape shows them.
public struct HistogramScale: Hashable, Sendable {
    /// Rising, in the unit that is observed; at most `boundCountMax`.
    public var bounds: [UInt64]
    /// How many observed units make one shown unit: 10⁹ for nanoseconds shown as seconds.
    public var divisor: UInt64

    public static let boundCountMax = 64

    /// `nil` where the bounds do not rise or are too many.
    public init?(bounds: [UInt64], divisor: UInt64) {
        guard divisor > 0, !bounds.isEmpty, bounds.count <= HistogramScale.boundCountMax,
            zip(bounds, bounds.dropFirst()).allSatisfy({ $0 < $1 })
        else { return nil }
        self.bounds = bounds
        self.divisor = divisor
    }

    private init(rising bounds: [UInt64], divisor: UInt64) {
        self.bounds = bounds
        self.divisor = divisor
    }

    /// Nanoseconds, shown in seconds: 50 µs to 10 s.
    public static let seconds = HistogramScale(
        rising: [
            50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000, 25_000_000,
            50_000_000, 100_000_000, 250_000_000, 500_000_000, 1_000_000_000, 2_500_000_000, 10_000_000_000,
        ], divisor: 1_000_000_000)

    /// Counts: 1 to 65,536 by powers of four, and 1,048,576.
    public static let counts = HistogramScale(
        rising: [1, 4, 16, 64, 256, 1024, 4096, 16_384, 65_536, 1_048_576], divisor: 1)

    /// Bytes: 64 to 16 MiB by powers of four.
    public static let bytes = HistogramScale(
        rising: [64, 256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216], divisor: 1)
}

/// One writer's part of a histogram.
// Safe: the pointer is to memory that lives as long as the cell and is only reached through atomics.
public final class HistogramCell: @unchecked Sendable {
    private let bounds: [UInt64]
    /// One count for each bound, one for values beyond all bounds, and the sum.
    private let values: UnsafeMutablePointer<Atomic<UInt64>>
    private let count: Int

    init(_ scale: HistogramScale) {
        bounds = scale.bounds
        count = bounds.count + 2
        values = .allocate(capacity: count)
        for index in 0..<count { (values + index).initialize(to: Atomic(0)) }
    }

    deinit {
        values.deinitialize(count: count)
        values.deallocate()
    }

    /// For any thread.
    public func observe(_ value: UInt64) {
        var bucket = 0
        while bucket < bounds.count, value > bounds[bucket] { bucket += 1 }
        values[bucket].wrappingAdd(1, ordering: .relaxed)
        values[count - 1].wrappingAdd(value, ordering: .relaxed)
    }

    /// For the only thread that writes this cell.
    @inline(__always)
    public func record(_ value: UInt64) {
        var bucket = 0
        while bucket < bounds.count, value > bounds[bucket] { bucket += 1 }
        let number = values[bucket].load(ordering: .relaxed)
        values[bucket].store(number &+ 1, ordering: .relaxed)
        let sum = values[count - 1].load(ordering: .relaxed)
        values[count - 1].store(sum &+ value, ordering: .relaxed)
    }

    func add(to counts: inout [UInt64], _ sum: inout UInt64) {
        for index in counts.indices { counts[index] &+= values[index].load(ordering: .relaxed) }
        sum &+= values[count - 1].load(ordering: .relaxed)
    }
}

/// How many values fell into each range.
public final class MetricHistogram: Sendable {
    public let scale: HistogramScale
    /// For writers without a cell of their own.
    public let shared: HistogramCell
    private let cells = Mutex<[HistogramCell]>([])

    init(_ scale: HistogramScale) {
        self.scale = scale
        shared = HistogramCell(scale)
    }

    /// A cell for one writer, for as long as the process lives.
    public func cell() -> HistogramCell {
        let cell = HistogramCell(scale)
        cells.withLock { $0.append(cell) }
        return cell
    }

    public func observe(_ value: UInt64) { shared.observe(value) }

    /// How many values fell into each bucket (the last: beyond all bounds), and the sum of all values.
    public var contents: (counts: [UInt64], sum: UInt64) {
        var counts = [UInt64](repeating: 0, count: scale.bounds.count + 1)
        var sum: UInt64 = 0
        shared.add(to: &counts, &sum)
        cells.withLock { for cell in $0 { cell.add(to: &counts, &sum) } }
        return (counts, sum)
    }
}
