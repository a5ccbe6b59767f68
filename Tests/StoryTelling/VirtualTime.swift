import Model

/// Happenings in virtual time. Those of one moment keep their order.
public struct VirtualTime<Happening> {
    public private(set) var now: MonotonicTime
    private var queue: [(time: MonotonicTime, happening: Happening)] = []

    public init(began: MonotonicTime) { now = began }

    public mutating func push(after delay: TimeSpan, _ happening: Happening) {
        let time = now + delay
        let place = queue.firstIndex { $0.time > time } ?? queue.endIndex
        queue.insert((time, happening), at: place)
    }

    /// The next happening up to `end`, at whose time it then is; `nil` where there is none, and it is `end`.
    public mutating func next(until end: MonotonicTime) -> Happening? {
        guard let first = queue.first, first.time <= end else {
            now = max(now, end)
            return nil
        }
        now = first.time
        return queue.removeFirst().happening
    }
}
