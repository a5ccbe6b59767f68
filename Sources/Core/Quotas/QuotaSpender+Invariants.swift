import Model

// The invariants of a spender between two events.

extension QuotaSpender: InvariantChecking {
    /// The first invariant that is broken; `nil` if none is. `isWhole`: checks the invariants of all leased
    /// tokens also.
    public func brokenInvariant(isWhole: Bool) -> String? {
        if isWakeSet == active.isEmpty {
            return "a wake-up must be set exactly while leased tokens are active"
        }
        if numbers.count > bounds.projectCountMax { return "more projects are known than may be" }
        if leasedTokens.count != numbers.count * 3 || table.count + free.count != numbers.count {
            return "the slots of projects are counted wrongly"
        }
        guard isWhole else { return nil }
        let taken = Set(free)
        for slot in numbers.indices where !taken.contains(slot) {
            if table.slot(of: numbers[slot]) != slot { return "a project is not at its slot" }
        }
        let looked = Set(active)
        if looked.count < active.count { return "leased tokens are looked after twice" }
        for (index, leased) in leasedTokens.enumerated() {
            if leased.isActive != looked.contains(index) { return "leased tokens are not looked after" }
            if let last = leased.pending.last, last.number > lastNumber { return "a request was never made" }
            if let broken = leased.brokenInvariant(bounds) { return broken }
        }
        return nil
    }

    /// About how much work a whole check is: it builds tables, and spenders have many events.
    public var checkSize: Int { leasedTokens.count * 4 + 128 }

    /// Whether operations wait for a project's tokens and the spender will wake them.
    public func isLookedAfter(_ kind: QuotaKind, _ project: ProjectNumber) -> Bool {
        guard kind.rawValue < 3, let slot = table.slot(of: project) else { return false }
        let leased = leasedTokens[slot * 3 + Int(kind.rawValue)]
        return leased.isActive && leased.hasWaiting
    }
}

extension LeasedTokens {
    func brokenInvariant(_ bounds: QuotaBounds) -> String? {
        if !isActive, held > 0 || shareRate > 0 || !pending.isEmpty || hasWaiting {
            return "something is held or awaited, and nobody looks after it"
        }
        if hasWaiting, !isAsking { return "an operation waits, and nothing was asked for it" }
        if isAsking, pending.isEmpty { return "an answer is awaited to no request" }
        if pending.count > bounds.pendingCountMax { return "more requests are awaited than may be" }
        if zip(pending, pending.dropFirst()).contains(where: { $0.number >= $1.number }) {
            return "requests are out of order"
        }
        if needed > demand { return "more is needed than is asked for" }
        let (used, overflow) = spent.addingReportingOverflow(held)
        if overflow || used > granted { return "more is spent and held than was granted" }
        guard shareRate > 0 else { return nil }
        let most = UInt128(shareRate) * UInt128(shareEnd.since(shareStart).nanoseconds) / 1_000_000_000
        return UInt128(shareUsed) > most ? "more of the share is spent than it has" : nil
    }
}
