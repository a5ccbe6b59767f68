import Model

/// Compares a node's wall clock with a database's. Expiry and tokens are stated in wall time, so the nodes of
/// a cluster must agree on it to `errorMax`. Where the clocks differ, whichever is right, an operator must
/// know.
public struct ClockComparison: Sendable {
    /// Milliseconds by which the two clocks may differ.
    public static let errorMax: Int64 = 60_000

    public enum Verdict: Equatable, Sendable {
        /// The node's reading can be believed, also where the node's clock leapt to it.
        case agrees
        /// Milliseconds by which the node's clock is ahead. `isNew`: the comparison before did not find this.
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
