import Model

// The invariants of a loop's lines: they must hold between two events.

extension FairQueue: InvariantChecking {
    /// The first invariant that is broken; `nil` if all hold. `isWhole`: also checks the invariants of each
    /// line.
    func brokenInvariant(isWhole: Bool) -> String? {
        if count < 0 || work < count * bounds.request { return "less work waits than its requests are" }
        if work > bounds.allMax { return "more work waits than may" }
        if spent >= max(bounds.turn, bounds.turnAlone) + bounds.lineMax {
            return "a turn went on past its bound"
        }
        if (count == 0) != (work == 0) { return "work waits without a request" }
        guard isWhole else { return nil }
        return brokenInLines ?? brokenInRing
    }

    /// About how many entries a whole check visits.
    var checkSize: Int { lines.count + ring.count + held.count }

    private var brokenInLines: String? {
        if lines.values.reduce(0, { $0 + $1.waiting.count }) != count {
            return "the lines do not have what waits"
        }
        if lines.values.reduce(0, { $0 + $1.work }) != work { return "the lines' work is not that of all" }
        for (share, line) in lines {
            if line.share != share { return "a line stands under another share" }
            if line.work > bounds.lineMax { return "more work waits in a line than may" }
            if line.waiting.isEmpty, line.deficit != 0 || line.isVisited {
                return "a line saves up while nothing waits in it"
            }
            if line.waiting.isEmpty, line.owesUntil == .zero {
                return "an empty line that owes nothing is kept"
            }
            if !(0...(bounds.lineMax + bounds.quantum)).contains(line.deficit) {
                return "a line has spent what it was not given"
            }
            let isInRing = ring.contains { $0 === line }
            if isInRing != (!line.waiting.isEmpty && !line.isHeld) {
                return "a line's turn comes though it has none, or the other way round"
            }
            if line.isHeld != held.contains(where: { $0 === line }) { return "a held line is not known" }
        }
        return nil
    }

    private var brokenInRing: String? {
        for (index, line) in ring.enumerated() {
            if lines[line.share] !== line { return "a line in the ring is not known" }
            if index > 0, line.isVisited { return "a line has its quantum, and it is another's turn" }
        }
        if Set(ring.map { ObjectIdentifier($0) }).count != ring.count { return "a line is in the ring twice" }
        return nil
    }
}
