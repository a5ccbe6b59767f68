import Synchronization

/// The counts of all loops' queues. Each loop adds to them once a turn.
public final class FairnessCounters: Sendable {
    /// Upper bounds of the histogram's buckets, in turns that a request waited.
    public static let turnBounds: [Int] = [1, 2, 4, 8, 16, 32, 64, 128]

    /// Requests that wait for their turn.
    public let waiting = Atomic<Int>(0)
    /// Turns that ended with work left over.
    public let turnsCut = Atomic<Int>(0)
    /// How often a share was held for its debt.
    public let holds = Atomic<Int>(0)
    /// How often the loop stopped reading a connection.
    public let pauses = Atomic<Int>(0)
    /// Requests that were answered 503 because too many waited.
    public let refused = Atomic<Int>(0)
    private struct Waits {
        var counts = [Int](repeating: 0, count: FairnessCounters.turnBounds.count + 1)
        var sum = 0
    }
    private let waits = Mutex(Waits())

    /// A histogram of the turns that requests waited, and the sum of those turns. A request does not
    /// count if its share was held since the request came.
    public var turnsWaited: (counts: [Int], sum: Int) { waits.withLock { ($0.counts, $0.sum) } }

    func note(_ turns: UInt64?) {
        guard let turns else { return }
        let index = FairnessCounters.turnBounds.firstIndex { turns <= $0 }
        waits.withLock { waits in
            waits.counts[index ?? FairnessCounters.turnBounds.count] += 1
            waits.sum += Int(clamping: turns)
        }
    }

    /// Adds the difference between the queue's counts and `told`.
    func add(_ queue: FairQueue<Responder>, _ told: inout FairQueueCounts) {
        let now = FairQueueCounts(
            waiting: queue.count, turnsCut: queue.turnsCut, holds: queue.holds, refused: queue.refused)
        waiting.add(now.waiting - told.waiting, ordering: .relaxed)
        turnsCut.add(now.turnsCut - told.turnsCut, ordering: .relaxed)
        holds.add(now.holds - told.holds, ordering: .relaxed)
        refused.add(now.refused - told.refused, ordering: .relaxed)
        told = now
    }
}

/// The counts of one loop's queue.
struct FairQueueCounts {
    var waiting = 0
    var turnsCut = 0
    var holds = 0
    var refused = 0
}
