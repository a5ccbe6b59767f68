import Journal
import Model
import Partitions

// The bounds of the machines around a partition.

extension SwarmDraw {
    typealias Bound = WritableKeyPath<Options, Int> & Sendable
    typealias Length = WritableKeyPath<Options, TimeSpan> & Sendable

    /// Half of the bounds stay at their defaults, so that a run meets each small one by itself. Most of the
    /// others are small, because no run meets a large one; some lie anywhere between.
    mutating func draw(_ name: String, _ key: any Bound, from: Int, to most: Int = 64) {
        let plain = Options(seed: 0)[keyPath: key]
        let small = magnitude(UInt64(from), UInt64(roll(4) == 0 ? plain : min(plain, most)))
        add(name, UInt64(plain), value: roll(2) == 0 ? small : UInt64(plain)) { $0[keyPath: key] = Int($1) }
    }

    /// A time, in milliseconds.
    mutating func draw(_ name: String, _ key: any Length, from: UInt64) {
        let plain = Options(seed: 0)[keyPath: key].milliseconds
        let short = magnitude(from, plain)
        add(name, plain, value: roll(2) == 0 ? short : plain) { $0[keyPath: key] = .milliseconds($1) }
    }

    mutating func drawJournalBounds() {
        draw("batch-rows", \.journal.batchRowsMax, from: 1)
        draw("batch-bytes", \.journal.batchBytesMax, from: 1, to: 20_000)
        draw("journal-rows", \.journal.waitingRowsMax, from: 1)
        draw("journal-bytes", \.journal.waitingBytesMax, from: 1, to: 20_000)
        draw("refusal-retry-min-ms", \.journal.retryMin, from: 1)
        draw("refusal-retry-max-ms", \.journal.retryMax, from: 1)
        draw("refusal-retry-soon-ms", \.journal.retrySoon, from: 1)
        draw("jobs-at-once", \.journal.jobsMax, from: 1)
        draw("doubt-pause-min-ms", \.journal.pauseMin, from: 1)
        draw("doubt-pause-max-ms", \.journal.pauseMax, from: 1)
    }

    mutating func drawRouterBounds() {
        draw("operations", \.routing.operationsMax, from: 1)
        draw("quota-waiters", \.routing.quotaWaitersMax, from: 1)
        draw("retries-at-once", \.routing.retriesAtOnce, from: 1)
        draw("deadline-ms", \.routing.deadline, from: 5000)
        draw("deadline-step-ms", \.routing.deadlineStep, from: 1)
        draw("quota-wait-ms", \.routing.quotaWaitMax, from: 1)
        draw("moved-retry-min-ms", \.routing.retryMin, from: 1)
        draw("moved-retry-max-ms", \.routing.retryMax, from: 1)
        draw("retry-pause-ms", \.routing.retryPause, from: 1)
        draw("silence-ms", \.routing.silenceMin, from: 50)
        draw("silence-step-ms", \.routing.silenceStep, from: 10)
        // Both sides have this window: gateways ask again within half of what partitions know.
        draw("request-window", \.partition.requestWindow, from: 2)
        draw("returning-at-once", \.partition.returningAtOnce, from: 1)
        draw("body-cache-bytes", \.partition.bodyCacheBytesMax, from: 1, to: 20_000)
    }

    mutating func drawNodeBounds() {
        draw("frame-bytes", \.loop.frameBytesTarget, from: 1, to: 20_000)
        draw("unreachable-pause-ms", \.loop.unreachablePause, from: 1)
        draw("reattach-pause-ms", \.loop.reattachPause, from: 1)
        draw("read-retry-ms", \.loop.readRetry, from: 1)
        draw("confirm-retry-ms", \.loop.confirmRetry, from: 1)
        draw("load-retry-ms", \.loop.loadRetry, from: 1)
        draw("ping-ms", \.links.ping, from: 100)
        draw("link-silence-ms", \.links.silence, from: 2000)
        draw("connect-ms", \.links.connect, from: 100)
        draw("link-wait-ms", \.links.waitMax, from: 100)
        draw("backoff-min-ms", \.links.backoffMin, from: 1)
        draw("backoff-max-ms", \.links.backoffMax, from: 1)
        draw("load-bytes", \.loadBytesMax, from: 1, to: 20_000)
    }
}
