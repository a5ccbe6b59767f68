import Glibc
import Journal
import Model

/// One thread that owns an engine and the appender of its session: every call that may wait for a disk runs
/// here.
///
/// Loops submit rows and go on. When a commit is done, all rows that came meanwhile go into the next commit
/// (up to the appender's bounds), and the thread reports each loop's rows in one call. Reads and snapshots
/// are jobs. A few jobs run between two commits, so that neither starves the other.
///
/// When the engine fails for good, the thread calls `onFatal` once and resolves nothing any more: rows in
/// flight were never acknowledged.
public final class EngineThread: Sendable {
    /// Jobs that may wait; further jobs fail with `refused`.
    static let jobsWaitingMax = 65_536
    /// After `shutdown`, how often the thread tries to learn what became of a lost reply.
    static let doubtTriesAtEndMax: UInt64 = 8

    private let mailbox = EngineMailbox()
    private let tally = Tally()

    /// - Parameters:
    ///   - makeEngine: called on the thread, first of all; an error that it throws is fatal.
    ///   - onFatal: called on the thread, at most once, with the reason.
    ///   - onResolved: called on the thread, once for each owner and commit, with what became of all its
    ///     rows.
    public init(
        makeEngine: @escaping @Sendable () throws -> any Engine,
        onFatal: @escaping @Sendable (String) -> Void,
        onResolved: @escaping @Sendable (_ owner: Int, [Resolved]) -> Void
    ) {
        let worker = Worker(
            mailbox: mailbox, tally: tally, onFatal: onFatal, onResolved: onResolved)
        EngineThread.start { worker.run(makeEngine) }
    }

    /// From now on rows go in under this session. The session before must have nothing in flight that
    /// matters.
    public func use(_ session: SessionID) { post(.session(session)) }

    /// The session owns this partition, and its next record has this sequence. Needed after a partition was
    /// lost and taken again; otherwise the first submitted row shows the partition's sequence.
    public func open(_ partition: PartitionID, next: Sequence) { post(.opened(partition, next: next)) }

    /// The session is about to give the partition up. The thread drops the partition's waiting rows, settles
    /// those in flight or in doubt, then calls `then`. Only then may the session give the row up: a later
    /// record would be behind the next owner's barrier.
    public func close(_ partition: PartitionID, then: @escaping @Sendable () -> Void) {
        post(.closing(partition, then: then))
    }

    /// Rows of partitions that live on the loop `owner`. Each partition's rows must be in order and without
    /// gaps, also across calls.
    public func submit(_ rows: [Row], for owner: Int) {
        if !rows.isEmpty { post(.rows(rows, owner: owner)) }
    }

    private func post(_ command: EngineMailbox.Command) {
        mailbox.post { if !$0.isEnded { $0.commands.append(command) } }
    }

    /// Runs `body` on the thread, between commits, then calls `then` there with the result. Of the large jobs
    /// (`EngineSchedule`) one runs between two commits.
    public func perform<Value: Sendable>(
        isLarge: Bool = false, _ body: @escaping @Sendable (any Engine) throws -> Value,
        then: @escaping @Sendable (Result<Value, any Error>) -> Void
    ) {
        let job: EngineMailbox.Job = { engine in
            then(Result { try body(try engine.get()) })
        }
        let refusal: EngineError? = mailbox.post { content in
            if content.isEnded { return .ioFailure("the engine has ended") }
            if content.jobs.count + content.largeJobs.count >= EngineThread.jobsWaitingMax {
                return .refused("too many jobs wait")
            }
            if isLarge { content.largeJobs.append(job) } else { content.jobs.append(job) }
            return nil
        }
        if let refusal { job(.failure(refusal)) }
    }

    /// Finishes everything submitted before, except what the engine refuses, closes the engine, and returns
    /// when the thread is done with it. The thread's own callbacks must never call this.
    public func shutdown() {
        mailbox.post { $0.isClosing = true }
        mailbox.wait(until: { $0.isEnded }, { _ in })
    }

    public var counters: EngineCounters { tally.counters.withLock { $0 } }

    private final class Start {
        let body: () -> Void
        init(_ body: @escaping () -> Void) { self.body = body }
    }

    private static func start(_ body: @escaping @Sendable () -> Void) {
        var thread = pthread_t()
        let context = Unmanaged.passRetained(Start(body)).toOpaque()
        let code = pthread_create(
            &thread, nil,
            { context in
                // This gives back the one retain that `start` made, exactly once.
                if let context { Unmanaged<Start>.fromOpaque(context).takeRetainedValue().body() }
                return nil
            }, context)
        precondition(code == 0, "no thread for the engine: \(String(cString: strerror(code)))")
        pthread_detach(thread)
    }
}
