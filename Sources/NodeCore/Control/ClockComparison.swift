import Model

/// A node's clock on the wall beside a database's. Expiry and tokens are told in wall time, so the nodes of a
/// cluster must agree on it about; whoever is right where they do not, an operator should know.
public struct ClockComparison: Sendable {
    /// Milliseconds by which the two may differ.
    public static let errorMax: Int64 = 60_000

    public enum Verdict: Equatable, Sendable {
        /// The node's reading can be believed, also where it leapt to it.
        case agrees
        /// Milliseconds by which the node's clock is ahead. `isNew`: it was not so before.
        case differs(ahead: Int64, isNew: Bool)
    }

    private var differs = false

    public init() {}

    public mutating func compare(_ own: WallTime, with theirs: WallTime) -> Verdict {
        let (ahead, overflow) = own.milliseconds.subtractingReportingOverflow(theirs.milliseconds)
        let isFar = overflow || ahead.magnitude > ClockComparison.errorMax.magnitude
        defer { differs = isFar }
        guard isFar else { return .agrees }
        let clamped = overflow ? (own > theirs ? Int64.max : Int64.min) : ahead
        return .differs(ahead: clamped, isNew: !differs)
    }
}
