import Model

/// The outcome of one record that was offered.
public enum Resolution: Hashable, Sendable {
    /// The record is durable under this session. Answers and frames that waited for the record may leave.
    case durable
    /// The session is dead, and the record was not acknowledged. After a lost reply the record may still be
    /// in, and the next owner may read it.
    case fenced
    /// Another session's record has this sequence: the partition is lost.
    case taken
    /// The record is not in and is never appended again. No later record of the partition goes in either.
    case refused(String)
    /// The engine refused the record, so the record is not in yet. The appender keeps it with everything
    /// behind it, and appends them again until it learns something else. Only the first record of each
    /// partition is reported.
    case postponed(String)
    /// The record waits behind more than should wait. Its partition must begin nothing new until the record
    /// is in.
    case crowded
    /// The partition is lost, and nobody knows whether this record is in.
    case unknown
}

public struct Resolved: Hashable, Sendable {
    public var partition: PartitionID
    public var sequence: Sequence
    public var resolution: Resolution
    /// The machine that made the record. No other machine of the partition may act on the report.
    public var incarnation: UInt32

    public init(_ row: Row, _ resolution: Resolution) {
        (partition, sequence, incarnation) = (row.partition, row.sequence, row.incarnation)
        self.resolution = resolution
    }
}

/// Group commit for one session: decides what the next transaction holds, and what a lost reply means.
///
/// Rows of all partitions wait in one queue, and one batch is in flight. When the batch is done, the next
/// batch takes every row that came meanwhile, up to a bound. So the batch grows with the load, and no row
/// waits for a timer.
///
/// **A lost reply** (rule: unknown-is-an-outcome) leaves the batch neither in nor out. The appender appends
/// it again at the same sequences under the same batch id, as often as necessary. A refusal of the repeat
/// does not show the outcome of the first try, so the appender then repeats as well. If a sequence is taken,
/// the appender looks which batch took it: its own batch id means that the first try went in. The first try's
/// commit was never acknowledged, and a database that fails over may forget it. The repeat's acknowledged
/// commit implies everything that the repeat saw, so the row is in for good. A later append proves nothing:
/// the database may fail over between the look and that append, and forget what the look saw.
///
/// **What the engine refuses** (a full disk, a lock, a connection that cannot be made) is not in. The
/// appender keeps it and appends it again. Each partition has its own back-off, and other partitions go on.
///
/// **Journals have no holes.** Rows behind a refused row wait behind it, and the appender remembers which
/// sequence each partition must offer next.
///
/// The appender has no clock: each event brings the time.
public struct Appender: Sendable {
    public enum Event: Sendable {
        /// Rows to append, each partition's in order and without gaps.
        case offered([Row])
        /// The append in flight is done.
        case finished(AppendOutcome)
        case looked(PartitionID, Sequence, batch: BatchID?)
        /// The session took this partition, or begins to write it: its next record has this sequence.
        case opened(PartitionID, next: Sequence)
        /// Time has passed.
        case woke
        /// The session is about to give this partition up. The appender drops the partition's waiting rows
        /// and takes no new ones until `opened`. Answered by `closed`.
        case closing(PartitionID)
    }

    public enum Effect: Hashable, Sendable {
        /// Answered by `finished`. The appender never asks for two appends at once.
        case append(BatchID, [Row])
        /// Answered by `looked`.
        case look(PartitionID, Sequence)
        /// In each partition by rising sequence.
        case resolved([Resolved])
        /// Nothing of this partition is in flight or in doubt any more, so the session may give the row up.
        /// After an earlier release, a record of this session could go in behind the next owner's barrier.
        case closed(PartitionID)
    }

    struct Batch: Sendable {
        var id: BatchID
        var rows: [Row]
        /// An earlier try may be in, or may still go in.
        var isInDoubt: Bool
    }

    /// What the appender knows of a row of the batch, between the answer of the append and the last look.
    enum Finding: Sendable { case appended, fenced, looking, mine, foreign, absent, unowned }

    enum State: Sendable {
        case idle
        case appending(Batch)
        /// Invariant: at least one finding is `looking`.
        case looking(Batch, [Finding])
        /// The session is dead, for good.
        case fenced
    }

    /// The sequence that a partition may offer next, if any.
    enum Tail: Sendable {
        case next(Sequence)
        /// Another session's record was found, or the session does not own the partition. Nothing more goes
        /// in until `opened`.
        case lost
        /// The session has given the partition up, or is about to. Nothing more goes in until `opened`.
        case closed
    }

    public let session: SessionID
    let options: JournalOptions
    var state = State.idle
    var waiting = RowQueue()
    var tails: [PartitionID: Tail] = [:]
    /// Partitions to give up as soon as the batch in flight is settled.
    var closing: Set<PartitionID> = []
    /// Partitions whose records the engine refused. `waiting` holds no row of these partitions.
    var refused: [PartitionID: Refused] = [:]
    var now = MonotonicTime.zero
    /// Whether the last batch held refused rows: they take turns with the rows in `waiting`.
    private var hasRetried = false
    private var batchCount: UInt64 = 0

    public init(session: SessionID, options: JournalOptions = JournalOptions()) {
        self.session = session
        self.options = options
    }

    /// Whether nothing is in flight and nothing waits, apart from refused rows (`retryAt`).
    public var isIdle: Bool {
        switch state {
        case .idle: waiting.isEmpty
        case .fenced: true
        case .appending, .looking: false
        }
    }
    public var isFenced: Bool { if case .fenced = state { true } else { false } }
    public var waitingRows: Int { waiting.count + refusedRows }
    /// Whether the batch in flight is a repeat. After a lost answer `EngineSchedule` pauses before the
    /// repeat.
    public var isInDoubt: Bool { if case .appending(let batch) = state { batch.isInDoubt } else { false } }

    public mutating func on(_ event: Event, now: MonotonicTime, into effects: inout [Effect]) {
        self.now = max(self.now, now)
        var resolved: [Resolved] = []
        var following: [Effect] = []
        switch event {
        case .offered(let rows): offered(rows, &resolved)
        case .opened(let partition, let next):
            // Rows that still wait come from a machine that is gone, so nobody needs a report of them.
            _ = removeWaiting { $0 == partition }
            tails[partition] = .next(next)
            closing.remove(partition)
        case .woke: break
        case .closing(let partition): close(partition, &resolved)
        case .finished(let outcome): finished(outcome, &resolved, effects: &following)
        case .looked(let partition, let sequence, let batch):
            looked(partition, sequence, found: batch, resolved: &resolved, effects: &following)
        }
        if !resolved.isEmpty { effects.append(.resolved(resolved)) }
        effects.append(contentsOf: following)
        tellClosed(&effects)
        startBatch(into: &effects)
    }

    private mutating func offered(_ rows: [Row], _ resolved: inout [Resolved]) {
        for row in rows {
            if let refusal = admit(row) {
                resolved.append(Resolved(row, refusal))
                continue
            }
            if isCrowded { resolved.append(Resolved(row, .crowded)) }
            if refused[row.partition] == nil {
                waiting.append(row)
            } else {
                refused[row.partition]?.rows.append(row)
            }
            tails[row.partition] = .next(row.sequence.next)
        }
    }

    /// Whether the waiting rows have reached a bound. The partition has folded a row's facts and cannot take
    /// them back, so a row past the bound waits too. How much waits at most follows from how much a partition
    /// has in flight.
    private var isCrowded: Bool {
        waitingRows >= options.waitingRowsMax || waiting.byteCount + refusedBytes >= options.waitingBytesMax
    }

    /// Why the row cannot wait with the others, or `nil`.
    private func admit(_ row: Row) -> Resolution? {
        if isFenced { return .fenced }
        switch tails[row.partition] {
        case .lost: return .taken
        case .closed: return .refused("the node is giving the partition up")
        case .next(let next) where next != row.sequence:
            return .refused("record \(row.sequence.rawValue) is offered where \(next.rawValue) must stand")
        case .next, nil: break
        }
        guard row.sequence > .zero, row.sequence <= EngineRules.sequenceMax else {
            return .refused("no sequence of a record: \(row.sequence.rawValue)")
        }
        return nil
    }

    /// Puts the next batch in flight, if rows wait and no batch is in flight.
    private mutating func startBatch(into effects: inout [Effect]) {
        guard case .idle = state else { return }
        if !refused.isEmpty, waiting.isEmpty || !hasRetried {
            let rows = takeDue()
            hasRetried = !rows.isEmpty
            if hasRetried { return launch(Batch(id: nextBatch(), rows: rows, isInDoubt: false), &effects) }
        }
        hasRetried = false
        guard !waiting.isEmpty else { return }
        let rows = waiting.dequeue(rowsMax: options.batchRowsMax, bytesMax: options.batchBytesMax)
        launch(Batch(id: nextBatch(), rows: rows, isInDoubt: false), &effects)
    }

    mutating func launch(_ batch: Batch, _ effects: inout [Effect]) {
        state = .appending(batch)
        effects.append(.append(batch.id, batch.rows))
    }

    /// Unique among all sessions of an engine: 24 bits of the session, 40 bits that count the session's
    /// batches from 1. Batch 0 is that of the session's barriers.
    private mutating func nextBatch() -> BatchID {
        batchCount += 1
        return BatchID(session.rawValue << 40 | batchCount & (1 << 40 - 1))
    }

    /// The batch id of a session's barriers.
    public static func barrierBatch(of session: SessionID) -> BatchID { BatchID(session.rawValue << 40) }
}
