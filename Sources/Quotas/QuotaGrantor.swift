import Model

/// Grants leases of tokens: the owner of a project's home partition has one, for all projects whose home it
/// is.
///
/// What it may begin with depends on what was before it:
///
/// - A project that never had an owner begins with full buckets.
/// - When the whole node ended in order and began anew, it goes on with what was left.
/// - When it crashed, its spenders are gone with the former grantor, and so is all that they held: it begins
/// with buckets that were empty when the node began.
/// - When it takes over from an owner that died, spenders may live on what that one granted. It grants
/// nothing for the longest validity after the last moment at which the other may have granted, and then
/// begins with empty buckets.
/// - When the owner hands over, it gives its ledgers along and grants nothing any more; the heir goes on
/// with them.
///
/// An owner that is cut off does not know that it was replaced. So it grants only while its authority is
/// confirmed, until a time that ends before any other can be made owner (`authority`).
public struct QuotaGrantor: Sendable {
    /// The kinds that are leased.
    public static let kinds: [QuotaKind] = [.sends, .subscriptionChanges, .registrations]

    public enum Beginning: Sendable {
        case full
        /// Nobody has granted or spent since this time.
        case empty(since: MonotonicTime)
        /// So many whole tokens of each of `kinds` were left when its only owner ended in order.
        case holding([UInt64], since: MonotonicTime)
        /// The former owner may have granted until this time.
        case takeover(grantedUntil: MonotonicTime)
    }

    /// What a new owner of a project's buckets begins with, `since` when it serves them; `nil` while it must
    /// say nothing.
    ///
    /// - `isFirst`: nobody was owner of this project's buckets before.
    /// - `left`: what the former owner left when it ended in order. Its shares may still be spent for as long
    ///   as they are valid: nothing flows in before. Where nothing is known of it, nothing is granted before,
    ///   and nothing is said before something has flowed in: who asks for little is not refused because it
    ///   came first.
    public static func beginning(
        isFirst: Bool, left: [UInt64]?, since: MonotonicTime, now: MonotonicTime,
        _ bounds: QuotaBounds = QuotaBounds()
    ) -> Beginning? {
        if isFirst { return .full }
        let free = since.advanced(by: bounds.share)
        if let left { return .holding(left, since: free) }
        return now >= free.advanced(by: bounds.inflow) ? .empty(since: free) : nil
    }

    /// A project's ledgers on their way to another owner.
    public struct Handover: Sendable {
        fileprivate var epoch: Epoch
        fileprivate var ledgers: [QuotaLedger]
        fileprivate var closed: MonotonicTime
    }

    public enum Effect: Hashable, Sendable {
        /// To the spender that it names.
        case grant(QuotaGrant)
        /// The project is not open here: open it with its limits and hand the request in again, or drop it
        /// if this node is not the owner (the spender asks again).
        case unknown(QuotaRequest)
    }

    struct Project: Sendable {
        var epoch: Epoch
        /// As in `kinds`.
        var ledgers: [QuotaLedger]
    }

    var projects: [ProjectNumber: Project] = [:]
    /// Until when this node is certain to be the owner. At one node without rivals: never ends.
    public var authority = MonotonicTime(nanoseconds: .max)
    public var laws = LawWatch()

    public let bounds: QuotaBounds

    public init(_ bounds: QuotaBounds = QuotaBounds()) { self.bounds = bounds }

    public func isOpen(_ project: ProjectNumber) -> Bool { projects[project] != nil }

    /// Begins to grant for a project. `epoch` names this ledger's life; it is higher than any former owner's.
    public mutating func open(
        _ project: ProjectNumber, _ limits: QuotaLimits, epoch: Epoch, _ beginning: Beginning,
        now: MonotonicTime
    ) {
        let rates = QuotaGrantor.kinds.compactMap { limits.rate(of: $0) }
        let ledgers = rates.enumerated().map { place, rate in
            switch beginning {
            case .full: QuotaLedger(TokenBucket(rate, full: now))
            case .empty(let since): QuotaLedger(TokenBucket(rate, emptyAt: since))
            case .holding(let tokens, let since):
                QuotaLedger(
                    TokenBucket(
                        rate, units: UInt128(place < tokens.count ? tokens[place] : 0) * rate.scale,
                        refilled: since))
            case .takeover(let granted):
                QuotaLedger(TokenBucket(rate, emptyAt: granted.advanced(by: bounds.share)))
            }
        }
        projects[project] = Project(epoch: epoch, ledgers: ledgers)
    }

    /// Goes on where another owner left off.
    public mutating func open(_ project: ProjectNumber, _ handover: Handover, now: MonotonicTime) {
        projects[project] = Project(
            epoch: handover.epoch, ledgers: handover.ledgers.map { $0.moved(from: handover.closed, to: now) })
    }

    /// Stops granting for a project and gives away what its heir needs. `nil` where it is not open.
    public mutating func close(_ project: ProjectNumber, now: MonotonicTime) -> Handover? {
        projects.removeValue(forKey: project).map {
            Handover(epoch: $0.epoch, ledgers: $0.ledgers, closed: now)
        }
    }

    /// Stops granting for some projects, whose next owner knows nothing of what was granted.
    public mutating func close(where isGone: (ProjectNumber) -> Bool) {
        for project in projects.keys.filter(isGone) { projects[project] = nil }
    }

    /// Other limits, from now on. What is in the buckets stays as far as the new bursts have room.
    public mutating func change(_ project: ProjectNumber, to limits: QuotaLimits, now: MonotonicTime) {
        for (index, kind) in QuotaGrantor.kinds.enumerated() {
            if let rate = limits.rate(of: kind) { projects[project]?.ledgers[index].change(to: rate, now) }
        }
    }

    public mutating func receive(_ request: QuotaRequest, now: MonotonicTime, into effects: inout [Effect]) {
        defer { checkInvariants() }
        guard let place = QuotaGrantor.kinds.firstIndex(of: request.kind), now < authority else { return }
        guard let epoch = projects[request.project]?.epoch else {
            if !request.isRelease { effects.append(.unknown(request)) }
            return
        }
        if let grant = projects[request.project]?.ledgers[place].receive(
            request, ledger: epoch, bounds, now: now)
        {
            effects.append(.grant(grant))
        }
    }

    /// Tokens that are not known to be spent; what is out on lease counts. `nil` where the project is not
    /// open or the kind is not leased.
    public mutating func level(
        of kind: QuotaKind, _ project: ProjectNumber, now: MonotonicTime
    ) -> UInt64? {
        guard let place = QuotaGrantor.kinds.firstIndex(of: kind) else { return nil }
        return projects[project]?.ledgers[place].level(now, bounds)
    }

    /// Whole tokens of each of `kinds` that are neither spent nor out with anybody, for every open project:
    /// what a successor may begin with when all who spend end with this one.
    public mutating func remainders(now: MonotonicTime) -> [ProjectNumber: [UInt64]] {
        var remainders: [ProjectNumber: [UInt64]] = [:]
        for project in projects.keys {
            remainders[project] = QuotaGrantor.kinds.indices.map { place in
                projects[project]?.ledgers[place].remainder(now, bounds) ?? 0
            }
        }
        return remainders
    }

    /// Forgets projects whose buckets are full and of which nothing is out. Opened again as they were the
    /// first time they are no fuller than they would be. For the shell to call now and then, every minute
    /// say.
    public mutating func forgetIdle(now: MonotonicTime) {
        for project in projects.keys {
            var isIdle = true
            for index in QuotaGrantor.kinds.indices where isIdle {
                isIdle = projects[project]?.ledgers[index].isForgettable(now, bounds) ?? true
            }
            if isIdle { projects[project] = nil }
        }
    }
}
