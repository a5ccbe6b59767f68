import Model

/// Grants leases of tokens. The owner of a project's home partition has one grantor for all projects whose
/// home it is.
///
/// What the buckets of a project begin with depends on the previous owner:
///
/// - There was none: the buckets begin full.
/// - The previous owner gave the partition up in order, and left its remainders. The buckets begin with
///   these, and nothing flows in while spenders may still spend its shares.
/// - The previous owner died, and nobody knows its remainders. The new owner grants nothing while spenders
///   may still spend its shares, and then begins with empty buckets.
///
/// The spenders of a node without a cluster end with the node, so its next start need not wait for their
/// shares. After an end in order the buckets go on with the remainders, and have filled meanwhile. After a
/// crash the buckets begin empty.
///
/// An owner that is cut off does not know that another node has replaced it. So a grantor grants only while
/// its authority is confirmed: until a time (`authority`) that ends before any other node can become owner.
public struct QuotaGrantor: Sendable {
    /// The kinds that are leased.
    public static let kinds: [QuotaKind] = [.sends, .subscriptionChanges, .registrations]

    public enum Beginning: Sendable {
        case full
        /// No grantor has granted and no spender has spent anything since this time.
        case empty(since: MonotonicTime)
        /// Whole tokens of each of `kinds` that the previous owner left in order. Refill begins at `since`.
        case holding([UInt64], since: MonotonicTime)
    }

    /// What a new owner of a project's buckets begins with, if it has served them since `since`; `nil` while
    /// the owner must not answer.
    ///
    /// - `isFirst`: the project's buckets had no owner before.
    /// - `left`: what the previous owner left when it ended in order. Its shares may still be spent for as
    ///   long as they are valid, so nothing flows in before they end. If nothing is known about the previous
    ///   owner, the new owner grants nothing before that end, and does not answer before something has flowed
    ///   in: otherwise it would refuse a spender that asks for little only because the spender asked first.
    public static func beginning(
        isFirst: Bool, left: [UInt64]?, since: MonotonicTime, now: MonotonicTime,
        _ bounds: QuotaBounds = QuotaBounds()
    ) -> Beginning? {
        if isFirst { return .full }
        let free = since.advanced(by: bounds.share)
        if let left { return .holding(left, since: free) }
        return now >= free.advanced(by: bounds.inflow) ? .empty(since: free) : nil
    }

    public enum Effect: Hashable, Sendable {
        /// A grant for the spender that it names.
        case grant(QuotaGrant)
        /// The project is not open here. The caller opens it with its limits and hands the request in again,
        /// or drops the request if this node is not the owner (the spender asks again).
        case unknown(QuotaRequest)
    }

    struct Project: Sendable {
        var epoch: Epoch
        /// In the order of `kinds`.
        var accountings: [LeaseAccounting]
    }

    var projects: [ProjectNumber: Project] = [:]
    /// Until when this node is certain to be the owner. On a lone node this never ends.
    public var authority = MonotonicTime.max
    public var invariantSchedule = InvariantSchedule()

    public let bounds: QuotaBounds

    public init(_ bounds: QuotaBounds = QuotaBounds()) { self.bounds = bounds }

    public func isOpen(_ project: ProjectNumber) -> Bool { projects[project] != nil }

    /// Begins to grant for a project. `epoch` names the new accountings, and must be above any earlier
    /// owner's.
    public mutating func open(
        _ project: ProjectNumber, _ limits: QuotaLimits, epoch: Epoch, beginning: Beginning,
        now: MonotonicTime
    ) {
        let rates = QuotaGrantor.kinds.compactMap { limits.rate(of: $0) }
        let accountings = rates.enumerated().map { index, rate in
            switch beginning {
            case .full: LeaseAccounting(TokenBucket(rate, full: now))
            case .empty(let since): LeaseAccounting(TokenBucket(rate, emptyAt: since))
            case .holding(let tokens, let since):
                LeaseAccounting(
                    TokenBucket(
                        rate, units: UInt128(index < tokens.count ? tokens[index] : 0) * rate.scale,
                        refilled: since))
            }
        }
        projects[project] = Project(epoch: epoch, accountings: accountings)
    }

    /// Stops granting for some projects. Their next owner knows nothing about the grants.
    public mutating func close(where isGone: (ProjectNumber) -> Bool) {
        for project in projects.keys.filter(isGone) { projects[project] = nil }
    }

    /// Changes the limits from now on. The tokens in the buckets stay as far as the new bursts have room.
    public mutating func change(_ project: ProjectNumber, to limits: QuotaLimits, now: MonotonicTime) {
        for (index, kind) in QuotaGrantor.kinds.enumerated() {
            if let rate = limits.rate(of: kind) {
                projects[project]?.accountings[index].change(to: rate, now)
            }
        }
    }

    public mutating func receive(_ request: QuotaRequest, now: MonotonicTime, into effects: inout [Effect]) {
        defer { checkInvariants() }
        guard let index = QuotaGrantor.kinds.firstIndex(of: request.kind), now < authority else { return }
        guard let epoch = projects[request.project]?.epoch else {
            if !request.isRelease { effects.append(.unknown(request)) }
            return
        }
        if let grant = projects[request.project]?.accountings[index].receive(
            request, grantorEpoch: epoch, bounds, now: now)
        {
            effects.append(.grant(grant))
        }
    }

    /// Tokens that are not known to be spent, leased ones included. `nil` if the project is not open or
    /// the kind is not leased.
    public mutating func level(of kind: QuotaKind, _ project: ProjectNumber, now: MonotonicTime) -> UInt64? {
        guard let index = QuotaGrantor.kinds.firstIndex(of: kind) else { return nil }
        return projects[project]?.accountings[index].level(now, bounds)
    }

    /// For every open project the whole tokens of each of `kinds` that are neither spent nor out: what the
    /// next owner may begin with once no spender can spend what is out.
    public mutating func remainders(now: MonotonicTime) -> [ProjectNumber: [UInt64]] {
        var remainders: [ProjectNumber: [UInt64]] = [:]
        for project in projects.keys {
            remainders[project] = QuotaGrantor.kinds.indices.map { index in
                projects[project]?.accountings[index].remainder(now, bounds) ?? 0
            }
        }
        return remainders
    }

    /// Forgets projects whose buckets are full and of which nothing is out. A project that is opened again
    /// later has no more tokens than it would have had. The shell should call this about once a minute.
    public mutating func forgetIdle(now: MonotonicTime) {
        for project in projects.keys {
            var isIdle = true
            for index in QuotaGrantor.kinds.indices where isIdle {
                isIdle = projects[project]?.accountings[index].isForgettable(now, bounds) ?? true
            }
            if isIdle { projects[project] = nil }
        }
    }
}
