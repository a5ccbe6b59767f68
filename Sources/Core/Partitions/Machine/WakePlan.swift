import Model

/// When a machine will be woken. Nobody takes a timer back: a timer that is set serves for everything that is
/// due after it.
struct WakePlan {
    /// Each time is before the one in front of it: a timer is set only for what is due before all others.
    private(set) var times: [MonotonicTime] = []
    /// When late timers were last given up.
    private var gaveUpAt: MonotonicTime?

    /// A timer that is late by more than this may be late by hours: on a machine that was suspended the clock
    /// went on (`CLOCK_BOOTTIME`) and the timers did not (`CLOCK_MONOTONIC`).
    static let lateness: TimeSpan = .seconds(1)

    init(_ times: [MonotonicTime] = []) { self.times = times }

    var next: MonotonicTime? { times.last }

    /// The timer for `at` has fired.
    mutating func fired(_ at: MonotonicTime) {
        while let last = times.last, last <= at { times.removeLast() }
    }

    /// Something is due at `time`. True if a timer must be set for it.
    mutating func plan(_ time: MonotonicTime, now: MonotonicTime) -> Bool {
        giveUpLate(now)
        if let last = times.last, last <= time { return false }
        times.append(time)
        return true
    }

    /// At most once in `lateness`, so that a machine that is late itself does not set a timer for each event.
    private mutating func giveUpLate(_ now: MonotonicTime) {
        guard let last = times.last, now.since(last) > WakePlan.lateness,
            gaveUpAt.map({ now.since($0) > WakePlan.lateness }) ?? true
        else { return }
        gaveUpAt = now
        fired(now)
    }
}
