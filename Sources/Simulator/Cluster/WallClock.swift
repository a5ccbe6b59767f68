import Model

/// A machine's wall clock. Faults set it wrong, make it too fast or too slow, and stop it.
struct WallClock {
    /// Milliseconds by which the clock was ahead at `since`.
    private var ahead: Int64 = 0
    private var since: UInt64 = 0
    /// Milliseconds in 1,000 by which the clock is too fast.
    private var driftPerMille: Int64 = 0
    /// Since when the clock has stood still, in milliseconds of the world; `nil` where it runs.
    private var stopped: UInt64?

    /// Milliseconds by which the clock is ahead at a moment of the world.
    func error(_ now: UInt64) -> Int64 {
        if let stopped { return ahead - Int64(now / 1_000_000) + Int64(stopped) }
        return ahead + Int64((now - min(now, since)) / 1_000_000) * driftPerMille / 1000
    }

    /// What the clock shows at a moment, in milliseconds.
    func reading(_ wall: WallTime, _ now: UInt64) -> Int64 { wall.milliseconds + error(now) }

    mutating func leap(by milliseconds: Int64, _ now: UInt64) {
        (ahead, since, stopped) = (error(now) + milliseconds, now, nil)
    }

    mutating func drift(_ perMille: Int64, _ now: UInt64) {
        (ahead, since, driftPerMille, stopped) = (error(now), now, perMille, nil)
    }

    mutating func stop(_ now: UInt64) { (ahead, since, stopped) = (error(now), now, now / 1_000_000) }
}
