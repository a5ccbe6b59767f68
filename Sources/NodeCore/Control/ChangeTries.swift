/// How often a change of the catalog is computed anew when somebody else was faster, and after which pauses.
///
/// Nobody holds anything while a change is computed, so of several who are at it at once one is done and the
/// others begin again. The pauses grow and are drawn, so that they do not meet again and again.
public struct ChangeTries: Sendable {
    public static let max = 12
    static let pauseMin: UInt64 = .milliseconds(5)
    static let pauseMax: UInt64 = .milliseconds(320)
    private var done = 0

    public init() {}

    /// Nanoseconds until the next try; `nil` where there were enough.
    public mutating func pause(using random: inout some RandomNumberGenerator) -> UInt64? {
        done += 1
        guard done < ChangeTries.max else { return nil }
        let bound = min(ChangeTries.pauseMin << UInt64(done), ChangeTries.pauseMax)
        return bound / 2 + random.next(upperBound: bound / 2)
    }
}
