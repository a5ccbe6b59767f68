import Journal
import Model

/// The moments until which previous owners may grant tokens of partitions that this node owns now.
///
/// An owner of buckets grants for a lease's length after a renewal (rule: heirs-of-buckets-wait). An owner
/// that was fenced has not renewed for longer than that. An owner that is *superseded*, by another process of
/// its name that begins while the owner runs, may have renewed a moment ago and may not learn of its end: the
/// heirs of that owner wait.
struct FormerOwnerGrants {
    private struct Gone {
        /// When this node first saw that the session was gone: its last renewal was before.
        var goneBy: MonotonicTime
        /// A session of the same name was there then.
        var isSuperseded: Bool
    }
    private enum Wait {
        /// The previous owner grants nothing after this.
        case until(MonotonicTime)
        /// This node has never seen the previous owner, which may have renewed just before the taking.
        case leaseAfterTaking
    }
    private let lease: TimeSpan
    /// Sessions that this node saw and that are gone now. A session stays here while it may still grant, and
    /// while a row names it as owner.
    private var gone: [SessionID: Gone] = [:]
    /// For each partition that this node took: how long its heir waits, if it must.
    private var waits: [PartitionID: Wait] = [:]

    init(lease: TimeSpan) { self.lease = lease }

    /// Compares the sessions of the previous look with the new one.
    mutating func note(_ former: [SessionRow], then look: Ownership.Poll, _ now: MonotonicTime) {
        if !gone.isEmpty {
            let owners = Set(look.partitions.compactMap(\.owner))
            gone = gone.filter { now.since($0.value.goneBy) < lease || owners.contains($0.key) }
        }
        for row in former where !look.sessions.contains(where: { $0.id == row.id }) {
            let isSuperseded = look.sessions.contains { $0.node == row.node }
            gone[row.id] = Gone(goneBy: now, isSuperseded: isSuperseded)
        }
    }

    /// Call this before the node takes the partition: the session that owned it, if any, is dead.
    mutating func noteTaking(_ row: PartitionRow) { waits[row.id] = row.owner.flatMap { wait(for: $0) } }

    /// Notes that the node owns the partition now. Returns when the previous owner has certainly stopped
    /// granting, if that may be later than now.
    mutating func noteTaken(_ id: PartitionID, _ now: MonotonicTime) -> MonotonicTime? {
        if case .leaseAfterTaking = waits[id] { waits[id] = .until(now.advanced(by: lease)) }
        guard case .until(let end) = waits[id] else { return nil }
        return end
    }

    /// Whether the partition's previous owner may still grant. Until then this node gives the partition to
    /// nobody: the heir would not know that it must wait.
    func mayGrant(_ id: PartitionID, _ now: MonotonicTime) -> Bool {
        switch waits[id] {
        case nil: false
        case .until(let end): now < end
        case .leaseAfterTaking: true
        }
    }

    private func wait(for owner: SessionID) -> Wait? {
        guard let former = gone[owner] else { return .leaseAfterTaking }
        return former.isSuperseded ? .until(former.goneBy.advanced(by: lease)) : nil
    }
}
