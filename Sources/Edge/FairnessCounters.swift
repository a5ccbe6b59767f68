import Synchronization

/// What the queues of all loops count. Loops add to it once a turn.
public final class FairnessCounters: Sendable {
    /// Turns for which a request waited, as bounds of a histogram.
    public static let turnBounds: [Int] = [1, 2, 4, 8, 16, 32, 64, 128]

    /// Requests that wait for their turn.
    public let waiting = Atomic<Int>(0)
    /// Turns that ended with work left.
    public let turnsCut = Atomic<Int>(0)
    /// Times that a share was held for what it owed.
    public let holds = Atomic<Int>(0)
    /// Times that a connection was left unread.
    public let pauses = Atomic<Int>(0)
    /// Requests that were answered 503 because too many waited.
    public let refused = Atomic<Int>(0)
    private struct Waits {
        var counts = [Int](repeating: 0, count: FairnessCounters.turnBounds.count + 1)
        var sum = 0
    }
    private let waits = Mutex(Waits())

    init() {}

    /// How many requests that waited did so for how many turns, and all turns; those are left out whose share
    /// was held.
    public var turnsWaited: (counts: [Int], sum: Int) { waits.withLock { ($0.counts, $0.sum) } }

    func note(_ turns: UInt64?) {
        guard let turns else { return }
        let place = FairnessCounters.turnBounds.firstIndex { turns <= $0 }
        waits.withLock { waits in
            waits.counts[place ?? FairnessCounters.turnBounds.count] += 1
            waits.sum += Int(clamping: turns)
        }
    }

    /// Adds what came to be since it was `told` last.
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

/// Of one loop's queue.
struct FairQueueCounts {
    var waiting = 0
    var turnsCut = 0
    var holds = 0
    var refused = 0
}
