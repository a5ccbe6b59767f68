import Glibc
import Journal
import Model

/// The thread's side: carries out the steps of its schedule with calls of the engine.
///
/// Sendable because nothing in it changes; everything that changes lives on the stack of `run`.
struct Worker: Sendable {
    let mailbox: EngineMailbox
    let tally: Tally
    let onFatal: @Sendable (String) -> Void
    let onResolved: @Sendable (Int, [Resolved]) -> Void

    private struct Run {
        let engine: any Engine
        var schedule = EngineSchedule<EngineMailbox.Job>()
        var owners: [PartitionID: Int] = [:]
        /// Callbacks that wait for a partition to be closed.
        var closings: [PartitionID: [@Sendable () -> Void]] = [:]
        var isClosing = false
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
        // The engine is closed now, so the caller that waits in `shutdown` may open the folder again.
        let left = mailbox.post { content in
            content.isEnded = true
            content.commands = []
            defer { (content.jobs, content.largeJobs) = ([], []) }
            return content.jobs + content.largeJobs
        }
        for job in left { job(.failure(.ioFailure("the engine has ended"))) }
    }

    private func serve(_ run: inout Run) {
        while run.engine.failure == nil {
            fetch(&run, waiting: run.schedule.isIdle)
            run.schedule.beginRound(now: Worker.now)
            while run.engine.failure == nil, let step = run.schedule.next() { carryOut(step, &run) }
            let isGivenUp = run.schedule.doubts >= EngineThread.doubtTriesAtEndMax
            if run.isClosing, run.schedule.isIdle || isGivenUp, mailbox.post({ $0.isEmpty }) { break }
        }
        for job in run.schedule.takeJobs() {
            job(.failure(.ioFailure(run.engine.failure ?? "the engine has ended")))
        }
    }

    /// Takes what the loops have posted.
    private func fetch(_ run: inout Run, waiting: Bool) {
        let (commands, jobs, large, isClosing) = mailbox.wait(
            until: { !waiting || !$0.isEmpty || $0.isClosing }, orUntil: run.schedule.retryAt
        ) { content in
            defer {
                content.commands.removeAll(keepingCapacity: true)
                content.jobs.removeAll(keepingCapacity: true)
                content.largeJobs.removeAll(keepingCapacity: true)
            }
            return (content.commands, content.jobs, content.largeJobs, content.isClosing)
        }
        run.isClosing = isClosing
        run.schedule.add(jobs, large: large)
        for command in commands {
            switch command {
            case .session(let session): run.schedule.use(session)
            case .opened(let partition, let next): run.schedule.open(partition, next: next)
            case .closing(let partition, let then):
                run.closings[partition, default: []].append(then)
                run.schedule.close(partition)
            case .rows(let rows, let owner):
                for row in rows { run.owners[row.partition] = owner }
                run.schedule.offer(rows)
            }
        }
    }

    private func carryOut(_ step: EngineSchedule<EngineMailbox.Job>.Step, _ run: inout Run) {
        switch step {
        case .job(let job):
            job(.success(run.engine))
            tally.counters.withLock { $0.jobs += 1 }
        case .append(let session, let batch, let rows): append(batch, rows, session: session, run: &run)
        case .look(let partition, let sequence):
            do throws(EngineError) {
                let batch = try run.engine.look(partition, sequence)
                run.schedule.looked(partition, sequence, batch: batch)
            } catch {
                run.schedule.lookFailed()
            }
        case .resolved(let resolved): report(resolved, run.owners)
        case .closed(let partition):
            for then in run.closings.removeValue(forKey: partition) ?? [] { then() }
        case .pause(let length): usleep(UInt32(length.microseconds))
        }
    }

    private func append(_ batch: BatchID, _ rows: [Row], session: SessionID, run: inout Run) {
        let before = Worker.now
        let outcome = run.engine.append(session: session, batch: batch, rows: rows)
        let time = Worker.now.since(before)
        // The outcome of a failed engine is not believed, and the thread reports it to nobody.
        guard run.engine.failure == nil else { return }
        switch outcome {
        case .rows:
            let bytes = rows.reduce(0) { $0 + $1.payload.count }
            tally.counters.withLock { $0.count(rows: rows.count, bytes: bytes, time: time) }
        case .refused: tally.counters.withLock { $0.refused += 1 }
        case .unknown: tally.counters.withLock { $0.unknown += 1 }
        }
        // Rows that came during the commit are offered first, so that the next batch has them.
        fetch(&run, waiting: false)
        run.schedule.appended(outcome, batch, under: session, now: Worker.now)
    }

    private func report(_ resolved: [Resolved], _ owners: [PartitionID: Int]) {
        var byOwner: [Int: [Resolved]] = [:]
        for one in resolved { byOwner[owners[one.partition] ?? 0, default: []].append(one) }
        for (owner, list) in byOwner { onResolved(owner, list) }
    }

    private static var now: MonotonicTime {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return MonotonicTime(nanoseconds: UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec))
    }
}
