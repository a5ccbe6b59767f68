import Glibc
import Journal
import Model

/// The thread's side: turns the appender's effects into calls of the engine, and their outcomes into events.
///
/// Sendable because it holds nothing that changes; what changes lives on the stack of `run`.
struct Worker: Sendable {
    let mailbox: Mailbox
    let tally: Tally
    let onFatal: @Sendable (String) -> Void
    let onResolved: @Sendable (Int, [Resolved]) -> Void

    private struct Run {
        let engine: any Engine
        var appender: Appender?
        var owners: [PartitionID: Int] = [:]
        var effects: [Appender.Effect] = []
        var jobs: [Mailbox.Job] = []
        /// Whom to tell that a partition is closed.
        var closings: [PartitionID: [@Sendable () -> Void]] = [:]
        var doubts = 0
        var isClosing = false
        var isIdle: Bool { effects.isEmpty && jobs.isEmpty && appender?.isIdle ?? true }
    }

    func run(_ makeEngine: @Sendable () throws -> any Engine) {
        do {
            var run = Run(engine: try makeEngine())
            serve(&run)
            if let reason = run.engine.failure { onFatal(reason) }
        } catch let error as EngineError {
            onFatal("\(error)")
        } catch {
            onFatal("\(error)")
        }
        // The engine is closed by here: whoever waits for the end may open the folder again.
        let left = mailbox.post { content in
            content.isEnded = true
            content.commands = []
            defer { content.jobs = [] }
            return content.jobs
        }
        for job in left { job(.failure(.ioFailure("the engine has ended"))) }
    }

    private func serve(_ run: inout Run) {
        while run.engine.failure == nil {
            fetch(&run, waiting: run.isIdle)
            for job in run.jobs.prefix(EngineThread.jobsBetweenCommitsMax) {
                guard run.engine.failure == nil else { break }
                job(.success(run.engine))
                run.jobs.removeFirst()
                tally.counters.withLock { $0.jobs += 1 }
            }
            carryOut(&run)
            if run.isClosing, run.isIdle || run.doubts >= EngineThread.doubtTriesAtEndMax,
                mailbox.post({ $0.isEmpty })
            {
                break
            }
        }
        for job in run.jobs { job(.failure(.ioFailure(run.engine.failure ?? "the engine has ended"))) }
        run.jobs = []
    }

    /// Takes what was posted and hands it to the appender.
    private func fetch(_ run: inout Run, waiting: Bool) {
        let (commands, jobs, isClosing) = mailbox.wait(until: { !waiting || !$0.isEmpty || $0.isClosing }) {
            content in
            defer {
                content.commands.removeAll(keepingCapacity: true)
                content.jobs.removeAll(keepingCapacity: true)
            }
            return (content.commands, content.jobs, content.isClosing)
        }
        run.isClosing = isClosing
        run.jobs.append(contentsOf: jobs)
        for command in commands {
            switch command {
            case .session(let session):
                // What the former session would still have asked of the engine is of no use any more.
                run.effects.removeAll { if case .resolved = $0 { false } else { true } }
                run.appender = Appender(session: session)
            case .opened(let partition, let next):
                run.appender?.on(.opened(partition, next: next), into: &run.effects)
            case .closing(let partition, let then):
                guard run.appender != nil else {
                    then()
                    continue
                }
                run.closings[partition, default: []].append(then)
                run.appender?.on(.closing(partition), into: &run.effects)
            case .rows(let rows, let owner):
                for row in rows { run.owners[row.partition] = owner }
                offer(rows, &run)
            }
        }
    }

    private func offer(_ rows: [Row], _ run: inout Run) {
        guard run.appender == nil else {
            run.appender?.on(.offered(rows), into: &run.effects)
            return
        }
        run.effects.append(
            .resolved(
                rows.map {
                    Resolved(
                        partition: $0.partition, sequence: $0.sequence,
                        resolution: .refused("no session has begun"))
                }))
    }

    /// Carries out effects until an append was done; the next one waits for its turn behind the jobs.
    private func carryOut(_ run: inout Run) {
        while !run.effects.isEmpty, run.engine.failure == nil {
            switch run.effects.removeFirst() {
            case .resolved(let resolved): report(resolved, run.owners)
            case .closed(let partition):
                for then in run.closings.removeValue(forKey: partition) ?? [] { then() }
            case .look(let partition, let sequence):
                guard let found = look(partition, sequence, run.engine) else { return }
                run.appender?.on(.looked(partition, sequence, found.batch), into: &run.effects)
            case .append(let batch, let rows):
                append(batch, rows, &run)
                // What has just been acknowledged leaves before jobs are run.
                while case .resolved(let resolved) = run.effects.first {
                    run.effects.removeFirst()
                    report(resolved, run.owners)
                }
                return
            }
        }
    }

    private func append(_ batch: BatchID, _ rows: [Row], _ run: inout Run) {
        guard let session = run.appender?.session else { return }
        let before = Worker.now()
        let outcome = run.engine.append(session: session, batch: batch, rows: rows)
        let time = Worker.now() - before
        // A failed engine's outcome is not believed, and nobody hears of it.
        guard run.engine.failure == nil else { return }
        switch outcome {
        case .rows:
            run.doubts = 0
            let bytes = rows.reduce(0) { $0 + $1.payload.count }
            tally.counters.withLock { $0.count(rows: rows.count, bytes: bytes, nanoseconds: time) }
        case .refused: tally.counters.withLock { $0.refused += 1 }
        case .unknown: tally.counters.withLock { $0.unknown += 1 }
        }
        // Rows that came during the commit are offered first, so that the next batch has them.
        fetch(&run, waiting: false)
        guard run.appender?.session == session else { return }
        run.appender?.on(.finished(outcome), into: &run.effects)
        if case .rows = outcome { return }
        let isFollowUp = run.effects.contains { effect in
            if case .append(let next, let left) = effect { next == batch || left.isEmpty } else { false }
        }
        if isFollowUp { pause(&run.doubts) }
    }

    private func pause(_ doubts: inout Int) {
        usleep(min(EngineThread.doubtPauseMin << UInt32(min(doubts, 10)), EngineThread.doubtPauseMax))
        doubts += 1
    }

    /// What a look found.
    private struct Found { var batch: BatchID? }

    /// Looks until the engine answers; `nil` when it has failed for good.
    private func look(_ partition: PartitionID, _ sequence: Sequence, _ engine: any Engine) -> Found? {
        var doubts = 0
        while engine.failure == nil {
            do throws(EngineError) {
                return Found(batch: try engine.look(partition, sequence))
            } catch {
                pause(&doubts)
            }
        }
        return nil
    }

    private func report(_ resolved: [Resolved], _ owners: [PartitionID: Int]) {
        var byOwner: [Int: [Resolved]] = [:]
        for one in resolved { byOwner[owners[one.partition] ?? 0, default: []].append(one) }
        for (owner, list) in byOwner { onResolved(owner, list) }
    }

    private static func now() -> UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }
}
