import Model

/// When a broken connection is a reason to suspect a node.
///
/// The first broken connection always is a reason, so that the others suspect a killed process immediately. A
/// node that contradicts such a suspicion has shown that broken connections say little about it. Further
/// broken connections then count as no evidence for a while, and each contradiction makes that while four
/// times as long. After the same length of time again without a broken connection the count begins from the
/// start.
struct LinkDoubts: Sendable {
    private struct Doubt: Sendable {
        /// This node suspects the member for a broken connection now.
        var isOpen = true
        /// How long after the last contradiction a broken connection is no evidence.
        var wait = TimeSpan.zero
        var until: MonotonicTime
    }

    private let waitMin: TimeSpan
    private let waitMax: TimeSpan
    private var doubts: [SessionID: Doubt] = [:]

    init(_ options: Membership.Options) { (waitMin, waitMax) = (options.doubtsMin, options.doubtsMax) }

    /// Whether a connection that has just broken is a reason to suspect.
    mutating func suspects(_ session: SessionID, now: MonotonicTime) -> Bool {
        guard var doubt = doubts[session] else {
            doubts[session] = Doubt(until: now)
            return true
        }
        if now < doubt.until { return false }
        if now >= doubt.until.advanced(by: doubt.wait) { doubt.wait = .zero }
        doubt.isOpen = true
        doubts[session] = doubt
        return true
    }

    mutating func contradicted(_ session: SessionID, now: MonotonicTime) {
        guard var doubt = doubts[session], doubt.isOpen else { return }
        doubt.isOpen = false
        doubt.wait = min(waitMax, max(waitMin, doubt.wait * 4))
        doubt.until = now.advanced(by: doubt.wait)
        doubts[session] = doubt
    }

    mutating func forget(_ session: SessionID) { doubts[session] = nil }
}
