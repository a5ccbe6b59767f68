import Bytes
import Journal
import Model

/// When a snapshot is due, and how far the snapshot is that is being made and written.
///
/// A snapshot is of the moment at which a record is closed, when the state is exactly the fold up to that
/// record. It is made in slices; its parts are written one by one, and only when that record is durable. It
/// counts when its last part is there. The engine keeps two, and the journal back to the older.
struct SnapshotPlan {
    private let bytesMin: Int
    private let age: TimeSpan
    /// The record up to which the newest written snapshot reaches, and the same of the snapshot before.
    private(set) var covering: Sequence
    private(set) var former: Sequence = .zero
    private var size = 0
    private var bytesSince = 0
    /// Whether closed records that the newest snapshot lacks, and the open record, hold more than what each
    /// owner does to the state when it begins.
    private var hasChanged = false
    private var isOpenChanged = false
    /// When the first such record was closed, or when this machine began, if that is later.
    private var since: MonotonicTime?
    /// The snapshot that is being made or written.
    var current: Current?
    /// When the newest slice was made.
    var slicedAt = MonotonicTime.zero

    struct Current {
        /// Names this snapshot: an answer with another token is for another snapshot or another machine.
        var token: UInt64
        var covering: Sequence
        var upload: UInt64?
        var parts = 0
        var length = 0
        var digest: SnapshotDigest
        /// The engine has a part of which it has not answered yet.
        var isAsked = false
        var isLast = false
        /// Records whose bodies devices waited for in the state that the snapshot holds.
        var keeping: [Sequence] = []
    }

    /// `age`: the most that a change waits for a snapshot. Partitions differ, so that those of a node do not
    /// write all at once.
    init(_ id: PartitionID, covering: Sequence, bytesMin: Int, age: TimeSpan) {
        self.covering = covering
        self.bytesMin = bytesMin
        self.age = age / 2 + age / 512 * UInt64(id.rawValue % 256)
    }

    mutating func folded(_ fact: Fact) {
        switch fact {
        case .barrier, .evict: break
        default: isOpenChanged = true
        }
    }

    /// `now`: `nil` for a record of an earlier owner, of which nobody knows when it was closed.
    mutating func closed(bytes: Int, at now: MonotonicTime?) {
        bytesSince += bytes
        guard isOpenChanged else { return }
        (isOpenChanged, hasChanged, since) = (false, true, since ?? now)
    }

    mutating func begin(at now: MonotonicTime) { since = hasChanged ? now : nil }

    /// When a snapshot is due though no further record comes.
    var dueAt: MonotonicTime? { current == nil && hasChanged ? since?.advanced(by: age) : nil }

    /// A snapshot is due when the journal since the last snapshot outweighs it, so that writing snapshots
    /// costs as much as journaling. After a quarter of `age` an eighth of its weight is enough, and after
    /// `age` any change: a cluster of many partitions would keep gigabytes otherwise, which a start reads.
    func isDue(at now: MonotonicTime) -> Bool {
        guard current == nil, hasChanged, let since else { return false }
        let waited = now.since(since)
        return bytesSince >= max(bytesMin, size) || bytesSince >= size / 8 && waited >= age / 4
            || waited >= age
    }

    mutating func start(_ id: PartitionID, covering: Sequence, token: UInt64) {
        current = Current(
            token: token, covering: covering, digest: SnapshotDigest(id, covering: covering))
        (bytesSince, hasChanged, since) = (0, false, nil)
    }

    /// The changes of the snapshot that could not be written wait once more.
    mutating func failed(at now: MonotonicTime) {
        current = nil
        (hasChanged, since) = (true, now)
    }

    mutating func written(_ written: Current) {
        current = nil
        size = written.length
        former = covering
        covering = written.covering
    }

    mutating func restored(_ sequence: Sequence, bytes: Int) {
        covering = sequence
        size = bytes
        (bytesSince, hasChanged, isOpenChanged, since) = (0, false, false, nil)
    }
}

extension Partition {
    /// Begins a snapshot that covers everything up to the last closed record, if nothing is folded behind it.
    func beginSnapshot(_ now: MonotonicTime) {
        guard snapshots.isDue(at: now), mayBeginSnapshot else { return }
        lastToken += 1
        snapshots.start(id, covering: state.applied, token: lastToken)
        state.beginSnapshot()
    }

    private var mayBeginSnapshot: Bool { state.writer == nil && pipeline.isOpenEmpty }

    /// When a snapshot is due; `nil` if the open record, or the former snapshot, comes first.
    func nextSnapshot() -> MonotonicTime? { mayBeginSnapshot ? snapshots.dueAt : nil }

    /// When the next slice is to be made; `nil` if there is none, or enough parts wait to be written.
    func nextSlice() -> MonotonicTime? {
        guard let writer = state.writer, !writer.isDone, writer.waiting < 2 * options.snapshotPartBytes
        else { return nil }
        return snapshots.slicedAt.advanced(by: options.snapshotPause)
    }

    func continueSnapshot(_ turn: inout Turn) {
        guard let next = nextSlice(), next <= turn.now.monotonic else { return }
        snapshots.slicedAt = turn.now.monotonic
        state.continueSnapshot(options.snapshotSliceBytes)
        writeNextPart(&turn)
    }

    /// Gives the engine the next part, if that part is made, the part before it is written, and the record
    /// that the snapshot covers is durable.
    func writeNextPart(_ turn: inout Turn) {
        guard let writer = state.writer, var current = snapshots.current, !current.isAsked,
            mayStand(current.covering), writer.isWritten || writer.waiting >= options.snapshotPartBytes
        else { return }
        var part = SnapshotPart(
            upload: current.upload, number: current.parts,
            bytes: writer.drain(upTo: options.snapshotPartBytes),
            end: nil)
        current.parts += 1
        current.length += part.bytes.count
        current.digest.add(part.bytes)
        current.isAsked = true
        if writer.isWritten, writer.waiting == 0 {
            current.isLast = true
            current.keeping = writer.keeping
            part.end = .init(parts: current.parts, length: current.length, digest: current.digest.value)
        }
        snapshots.current = current
        state.endSnapshot()
        turn.effects.append(.writeSnapshot(covering: current.covering, part, token: current.token))
    }

    private func mayStand(_ covering: Sequence) -> Bool {
        #if DEBUG
            if options.planted.contains(.snapshotVolatile) { return true }
        #endif
        return covering <= pipeline.durable
    }

    func onSnapshotPart(_ upload: UInt64, token: UInt64, _ turn: inout Turn) {
        guard var current = snapshots.current, current.token == token, current.isAsked else { return }
        guard current.isLast else {
            current.upload = upload
            current.isAsked = false
            snapshots.current = current
            return writeNextPart(&turn)
        }
        snapshots.written(current)
        trim(keeping: current.keeping, &turn)
    }

    /// Throws the snapshot away. The next try comes after as much journal, or as long a time, once more.
    func onSnapshotFailed(_ token: UInt64, _ turn: inout Turn) {
        guard snapshots.current?.token == token else { return }
        snapshots.failed(at: turn.now.monotonic)
        state.writer?.abandon()
    }

    /// Trims only on the strength of two snapshots that are there.
    private func trim(keeping waited: [Sequence], _ turn: inout Turn) {
        var below = snapshots.former
        #if DEBUG
            if options.planted.contains(.trimToNewest) { below = snapshots.covering }
        #endif
        guard below > .zero else { return }
        // `waited` is of the snapshot's state: what waits now rests on acknowledgements that may not be
        // durable. A message of a covered record that waits in any later state also waited in the snapshot's.
        var keeping = waited.filter { $0 < below }
        #if DEBUG
            if options.planted.contains(.forgetBodies) { keeping = [] }
        #endif
        turn.effects.append(.trim(below: below, keeping: keeping))
    }

    /// Begins from a snapshot instead of the first record. Only on a new partition.
    public func restore(snapshot bytes: [UInt8]) throws(DecodeError) {
        try state.restore(bytes)
        snapshots.restored(state.applied, bytes: bytes.count)
    }

    /// Messages of a project that some partition has not taken over, and conditions that are not resolved: as
    /// they are counted, and as they are in the outboxes. For checks that the bound holds.
    public func unfinished(_ project: ProjectNumber) -> (counted: Int, waiting: Int) {
        var messages: Set<MessageID> = []
        state.outboxes.forEach { _, outbox in
            for entry in outbox.unacknowledged {
                for item in entry.items {
                    if case .message(project, let message, _) = item { messages.insert(message.id) }
                }
            }
        }
        for pending in state.conditions.values where pending.project == project {
            messages.insert(pending.message.id)
        }
        return (state.fanouts.count(of: project), messages.count)
    }

    /// The whole state as bytes; equal states give equal bytes. For checks that a replay gives this state.
    public func image() -> [UInt8] { SnapshotWriter.image(of: state) }
}
