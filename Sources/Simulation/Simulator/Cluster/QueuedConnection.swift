import Journal
import Model
import NodeCore

/// A process's connection to one database: one call at a time. A call takes some time, or fails.
class EngineConnection {
    enum Kind { case append, write, read }
    unowned let process: SimulatedProcess
    let database: SimulatedDatabase
    unowned let world: ClusterSimulation
    /// Until when calls on this connection hang.
    var stallsUntil = MonotonicTime.zero

    init(_ process: SimulatedProcess, _ database: SimulatedDatabase) {
        self.process = process
        self.database = database
        world = process.world
    }

    /// `execute` carries the call out, and returns what the process does when the answer comes.
    final func call(
        _ kind: Kind, lasting length: TimeSpan = .zero,
        _ execute: @escaping (SimulatedDatabase.Fate) -> () -> Void
    ) {
        let database = database
        var delay = database.travel(isWrite: kind != .read) + length
        delay += stallsUntil.since(world.now)
        if kind == .append, world.isLoading, !world.isHealing, world.options.hasFaults,
            world.chance(world.options.stallPerMille)
        {
            delay += world.roll(world.options.stallMax)
            world.trouble(for: delay)
        }
        let process = process
        world.after(delay, .database) { [world] in
            // A call of a process that has ended meanwhile arrives, or does not.
            if !process.isRunning, world.roll(2) == 0 { return }
            let fate = database.fate(of: kind, from: process.index)
            let answer = execute(fate)
            var back = TimeSpan.microseconds(100) + world.roll(.microseconds(900))
            if case .unsent = fate { back += world.roll(.milliseconds(300)) }
            world.after(back, .answered, process: process) { answer() }
        }
    }

    /// Carries a call out by its fate; `then` gets the result.
    static func execute<Value>(
        _ body: @escaping (SimulatedDatabase) throws -> Value, at database: SimulatedDatabase,
        then: @escaping (Result<Value, any Error>) -> Void
    ) -> (SimulatedDatabase.Fate) -> () -> Void {
        { fate in
            switch fate {
            case .works, .late:
                let result = Result { try body(database) }
                return { then(result) }
            case .replyLost:
                _ = Result { try body(database) }
                return { then(.failure(EngineError.refused("the reply was lost"))) }
            case .unsent, .requestLost, .refused:
                return { then(.failure(EngineError.refused("cannot reach the database"))) }
            }
        }
    }
}

/// A connection with its thread, which runs jobs in their order.
final class QueuedConnection: EngineConnection {
    private struct Job {
        var kind: Kind
        var length: TimeSpan
        var execute: (SimulatedDatabase.Fate) -> () -> Void
    }
    private var jobs: [Job] = []
    private(set) var isBusy = false

    /// Runs `body` at the database for `length` beyond the way; `then` gets the result.
    func perform<Value>(
        _ kind: Kind, lasting length: TimeSpan = .zero, _ body: @escaping (SimulatedDatabase) throws -> Value,
        then: @escaping (Result<Value, any Error>) -> Void
    ) {
        jobs.append(
            Job(
                kind: kind, length: length, execute: EngineConnection.execute(body, at: database, then: then))
        )
        startNext()
    }

    private func startNext() {
        guard !isBusy, !jobs.isEmpty else { return }
        isBusy = true
        let job = jobs.removeFirst()
        call(job.kind, lasting: job.length) { fate in
            let answer = job.execute(fate)
            return {
                self.isBusy = false
                answer()
                self.startNext()
            }
        }
    }
}

/// The thread that writes a process's journals, in the place of `EngineThread`: the real schedule of jobs and
/// appends, on its own connection.
final class SimulatedEngine: EngineConnection {
    private struct Job {
        var kind: Kind
        var execute: (SimulatedDatabase.Fate) -> () -> Void
    }
    /// Commands and jobs that came since the thread last looked.
    private struct EngineMailbox {
        var commands: [(inout EngineSchedule<Job>) -> Void] = []
        var jobs: [Job] = []
        var largeJobs: [Job] = []
        var isEmpty: Bool { commands.isEmpty && jobs.isEmpty && largeJobs.isEmpty }
    }
    private var mailbox = EngineMailbox()
    private var schedule: EngineSchedule<Job>
    private var isBusy = false
    /// When the thread wakes to append refused records again.
    private var wakesAt: MonotonicTime?
    /// `report` gets the outcomes of rows, `closed` each partition of which nothing is in flight any more.
    private let report: ([Resolved]) -> Void
    private let closed: (PartitionID) -> Void

    init(
        _ process: SimulatedProcess, _ database: SimulatedDatabase, report: @escaping ([Resolved]) -> Void,
        closed: @escaping (PartitionID) -> Void
    ) {
        self.report = report
        self.closed = closed
        schedule = EngineSchedule(process.world.options.journal)
        super.init(process, database)
        schedule.use(process.session)
    }

    func open(_ partition: PartitionID, next: Sequence) {
        mailbox.commands.append { $0.open(partition, next: next) }
        work()
    }

    func close(_ partition: PartitionID) {
        mailbox.commands.append { $0.close(partition) }
        work()
    }

    func submit(_ rows: [Row]) {
        mailbox.commands.append { $0.offer(rows) }
        work()
    }

    /// Runs `body` at the database between appends; `then` gets the result.
    func perform<Value>(
        _ kind: Kind, isLarge: Bool = false, _ body: @escaping (SimulatedDatabase) throws -> Value,
        then: @escaping (Result<Value, any Error>) -> Void
    ) {
        let job = Job(kind: kind, execute: EngineConnection.execute(body, at: database, then: then))
        if isLarge { mailbox.largeJobs.append(job) } else { mailbox.jobs.append(job) }
        work()
    }

    private func fetch() {
        schedule.add(mailbox.jobs, large: mailbox.largeJobs)
        for command in mailbox.commands { command(&schedule) }
        mailbox = EngineMailbox()
    }

    /// Carries out steps until one takes time.
    private func work() {
        while !isBusy, process.isRunning {
            if let step = schedule.next() {
                carryOut(step)
            } else if schedule.isIdle, mailbox.isEmpty, !isRetryDue {
                return sleep()
            } else {
                fetch()
                schedule.beginRound(now: now)
            }
        }
    }

    private var now: MonotonicTime { world.now }
    private var isRetryDue: Bool { schedule.retryAt.map { $0 <= now } ?? false }

    private func sleep() {
        guard let retryAt = schedule.retryAt, wakesAt.map({ retryAt < $0 }) ?? true else {
            return
        }
        wakesAt = retryAt
        world.after(retryAt.since(world.now), .timer, process: process) {
            self.wakesAt = nil
            self.work()
        }
    }

    private func carryOut(_ step: EngineSchedule<Job>.Step) {
        switch step {
        case .job(let job): occupy(job.kind, job.execute)
        case .append(let session, let batch, let rows):
            let database = database
            occupy(.append) { fate in
                let outcome = database.append(session: session, batch: batch, rows: rows, fate)
                return { [self] in
                    if case .unknown = outcome, process.lone != nil { return database.gaveUp(on: process) }
                    fetch()
                    schedule.appended(outcome, batch, under: session, now: now)
                }
            }
        case .look(let partition, let sequence):
            let look = EngineConnection.execute(
                { try $0.engine.look(partition, sequence) }, at: database
            ) { result in
                switch result {
                case .success(let batch): self.schedule.looked(partition, sequence, batch: batch)
                case .failure: self.schedule.lookFailed()
                }
            }
            occupy(.read, look)
        case .resolved(let resolved): report(resolved)
        case .closed(let partition): closed(partition)
        case .pause(let length):
            isBusy = true
            world.after(length, .timer, process: process) {
                self.isBusy = false
                self.work()
            }
        }
    }

    private func occupy(_ kind: Kind, _ execute: @escaping (SimulatedDatabase.Fate) -> () -> Void) {
        isBusy = true
        call(kind) { fate in
            let answer = execute(fate)
            return {
                self.isBusy = false
                answer()
                self.work()
            }
        }
    }
}

/// A process's connections to one database, in the place of `DatabaseConnections` and the journals' thread.
final class SimulatedConnections {
    private unowned let process: SimulatedProcess
    let lease: QueuedConnection
    let control: QueuedConnection
    let loader: QueuedConnection
    let journal: SimulatedEngine

    init(_ process: SimulatedProcess, _ database: SimulatedDatabase) {
        self.process = process
        control = QueuedConnection(process, database)
        #if DEBUG
            let isShared = process.world.options.plantedInCluster.contains(.leaseBehindTakes)
            lease = isShared ? control : QueuedConnection(process, database)
        #else
            lease = QueuedConnection(process, database)
        #endif
        loader = QueuedConnection(process, database)
        journal = SimulatedEngine(
            process, database, report: { [unowned process] in process.report($0) },
            closed: { [unowned process] in process.loop(of: $0).post(.engine(.closed($0))) })
    }

    var all: [EngineConnection] { [control, journal, loader, lease] }

    /// Runs `body`, which carries the call out, on the call's line.
    func perform<Value>(
        _ call: DatabaseCall, _ body: @escaping (SimulatedDatabase) throws -> Value,
        then: @escaping (Result<Value, any Error>) -> Void
    ) {
        let kind: EngineConnection.Kind = call.isWrite ? .write : .read
        var length = TimeSpan.zero
        if case .takeOver = call { length = control.database.takesLast }
        switch process.lone == nil ? call.line : .journal {
        case .lease: lease.perform(kind, body, then: then)
        case .control: control.perform(kind, lasting: length, body, then: then)
        case .loader: loader.perform(kind, body, then: then)
        case .journal: journal.perform(kind, isLarge: call.isLarge, body, then: then)
        }
    }
}
