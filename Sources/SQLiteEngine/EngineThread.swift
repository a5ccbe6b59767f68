import Glibc
import Journal
import Model

/// One thread that owns an engine and the appender of its session: everything that may wait for a disk
/// happens here.
///
/// Loops submit rows and go on. The moment a commit is done, all rows that came meanwhile go into the next
/// one (up to the appender's bounds), and every loop hears of its rows in one call. Reads and snapshots are
/// jobs; a few of them run between two commits, so that neither starves the other.
///
/// When the engine fails for good, `onFatal` is called once and nothing is resolved any more: what was in
/// flight was never acknowledged.
public final class EngineThread: Sendable {
    /// Jobs that wait; past it they fail with `refused`.
    public static let jobsWaitingMax = 65_536
    /// After the thread was told to end, tries to learn what became of a lost reply.
    static let doubtTriesAtEndMax: UInt64 = 8

    private let mailbox = Mailbox()
    private let tally = Tally()

    /// - Parameters:
    ///   - makeEngine: called on the thread, first of all; what it throws is fatal.
    ///   - onFatal: called on the thread, at most once, with the reason.
    ///   - onResolved: called on the thread, once for each owner and commit, with all that became of its
    /// rows.
    public init(
        makeEngine: @escaping @Sendable () throws -> any Engine,
        onFatal: @escaping @Sendable (String) -> Void,
        onResolved: @escaping @Sendable (_ owner: Int, [Resolved]) -> Void
    ) {
        let worker = Worker(
            mailbox: mailbox, tally: tally, onFatal: onFatal, onResolved: onResolved)
        EngineThread.start { worker.run(makeEngine) }
    }

    /// Rows are appended under this session from now on. The one before must have nothing in flight that
    /// matters.
    public func begin(_ session: SessionID) { post(.session(session)) }

    /// The session owns this partition; its next record has this sequence. Needed after a partition was lost
    /// and taken again; otherwise the first row that is submitted says where the partition stands.
    public func open(_ partition: PartitionID, next: Sequence) { post(.opened(partition, next: next)) }

    /// The session is about to give the partition up: what waits of it is dropped, what is in flight or in
    /// doubt is settled, then `then` is called on the thread. Only then may its row go: a record that comes
    /// later would stand behind the next owner's barrier.
    public func close(_ partition: PartitionID, then: @escaping @Sendable () -> Void) {
        post(.closing(partition, then: then))
    }

    /// Rows of partitions that live on the loop `owner`. Each partition's in order and without gaps, also
    /// over calls.
    public func submit(_ rows: [Row], for owner: Int) {
        if !rows.isEmpty { post(.rows(rows, owner: owner)) }
    }

    private func post(_ command: Mailbox.Command) {
        mailbox.post { if !$0.isEnded { $0.commands.append(command) } }
    }

    /// Runs `body` on the thread, between commits; `then` is called there with what came of it. Of those that
    /// are large (`EngineSchedule`) one runs between two commits.
    public func perform<Value: Sendable>(
        isLarge: Bool = false, _ body: @escaping @Sendable (any Engine) throws -> Value,
        then: @escaping @Sendable (Result<Value, any Error>) -> Void
    ) {
        let job: Mailbox.Job = { engine in
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

    /// Finishes what was submitted before, but for what the engine refuses, closes the engine, and returns
    /// when the thread is done with it. Never call it from one of the thread's own callbacks.
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
                // The one retain that `start` made is given back here, exactly once.
                if let context { Unmanaged<Start>.fromOpaque(context).takeRetainedValue().body() }
                return nil
            }, context)
        precondition(code == 0, "no thread for the engine: \(String(cString: strerror(code)))")
        pthread_detach(thread)
    }
}
