import Journal
import Model
import Testing

/// The order in which an engine's thread does its work.
@Suite("The schedule of an engine's thread") struct EngineScheduleTests {
    private let session = SessionID(3)
    private let zero = MonotonicTime.zero
    private var first: BatchID { BatchID(3 << 40 | 1) }

    private func row(_ sequence: UInt64) -> Row {
        Row(partition: PartitionID(0), sequence: Sequence(sequence), payload: [1])
    }

    private func schedule(jobs: Int = 0, rows: UInt64 = 0) -> EngineSchedule<Int> {
        var schedule = EngineSchedule<Int>()
        schedule.use(session)
        schedule.add(Array(0..<jobs))
        for sequence in 0..<rows { schedule.offer([row(sequence + 1)]) }
        return schedule
    }

    /// The steps of one round, in short. The engine answers appends with `outcome`.
    private func round(
        _ schedule: inout EngineSchedule<Int>, _ outcome: AppendOutcome = .rows([.appended]),
        milliseconds: UInt64 = 0
    ) -> [String] {
        let now = MonotonicTime(.milliseconds(milliseconds))
        var steps: [String] = []
        schedule.beginRound(now: now)
        while let step = schedule.next() {
            switch step {
            case .job(let job): steps.append("job \(job)")
            case .append(let session, let batch, let rows):
                steps.append("append \(rows.count)")
                schedule.appended(outcome, batch, under: session, now: now)
            case .look(let partition, let sequence):
                steps.append("look")
                schedule.looked(partition, sequence, batch: first)
            case .resolved(let resolved): steps.append("resolved \(resolved.count)")
            case .closed(let partition): steps.append("closed \(partition.rawValue)")
            case .pause(let length): steps.append("pause \(length.milliseconds)")
            }
        }
        return steps
    }

    @Test("runs four jobs, then an append, then tells what it settled")
    func order() {
        var schedule = schedule(jobs: 6, rows: 2)
        let jobs = ["job 0", "job 1", "job 2", "job 3"]
        #expect(round(&schedule) == jobs + ["append 1", "resolved 1"])
        #expect(round(&schedule) == ["job 4", "job 5", "append 1", "resolved 1"])
        #expect(schedule.isIdle && round(&schedule).isEmpty)
    }

    @Test("runs one large job before an append, behind the small ones")
    func large() {
        var schedule = schedule(jobs: 1, rows: 2)
        schedule.add([], large: [10, 11, 12])
        #expect(round(&schedule) == ["job 0", "job 10", "append 1", "resolved 1"])
        #expect(round(&schedule) == ["job 11", "append 1", "resolved 1"])
        #expect(!schedule.isIdle && schedule.takeJobs() == [12] && schedule.isIdle)
    }

    @Test("goes on with jobs alone, and with appends alone")
    func alone() {
        var jobs = schedule(jobs: 5)
        #expect(round(&jobs).count == 4 && round(&jobs) == ["job 4"] && jobs.isIdle)
        var rows = schedule(rows: 1)
        #expect(round(&rows) == ["append 1", "resolved 1"] && rows.isIdle)
    }

    @Test("waits longer each time that an append's answer is lost, and jobs wait with it")
    func doubts() {
        var schedule = schedule(jobs: 1, rows: 1)
        let lost = AppendOutcome.unknown("lost")
        #expect(round(&schedule, lost) == ["job 0", "append 1", "pause 10"])
        schedule.add([7])
        #expect(round(&schedule, lost) == ["job 7", "append 1", "pause 20"])
        for _ in 0..<8 { _ = round(&schedule, lost) }
        #expect(round(&schedule, lost) == ["append 1", "pause 500"] && schedule.doubts == 11)
        #expect(round(&schedule) == ["append 1", "resolved 1"])
        #expect(schedule.doubts == 0 && schedule.isIdle)
    }

    @Test("appends again what was refused, after a while in which everything else goes on")
    func refusals() {
        var schedule = schedule(jobs: 1, rows: 1)
        let full = AppendOutcome.refused("full")
        #expect(round(&schedule, full) == ["job 0", "append 1", "resolved 1"])
        #expect(schedule.isIdle && schedule.doubts == 0)
        #expect(schedule.retryAt == MonotonicTime(.milliseconds(50)))
        schedule.add([1])
        schedule.offer([row(2)])
        #expect(round(&schedule, milliseconds: 40) == ["job 1"])
        #expect(round(&schedule, full, milliseconds: 50) == ["append 2", "resolved 1"])
        let in150 = round(&schedule, .rows([.appended, .appended]), milliseconds: 150)
        #expect(in150 == ["append 2", "resolved 2"])
        #expect(schedule.isIdle && schedule.retryAt == nil)
    }

    /// A round has at most one failed look: between two looks the thread takes new work, and hears of its own
    /// end.
    @Test("looks again after a pause where the engine does not answer, in a round of its own")
    func looking() {
        var schedule = schedule(rows: 1)
        _ = round(&schedule, .unknown("lost"))
        #expect(round(&schedule, .rows([.taken])) == ["append 1"])
        for (tries, pause) in [UInt64(10), 20, 40].enumerated() {
            schedule.add([tries])
            schedule.beginRound(now: zero)
            guard case .job(tries)? = schedule.next(), case .look? = schedule.next() else {
                Issue.record("no job, or no look")
                return
            }
            schedule.lookFailed()
            guard case .pause(.milliseconds(pause))? = schedule.next() else {
                Issue.record("no pause")
                return
            }
            if schedule.next() != nil || schedule.isIdle { Issue.record("the round goes on") }
            #expect(schedule.doubts == UInt64(tries) + 1)
        }
        #expect(round(&schedule) == ["look", "resolved 1"] && schedule.isIdle && schedule.doubts == 0)
    }

    @Test("closes a partition when what is in flight of it is settled")
    func closing() {
        var schedule = schedule(rows: 2)
        schedule.beginRound(now: zero)
        guard case .append(let session, let batch, _)? = schedule.next() else {
            Issue.record("nothing is appended")
            return
        }
        schedule.close(PartitionID(0))
        schedule.appended(.rows([.appended]), batch, under: session, now: zero)
        // The row that waited is refused; the one in flight is durable.
        #expect(round(&schedule) == ["resolved 1", "resolved 1", "closed 0"])
        schedule.close(PartitionID(0))
        #expect(round(&schedule) == ["closed 0"] && schedule.isIdle)
    }

    @Test("refuses rows before a session has begun, and forgets the appends of the one before")
    func sessions() {
        var schedule = EngineSchedule<Int>()
        schedule.offer([row(1)])
        schedule.use(session)
        schedule.offer([row(1)])
        schedule.use(SessionID(4))
        #expect(round(&schedule) == ["resolved 1"])
        schedule.offer([row(1)])
        guard case .append(SessionID(4), _, _)? = schedule.next() else {
            Issue.record("nothing is appended under the new session")
            return
        }
    }
}
