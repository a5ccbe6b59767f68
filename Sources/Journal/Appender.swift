import Model

/// What became of one record that was offered.
public enum Resolution: Hashable, Sendable {
    /// Durable under this session: what waited for it may leave.
    case durable
    /// The session is dead. The record was not acknowledged; after a lost reply it may still be in, and
    /// whoever owns the partition next decides what it reads.
    case fenced
    /// Another session's record stands at this place: the partition is lost.
    case taken
    /// Known not to be in, and never appended again; nothing behind it goes in either.
    case refused(String)
    /// Known not to be in yet: the engine refused it. It waits with everything behind it and is appended
    /// again until something else is known; of these only the first of each partition is told.
    case postponed(String)
    /// It waits behind more than should wait: its partition is to begin nothing new until it is in.
    case crowded
    /// The partition is lost, and nobody knows whether this record is in.
    case unknown
}

public struct Resolved: Hashable, Sendable {
    public var partition: PartitionID
    public var sequence: Sequence
    public var resolution: Resolution
    /// The machine that made the record: another one has nothing to do with it.
    public var life: UInt32

    public init(_ row: Row, _ resolution: Resolution) {
        (partition, sequence, life) = (row.partition, row.sequence, row.life)
        self.resolution = resolution
    }
}

/// Group commit for one session: decides what the next transaction holds, and what a lost reply means.
///
/// Rows of all partitions wait in one queue; one batch is in flight; the moment it is done, the next takes
/// everything that came in meanwhile, up to a bound. So the batch grows with the load, and nobody waits for a
/// timer.
///
/// **A reply that is lost** (rule: unknown-is-an-outcome) leaves the batch neither in nor out. It is appended
/// again at the same sequences under the same batch id, as often as it takes; a refusal of the repeat says
/// nothing about the first try, so it is repeated as well. Places that turn out taken are looked at: under
/// our batch id the first try went in. Its own commit was never acknowledged, and a database that fails over
/// may forget it; the repeat's was, and implies everything that the repeat saw, so it is in for good. No
/// later append does that: between a look and it the database may fail over, and what was seen is gone.
///
/// **What the engine refuses** (a full disk, a lock, a connection that cannot be made) is known not to be in.
/// It is kept and appended again, each partition by a back-off of its own, while others go on.
///
/// **Journals have no holes.** What comes behind a record that was refused waits behind it, and the machine
/// remembers which sequence each partition must offer next.
///
/// It has no clock: each event comes with the time.
public struct Appender: Sendable {
    public enum Event: Sendable {
        /// Rows to append, each partition's in order and without gaps.
        case offered([Row])
        /// The append in flight is done.
        case finished(AppendOutcome)
        case looked(PartitionID, Sequence, BatchID?)
        /// The session took this partition, or begins to write it: its next record has this sequence.
        case opened(PartitionID, next: Sequence)
        /// Time has passed.
        case woke
        /// The session wants to give this partition up: what waits of it is dropped, and nothing more is
        /// taken in until it is opened again. Answered by `closed`.
        case closing(PartitionID)
    }

    public enum Effect: Hashable, Sendable {
        /// Answered by `finished`. Never two at once.
        case append(BatchID, [Row])
        /// Answered by `looked`.
        case look(PartitionID, Sequence)
        /// In each partition by rising sequence.
        case resolved([Resolved])
        /// Nothing of this partition is in flight or in doubt any more: its row may be given up. A row that
        /// was given up earlier could be followed by a record of this session behind the next owner's
        /// barrier.
        case closed(PartitionID)
    }

    struct Batch: Sendable {
        var id: BatchID
        var rows: [Row]
        /// An earlier try may be in, or may still go in.
        var isInDoubt: Bool
    }

    /// What is known of a row of the batch, between the answer of the append and the last look.
    enum Finding: Sendable { case appended, fenced, looking, mine, foreign, absent, unowned }

    enum State: Sendable {
        case idle
        case appending(Batch)
        /// Invariant: at least one finding is `looking`.
        case looking(Batch, [Finding])
        /// The session is dead, for good.
        case fenced
    }

    /// What a partition may offer next.
    enum Tail: Sendable {
        case next(Sequence)
        /// Another's record was found; until it is opened again, nothing more goes in.
        case lost
        /// Given up, or about to be; the same.
        case closed
    }

    public let session: SessionID
    let options: JournalOptions
    var state = State.idle
    var waiting = RowQueue()
    var tails: [PartitionID: Tail] = [:]
    /// Partitions that are to be given up as soon as the batch in flight is settled.
    var closing: Set<PartitionID> = []
    /// Partitions whose records the engine refused. Of none of them anything is in `waiting`.
    var refused: [PartitionID: Refused] = [:]
    var now = MonotonicTime(nanoseconds: 0)
    /// Whether the batch before was of such partitions: they take turns with the others.
    private var hasRetried = false
    private var batchCount: UInt64 = 0

    public init(session: SessionID, options: JournalOptions = JournalOptions()) {
        self.session = session
        self.options = options
    }

    /// Whether nothing is in flight and nothing waits, but for what was refused (`retryAt`).
    public var isIdle: Bool {
        switch state {
        case .idle: waiting.isEmpty
        case .fenced: true
        case .appending, .looking: false
        }
    }
    public var isFenced: Bool { if case .fenced = state { true } else { false } }
    public var waitingRows: Int { waiting.count + refusedRows }
    /// Whether the batch in flight is a repeat: whoever drives the engine waits a little before it.
    public var isInDoubt: Bool { if case .appending(let batch) = state { batch.isInDoubt } else { false } }

    public mutating func on(_ event: Event, now: MonotonicTime, into effects: inout [Effect]) {
        self.now = max(self.now, now)
        var resolved: [Resolved] = []
        var following: [Effect] = []
        switch event {
        case .offered(let rows): offered(rows, &resolved)
        case .opened(let partition, let next):
            // What may still wait is of a machine that is gone: nobody asks for it any more.
            _ = removeWaiting { $0 == partition }
            tails[partition] = .next(next)
            closing.remove(partition)
        case .woke: break
        case .closing(let partition): close(partition, &resolved)
        case .finished(let outcome): finished(outcome, &resolved, &following)
        case .looked(let partition, let sequence, let batch):
            looked(partition, sequence, batch, &resolved, &following)
        }
        if !resolved.isEmpty { effects.append(.resolved(resolved)) }
        effects.append(contentsOf: following)
        tellClosed(&effects)
        begin(into: &effects)
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

    /// Whether as much waits as should. What made a row was folded in and cannot be taken back, so the row
    /// waits too. How much may wait at most follows from how much a partition has in flight.
    private var isCrowded: Bool {
        waitingRows >= options.waitingRowsMax || waiting.byteCount + refusedBytes >= options.waitingBytesMax
    }

    /// Why the row cannot wait with the others, or `nil`.
    private func admit(_ row: Row) -> Resolution? {
        if isFenced { return .fenced }
        switch tails[row.partition] {
        case .lost: return .taken
        case .closed: return .refused("the partition is being given up")
        case .next(let next) where next != row.sequence:
            return .refused("record \(row.sequence.rawValue) is offered where \(next.rawValue) must stand")
        case .next, nil: break
        }
        guard row.sequence > .zero, row.sequence <= EngineRules.sequenceMax else {
            return .refused("no sequence of a record: \(row.sequence.rawValue)")
        }
        return nil
    }

    /// Puts the next batch in flight, if there is something to do and nothing is.
    private mutating func begin(into effects: inout [Effect]) {
        guard case .idle = state else { return }
        if !refused.isEmpty, waiting.isEmpty || !hasRetried {
            let rows = takeDue()
            hasRetried = !rows.isEmpty
            if hasRetried { return launch(Batch(id: nextBatch(), rows: rows, isInDoubt: false), &effects) }
        }
        hasRetried = false
        guard !waiting.isEmpty else { return }
        let rows = waiting.take(rowsMax: options.batchRowsMax, bytesMax: options.batchBytesMax)
        launch(Batch(id: nextBatch(), rows: rows, isInDoubt: false), &effects)
    }

    mutating func launch(_ batch: Batch, _ effects: inout [Effect]) {
        state = .appending(batch)
        effects.append(.append(batch.id, batch.rows))
    }

    /// Unique among all sessions of an engine: 24 bits of session, 40 bits that count its batches from 1.
    /// Batch 0 of a session is its barriers'.
    private mutating func nextBatch() -> BatchID {
        batchCount += 1
        return BatchID(session.rawValue << 40 | batchCount & (1 << 40 - 1))
    }

    /// The batch id under which a session's barriers stand.
    public static func barrierBatch(of session: SessionID) -> BatchID { BatchID(session.rawValue << 40) }
}
