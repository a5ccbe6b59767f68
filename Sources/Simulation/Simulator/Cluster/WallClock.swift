import Model

/// A machine's wall clock. Faults set it wrong, make it too fast or too slow, and stop it.
struct WallClock {
    /// Milliseconds by which the clock was ahead at `since`.
    private var ahead: Int64 = 0
    private var since = MonotonicTime.zero
    /// Milliseconds in 1,000 by which the clock is too fast.
    private var driftPerMille: Int64 = 0
    /// Since when the clock is stopped; `nil` if it runs.
    private var stopped: MonotonicTime?

    /// Milliseconds by which the clock is ahead at a moment of the world.
    func error(_ now: MonotonicTime) -> Int64 {
        if let stopped { return ahead - milliseconds(now) + milliseconds(stopped) }
        return ahead + Int64(now.since(since).milliseconds) * driftPerMille / 1000
    }

    /// What the clock shows at a moment, in milliseconds.
    func reading(_ wall: WallTime, _ now: MonotonicTime) -> Int64 { wall.milliseconds + error(now) }

    mutating func leap(by milliseconds: Int64, _ now: MonotonicTime) {
        (ahead, since, stopped) = (error(now) + milliseconds, now, nil)
    }

    mutating func drift(_ perMille: Int64, _ now: MonotonicTime) {
        (ahead, since, driftPerMille, stopped) = (error(now), now, perMille, nil)
    }

    mutating func stop(_ now: MonotonicTime) { (ahead, since, stopped) = (error(now), now, now) }

    private func milliseconds(_ time: MonotonicTime) -> Int64 { Int64(time.nanoseconds / 1_000_000) }
}
