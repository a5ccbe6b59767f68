import Journal
import Model

/// The moments until which former owners may grant tokens of partitions that this node owns now.
///
/// An owner of buckets grants for a lease's length after a renewal (rule: heirs-of-buckets-wait). An owner
/// that was fenced has not renewed for longer than that. An owner that is *superseded*, by another process of
/// its name that begins while the owner runs, may have renewed a moment ago and may not hear of its end: the
/// heirs of that owner wait.
struct Formers {
    private struct Former {
        var name: String
        /// When the session's lease moved last, as this node saw it.
        var moved: MonotonicTime
    }
    private let began: MonotonicTime
    /// Sessions that this node saw and that are gone now, kept for a lease's length after their last renewal.
    private var gone: [SessionID: Former] = [:]
    /// For each partition that this node took: when its former owner has certainly stopped granting, where
    /// that may be later than the taking.
    private(set) var grantsAfter: [PartitionID: MonotonicTime] = [:]

    init(_ now: MonotonicTime) { began = now }

    /// Call this before the new look replaces the last one. `rows` are the sessions of the last look,
    /// `living` those of the new look; `seen` must still have the sessions that are gone.
    mutating func note(
        _ seen: [SessionID: Ownership.Seen], of rows: [SessionRow], _ living: Set<SessionID>,
        _ now: MonotonicTime, _ options: Ownership.Options
    ) {
        gone = gone.filter { now.since($0.value.moved) < options.lease }
        for row in rows where !living.contains(row.id) {
            guard let moved = seen[row.id]?.since, now.since(moved) < options.lease else { continue }
            gone[row.id] = Former(name: row.node, moved: moved)
        }
    }

    /// Call this before the node takes the partition: the session that owned it, if any, is dead. `living`
    /// are the sessions of the last look.
    mutating func noteTaking(_ row: PartitionRow, from living: [SessionRow], _ options: Ownership.Options) {
        grantsAfter[row.id] = row.owner.flatMap { end(of: $0, living, options) }
    }

    /// Whether the partition's former owner may still grant. Until then this node gives the partition to
    /// nobody: the heir would not know that it must wait.
    func mayGrant(_ id: PartitionID, _ now: MonotonicTime) -> Bool {
        grantsAfter[id].map { now < $0 } ?? false
    }

    private func end(
        of owner: SessionID, _ living: [SessionRow], _ options: Ownership.Options
    ) -> MonotonicTime? {
        // The session was dead before this node's first look, or has been gone for longer than a lease; in
        // the second case this moment is past.
        guard let former = gone[owner] else { return began.advanced(by: options.lease) }
        guard living.contains(where: { $0.node == former.name }) else { return nil }
        return former.moved.advanced(by: options.lease)
    }
}
