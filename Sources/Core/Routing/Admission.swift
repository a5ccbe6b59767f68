import Model
import Quotas

/// The quotas of a gateway loop, as its router asks them.
public struct Admission {
    enum Decision {
        case admitted(Int)
        case refused(QuotaRefusal)
        /// The bucket's owner is silent.
        case unanswered
        /// Nothing is known yet: ask again when the bucket's owner has answered, at the latest at this time.
        case wait(until: MonotonicTime)
    }

    public struct Admitted: Hashable, Sendable {
        public let project: ProjectNumber
        public let kind: QuotaKind
        public let count: Int
    }

    private var spender: QuotaSpender
    private var limits: [ProjectNumber: QuotaLimits] = [:]
    /// Admitted operations, if an observer checks all gateways together; the observer takes them away.
    public var tally: [Admitted]?
    /// The spender's effects; the router takes them after each call.
    var effects: [QuotaSpender.Effect] = []

    public init(_ id: SpenderID, _ bounds: QuotaBounds = QuotaBounds()) {
        spender = QuotaSpender(id, bounds)
        spender.invariantSchedule.isHolders = true
    }

    /// The limits of the projects that do not have the defaults.
    public mutating func setLimits(_ limits: [ProjectNumber: QuotaLimits]) { self.limits = limits }

    func limits(of project: ProjectNumber) -> QuotaLimits { limits[project] ?? .standard }

    mutating func take(_ count: Int, _ kind: QuotaKind, of project: ProjectNumber, now: MonotonicTime)
        -> Decision
    {
        switch spender.take(UInt64(count), kind, of: project, now: now, into: &effects) {
        case .admitted(let taken): admitted(Int(taken), kind, of: project)
        case .refused(let refusal): .refused(refusal)
        case .unanswered: .unanswered
        case .wait(let until): .wait(until: until)
        }
    }

    /// Why one token would be refused, if that is certain.
    mutating func refusal(of kind: QuotaKind, _ project: ProjectNumber, now: MonotonicTime) -> QuotaRefusal? {
        spender.refusal(of: kind, project, now: now)
    }

    private mutating func admitted(_ count: Int, _ kind: QuotaKind, of project: ProjectNumber) -> Decision {
        tally?.append(Admitted(project: project, kind: kind, count: count))
        return .admitted(count)
    }

    mutating func receive(_ grant: QuotaGrant, now: MonotonicTime) {
        spender.receive(grant, now: now, into: &effects)
    }
    mutating func woke(now: MonotonicTime) { spender.woke(now: now, into: &effects) }

    /// The number of the last request for tokens.
    public var lastRequest: UInt64 { spender.lastNumber }

    /// The tokens that this loop holds for the project.
    public func atHand(_ kind: QuotaKind, _ project: ProjectNumber) -> UInt64 {
        spender.atHand(kind, project)
    }

    // MARK: Invariants

    func brokenInvariant(isWhole: Bool) -> String? {
        if !effects.isEmpty { return "something that the spender wants is left" }
        return spender.brokenInvariant(isWhole: isWhole)
    }
    var checkSize: Int { spender.checkSize }
    func isLookedAfter(_ kind: QuotaKind, _ project: ProjectNumber) -> Bool {
        spender.isLookedAfter(kind, project)
    }
}
