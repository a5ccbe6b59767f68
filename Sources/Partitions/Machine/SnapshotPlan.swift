import Journal
import Model

/// When a snapshot is due, and what is to be done with it.
///
/// A snapshot is made at the moment a record is closed, when the state is exactly the fold up to that
/// record; it is written only when that record is durable. Two are kept, and the journal back to the older.
struct SnapshotPlan {
    private let bytesMin: Int
    /// What the newest written snapshot covers, and the one before it.
    private(set) var covering: Sequence
    private(set) var former: Sequence = .zero
    private var size = 0
    private var bytesSince = 0
    private(set) var made: (covering: Sequence, bytes: [UInt8])?
    /// Records whose bodies somebody waited for in the state of the newest snapshot that was made. What waits
    /// in any later state and stands in a record that the snapshot covers is among them.
    private(set) var keeping: [Sequence] = []
    /// What the one that is being written covers.
    private(set) var writing: Sequence?

    init(covering: Sequence, bytesMin: Int) {
        self.covering = covering
        self.bytesMin = bytesMin
    }

    mutating func note(bytes: Int) { bytesSince += bytes }

    /// Due when the journal since the last one outweighs it, so that writing snapshots costs as much as
    /// journaling.
    var isDue: Bool { made == nil && writing == nil && bytesSince >= max(bytesMin, size) }

    mutating func begin(covering: Sequence, bytes: [UInt8], keeping: [Sequence]) {
        made = (covering, bytes)
        self.keeping = keeping
        bytesSince = 0
    }

    mutating func ready(durable: Sequence) -> (covering: Sequence, bytes: [UInt8])? {
        guard let snapshot = made, snapshot.covering <= durable else { return nil }
        made = nil
        writing = snapshot.covering
        size = snapshot.bytes.count
        return snapshot
    }

    /// False where it is another machine's: what that one kept is not known here.
    mutating func written(_ sequence: Sequence) -> Bool {
        guard writing == sequence else { return false }
        writing = nil
        former = covering
        covering = sequence
        return true
    }

    /// Tried again after as much journal once more.
    mutating func failed() { writing = nil }

    mutating func restored(_ sequence: Sequence, bytes: Int) {
        covering = sequence
        size = bytes
        bytesSince = 0
    }
}

extension Partition {
    func onSnapshotWritten(_ covering: Sequence, _ effects: inout [PartitionEffect]) {
        guard snapshots.written(covering) else { return }
        var below = snapshots.former
        #if DEBUG
            if options.planted.contains(.trimToNewest) { below = covering }
        #endif
        guard below > .zero else { return }
        // Not what waits now: that rests on acknowledgements that may not be durable.
        var keeping = snapshots.keeping.filter { $0 < below }
        #if DEBUG
            if options.planted.contains(.forgetBodies) { keeping = [] }
        #endif
        effects.append(.trim(below: below, keeping: keeping))
    }

    /// Begins from a snapshot instead of the first record. Only on a new partition.
    public func restore(snapshot bytes: [UInt8]) throws(DecodeError) {
        try state.restore(bytes)
        snapshots.restored(state.applied, bytes: bytes.count)
    }

    /// Messages of a project that some partition has not taken over, and conditions that are not resolved:
    /// as they are counted, and as they stand in the outboxes. For checks that the bound holds.
    public func unfinished(_ project: ProjectNumber) -> (counted: Int, waiting: Int) {
        var messages: Set<MessageID> = []
        state.outboxes.forEach { _, outbox in
            for entry in outbox.unacknowledged {
                for item in entry.items {
                    if case .message(project, let message, _) = item { messages.insert(message.id) }
                }
            }
        }
        let conditions = state.conditions.values.count { $0.project == project }
        return (state.fanouts.count(of: project), messages.count + conditions)
    }

    /// The whole state as bytes; equal states give equal bytes. For checks that a replay gives what lived.
    public func image() -> [UInt8] { state.snapshot() }
}
