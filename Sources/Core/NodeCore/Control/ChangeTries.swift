import Model

/// How often a process computes a change of the catalog again if another process was faster, and after which
/// pauses.
///
/// No process holds a lock while it computes a change, so of several processes that change the catalog at
/// once one succeeds and the others begin again. The pauses grow and are random, so that the same processes
/// do not meet again and again.
public struct ChangeTries: Sendable {
    public static let max = 12
    static let pauseMin: TimeSpan = .milliseconds(5)
    static let pauseMax: TimeSpan = .milliseconds(320)
    private var done = 0

    public init() {}

    /// The time until the next try; `nil` if there were enough tries.
    public mutating func pause(using random: inout some RandomNumberGenerator) -> TimeSpan? {
        done += 1
        guard done < ChangeTries.max else { return nil }
        let bound = min(ChangeTries.pauseMin.doubled(times: done), ChangeTries.pauseMax)
        return bound / 2 + random.next(upperBound: bound / 2)
    }
}
