import Model

/// When a machine will be woken. Nobody takes a timer back: one that is set already serves for whatever is
/// due after it.
struct WakePlan {
    /// Each before the last one: who is due sooner than all of them has set another.
    private(set) var times: [MonotonicTime] = []
    /// When it last gave up those that were late.
    private var gaveUpAt: MonotonicTime?

    /// A timer that is late by more may be so by hours: a machine that was suspended finds that its clock
    /// went on (`CLOCK_BOOTTIME`), and its timers did not (`CLOCK_MONOTONIC`).
    static let lateness: UInt64 = .seconds(1)

    init(_ times: [MonotonicTime] = []) { self.times = times }

    var next: MonotonicTime? { times.last }

    /// The timer for `at` has fired.
    mutating func fired(_ at: MonotonicTime) {
        while let last = times.last, last <= at { times.removeLast() }
    }

    /// Something is due at `time`. True where a timer is to be set for it.
    mutating func plan(_ time: MonotonicTime, now: MonotonicTime) -> Bool {
        giveUpLate(now)
        if let last = times.last, last <= time { return false }
        times.append(time)
        return true
    }

    /// Once in so long, so that a machine that is late itself does not set a timer for each event.
    private mutating func giveUpLate(_ now: MonotonicTime) {
        guard let last = times.last, now.since(last) > WakePlan.lateness,
            gaveUpAt.map({ now.since($0) > WakePlan.lateness }) ?? true
        else { return }
        gaveUpAt = now
        fired(now)
    }
}
