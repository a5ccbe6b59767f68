import Journal
import Model

/// Until when former owners may grant tokens of what this node owns now.
///
/// An owner of buckets grants for a lease's length after a renewal (rule: heirs-of-buckets-wait). Who is
/// fenced has not renewed for longer than that. Who is *superseded*, by another process of its name that
/// begins while it runs, may have renewed a moment ago, and may not hear of it: its heirs wait.
struct Formers {
    private struct Former {
        var name: String
        /// When its lease moved last, as this node saw it.
        var moved: MonotonicTime
    }
    private let began: MonotonicTime
    /// Those that were there and are not any more, for a lease's length.
    private var gone: [SessionID: Former] = [:]
    /// For each partition that this node took: when its former owner has certainly stopped granting, where
    /// that may be later than the taking.
    private(set) var grantsAfter: [PartitionID: MonotonicTime] = [:]

    init(_ now: MonotonicTime) { began = now }

    /// Before a look at the tables is believed: `rows` and `seen` are of the look before.
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

    /// The partition is to be taken from a session that is dead, if from any. `living`: who is there now.
    mutating func noteTaking(_ row: PartitionRow, from living: [SessionRow], _ options: Ownership.Options) {
        grantsAfter[row.id] = row.owner.flatMap { end(of: $0, living, options) }
    }

    /// Whether the partition's former owner may grant still. Until then it is given to nobody, who would not
    /// know.
    func mayGrant(_ id: PartitionID, _ now: MonotonicTime) -> Bool {
        grantsAfter[id].map { now < $0 } ?? false
    }

    private func end(
        of owner: SessionID, _ living: [SessionRow], _ options: Ownership.Options
    ) -> MonotonicTime? {
        // It was dead before this node looked for the first time.
        guard let former = gone[owner] else { return began.advanced(by: options.lease) }
        guard living.contains(where: { $0.node == former.name }) else { return nil }
        return former.moved.advanced(by: options.lease)
    }
}
