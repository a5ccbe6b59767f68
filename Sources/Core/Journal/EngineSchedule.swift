import DequeModule
import Model

/// What an engine's thread does next: the order of the appends and of the jobs of one engine.
///
/// The thread works in rounds: a few small jobs and one large one, then the appender's effects, up to one
/// append. So jobs do not hold up appends, and appends do not hold up jobs. A job is *large* if it reads or
/// writes up to a megabyte: a part of a snapshot, or bodies of records. Records that an append has settled
/// leave before the next jobs run. A pause holds up everything: it follows a lost answer of the engine, and
/// jobs would meet the same engine.
///
/// The thread adds what was posted to it, then calls `beginRound` and carries out steps until there is none.
/// Then the thread sleeps until something is posted, or until `retryAt`, when the appender tries refused rows
/// again.
public struct EngineSchedule<Job> {
    public enum Step {
        case job(Job)
        /// Answered by `appended`.
        case append(SessionID, BatchID, [Row])
        /// Answered by `looked` or `lookFailed`.
        case look(PartitionID, Sequence)
        case resolved([Resolved])
        /// Nothing of the partition is in flight or in doubt any more.
        case closed(PartitionID)
        /// Do nothing for this long.
        case pause(TimeSpan)
    }

    private let options: JournalOptions
    private var appender: Appender?
    private var effects: [Appender.Effect] = []
    private var jobs: Deque<Job> = []
    private var largeJobs: Deque<Job> = []
    private var jobsLeft = 0
    private var mayRunLarge = false
    /// The round's append is done, or a look has failed. Settled records leave, then the round is over.
    private var hasAppended = false
    private var now = MonotonicTime.zero
    private var pause = TimeSpan.zero
    /// How often in a row the answer of an append, or of a look, was lost.
    public private(set) var doubts: UInt64 = 0

    public init(_ options: JournalOptions = JournalOptions()) { self.options = options }

    /// Whether nothing waits and nothing is in flight, apart from refused rows.
    public var isIdle: Bool {
        effects.isEmpty && jobs.isEmpty && largeJobs.isEmpty && appender?.isIdle ?? true
    }

    /// When the appender tries refused rows again.
    public var retryAt: MonotonicTime? { appender?.retryAt }

    // MARK: What was posted

    /// From now on rows go in under this session.
    public mutating func use(_ session: SessionID) {
        // The previous session's appends and looks are of no use any more.
        effects.removeAll { effect in
            switch effect {
            case .resolved, .closed: false
            case .append, .look: true
            }
        }
        appender = Appender(session: session, options: options)
    }

    public mutating func open(_ partition: PartitionID, next: Sequence) {
        appender?.on(.opened(partition, next: next), now: now, into: &effects)
    }

    /// The session is about to give the partition up. Answered by the step `closed`.
    public mutating func close(_ partition: PartitionID) {
        guard appender != nil else { return effects.append(.closed(partition)) }
        appender?.on(.closing(partition), now: now, into: &effects)
    }

    public mutating func offer(_ rows: [Row]) {
        guard appender == nil else {
            appender?.on(.offered(rows), now: now, into: &effects)
            return
        }
        effects.append(.resolved(rows.map { Resolved($0, .refused("no session has begun")) }))
    }

    public mutating func add(_ posted: [Job], large: [Job] = []) {
        jobs.append(contentsOf: posted)
        largeJobs.append(contentsOf: large)
    }

    /// Takes out the jobs that have not run, because the engine has failed or is to end.
    public mutating func takeJobs() -> [Job] {
        defer { (jobs, largeJobs) = ([], []) }
        return Array(jobs) + largeJobs
    }

    // MARK: Rounds

    public mutating func beginRound(now: MonotonicTime) {
        self.now = now
        jobsLeft = options.jobsMax
        mayRunLarge = true
        hasAppended = false
        guard let retryAt, retryAt <= now else { return }
        appender?.on(.woke, now: now, into: &effects)
    }

    /// The round's next step; `nil` if it is over.
    public mutating func next() -> Step? {
        if pause > .zero {
            defer { pause = .zero }
            return .pause(pause)
        }
        if jobsLeft > 0, !jobs.isEmpty, !hasAppended {
            jobsLeft -= 1
            return .job(jobs.removeFirst())
        }
        if mayRunLarge, !largeJobs.isEmpty, !hasAppended {
            mayRunLarge = false
            return .job(largeJobs.removeFirst())
        }
        switch effects.first {
        case .resolved(let resolved):
            effects.removeFirst()
            return .resolved(resolved)
        case .closed(let partition):
            effects.removeFirst()
            return .closed(partition)
        case .look(let partition, let sequence) where !hasAppended: return .look(partition, sequence)
        case .append(let batch, let rows) where !hasAppended:
            guard let session = appender?.session else { return nil }
            effects.removeFirst()
            return .append(session, batch, rows)
        default: return nil
        }
    }

    /// The thread must first add what was posted during the append, so that the next batch holds it.
    public mutating func appended(
        _ outcome: AppendOutcome, _ batch: BatchID, under session: SessionID, now: MonotonicTime
    ) {
        self.now = now
        hasAppended = true
        if case .rows = outcome { doubts = 0 }
        guard appender?.session == session else { return }
        appender?.on(.finished(outcome), now: now, into: &effects)
        if case .rows = outcome { return }
        let isFollowUp = effects.contains { effect in
            if case .append(let next, let left) = effect { next == batch || left.isEmpty } else { false }
        }
        guard isFollowUp else { return }
        pause = pause(after: doubts)
        doubts += 1
    }

    public mutating func looked(_ partition: PartitionID, _ sequence: Sequence, batch: BatchID?) {
        doubts = 0
        if case .look = effects.first { effects.removeFirst() }
        appender?.on(.looked(partition, sequence, batch: batch), now: now, into: &effects)
    }

    /// The engine did not answer. The same look comes again after a pause, in the next round, so that the
    /// schedule first takes what was posted meanwhile.
    public mutating func lookFailed() {
        hasAppended = true
        pause = pause(after: doubts)
        doubts += 1
    }

    private func pause(after doubts: UInt64) -> TimeSpan {
        min(options.pauseMin.doubled(times: min(doubts, 10)), options.pauseMax)
    }
}
