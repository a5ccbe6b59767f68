import Model

// The invariants of a grantor, its accountings and their accounts between two requests.

extension QuotaGrantor: InvariantChecking {
    /// The first invariant that is broken; `nil` if none is. `isWhole`: checks the invariants of each lease
    /// accounting also.
    public func brokenInvariant(isWhole: Bool) -> String? {
        guard isWhole else { return nil }
        for (number, project) in projects {
            if project.accountings.count != QuotaGrantor.kinds.count {
                return "a kind of tokens has no lease accounting"
            }
            for accounting in project.accountings {
                if let broken = accounting.brokenInvariant(bounds) {
                    return "project \(number.rawValue): \(broken)"
                }
            }
        }
        return nil
    }

    /// About how many entries a whole check visits.
    public var checkSize: Int {
        projects.values.reduce(128) { $0 + $1.accountings.reduce(0) { $0 + 4 * $1.accounts.count } }
    }

    /// The projects whose buckets are here.
    public var openProjects: [ProjectNumber] { Array(projects.keys) }
}

extension LeaseAccounting {
    func brokenInvariant(_ bounds: QuotaBounds) -> String? {
        if bucket.units > rate.burstUnits { return "the bucket holds more than its burst" }
        if accounts.count > bounds.accountCountMax { return "more spenders have accounts than may" }
        if Set(accounts.map(\.spender)).count < accounts.count { return "a spender has two accounts" }
        for account in accounts {
            if let broken = account.brokenInvariant(bounds) {
                return "spender \(account.spender.rawValue): \(broken)"
            }
        }
        return nil
    }
}

extension QuotaAccount {
    func brokenInvariant(_ bounds: QuotaBounds) -> String? {
        if flight.count > bounds.flightCountMax { return "more grants are on their way than may be" }
        if held > 0, applied == nil { return "tokens are held of no grant" }
        var former = applied?.number ?? 0
        for grant in flight {
            if grant.number <= former { return "grants are out of order" }
            former = grant.number
        }
        if former > number { return "a request was granted that never came" }
        let grants = [applied].compactMap { $0 } + flight
        if zip(grants, grants.dropFirst()).contains(where: { $0.leaseEnd > $1.leaseEnd }) {
            return "a lease is over before one that was granted earlier"
        }
        for grant in grants {
            if grant.leaseEnd < grant.granted { return "a lease ended before it began" }
            if grant.shareRate > 0, grant.shareEnd < grant.shareStart {
                return "a share ended before it began"
            }
        }
        return nil
    }
}
