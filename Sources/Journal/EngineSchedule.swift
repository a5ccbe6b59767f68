import Model

/// What an engine's thread does next: the order of the appends and of the jobs of one engine.
///
/// The thread works in rounds: a few small jobs and one large one, then what the appender wants done, up to
/// one append. So a stream of jobs does not hold appends up, nor the other way round. A job is *large* where
/// it reads or writes up to a megabyte: a part of a snapshot, bodies of records. What an append has settled
/// leaves before the next jobs run. A pause holds up everything: it is made where the engine's last answer
/// was lost, and jobs would meet the same engine.
///
/// The thread adds what was posted to it, then calls `beginRound` and carries out steps until there is none.
/// Where nothing is left it sleeps until something is posted, or until `retryAt`: what the engine refused is
/// appended again then.
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
        /// Do nothing for so many nanoseconds.
        case pause(UInt64)
    }

    private let options: JournalOptions
    private var appender: Appender?
    private var effects: [Appender.Effect] = []
    private var jobs: [Job] = []
    private var largeJobs: [Job] = []
    private var jobsLeft = 0
    private var mayRunLarge = false
    /// The round's append is done, or a look has failed: what is settled leaves, then the round is over.
    private var hasAppended = false
    private var now = MonotonicTime(nanoseconds: 0)
    private var pause: UInt64 = 0
    /// How often in a row the answer of an append, or of a look, was lost.
    public private(set) var doubts: UInt64 = 0

    public init(_ options: JournalOptions = JournalOptions()) { self.options = options }

    /// Whether nothing waits and nothing is in flight, but for what was refused.
    public var isIdle: Bool {
        effects.isEmpty && jobs.isEmpty && largeJobs.isEmpty && appender?.isIdle ?? true
    }

    /// When what was refused is to be tried again.
    public var retryAt: MonotonicTime? { appender?.retryAt }

    // MARK: What was posted

    /// Rows are appended under this session from now on.
    public mutating func begin(_ session: SessionID) {
        // What the former session would still have asked of the engine is of no use any more.
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

    /// The engine has failed, or is to end: what was not run.
    public mutating func takeJobs() -> [Job] {
        defer { (jobs, largeJobs) = ([], []) }
        return jobs + largeJobs
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

    /// The round's next step; `nil` where it is over.
    public mutating func next() -> Step? {
        if pause > 0 {
            defer { pause = 0 }
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

    /// Add what was posted during the append before, so that the next batch has it.
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

    public mutating func looked(_ partition: PartitionID, _ sequence: Sequence, _ batch: BatchID?) {
        doubts = 0
        if case .look = effects.first { effects.removeFirst() }
        appender?.on(.looked(partition, sequence, batch), now: now, into: &effects)
    }

    /// The engine did not answer: the same look comes again after a pause, in the next round, so that
    /// whatever was posted meanwhile is heard first.
    public mutating func lookFailed() {
        hasAppended = true
        pause = pause(after: doubts)
        doubts += 1
    }

    private func pause(after doubts: UInt64) -> UInt64 {
        min(options.pauseMin << min(doubts, 10), options.pauseMax)
    }
}
