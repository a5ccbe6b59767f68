import Journal
import MemoryEngine
import Model
import Testing

/// The appender over the engine in memory, under random faults and crashes. A durable record must never be
/// lost, a postponed record must not be in yet and must go in later, and the journal must have no holes.
@Suite("The engine in memory") struct AppenderOverMemoryTests {
    private let engine = MemoryEngine()

    private struct AppenderHarness {
        var engine = MemoryEngine()
        var session = SessionID(0)
        var appender: Appender
        var effects: [Appender.Effect] = []
        var next: [UInt64]
        var durable: [Row] = []
        var offered: [Resolved.Key: Row] = [:]
        var now = MonotonicTime.zero
    }

    @Test(
        "under an appender loses nothing durable and leaves no hole, whatever fails or crashes",
        arguments: 1...60)
    func durableMeansDurable(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let count = 3
        try engine.createPartitions(count: count, histories: (0..<count).map { History(UInt64($0)) })
        var harness = AppenderHarness(appender: Appender(session: SessionID(0)), next: [])
        harness.engine = engine
        for _ in 0..<4 {
            try restart(&harness, count)
            for _ in 0..<60 { try step(&harness, count, &generator) }
            engine.faults = []
            if Bool.random(using: &generator) { try drain(&harness) }
            engine.crash(keepsUnacknowledged: Bool.random(using: &generator))
            try check(harness, count, "seed \(seed)")
        }
    }

    private func payload(_ partition: Int, _ sequence: UInt64, _ salt: UInt8) throws -> [UInt8] {
        try RecordCodec.encode(
            header: RecordHeader(
                partition: PartitionID(UInt16(partition)), sequence: Sequence(sequence), epoch: Epoch(1),
                history: History(1)), body: [salt])
    }

    private func restart(_ harness: inout AppenderHarness, _ count: Int) throws {
        harness.session = try harness.engine.beginSession(node: "n")
        harness.appender = Appender(session: harness.session)
        harness.effects = []
        harness.offered = [:]
        harness.next = []
        for former in try harness.engine.partitions() {
            let next = try harness.engine.lastSequence(former.id).next
            let barrier = Row(
                partition: former.id, sequence: next,
                payload: try payload(Int(former.id.rawValue), next.rawValue, 0))
            #expect(
                try harness.engine.takeOver(former.id, from: former, by: harness.session, barrier: barrier)
                    != nil
            )
            harness.durable.append(barrier)
            harness.next.append(next.rawValue + 1)
        }
    }

    private func step(_ harness: inout AppenderHarness, _ count: Int, _ generator: inout SeededGenerator)
        throws
    {
        if Int.random(in: 0..<4, using: &generator) == 0 {
            let faults: [MemoryEngine.Fault?] = [.refuse, .loseReply, .loseRequest, nil]
            harness.engine.faults.append(faults[Int.random(in: 0..<4, using: &generator)])
        }
        wake(&harness, harness.now.advanced(by: .milliseconds(UInt64.random(in: 0...40, using: &generator))))
        // The database fails over, and the appender does not notice.
        if Int.random(in: 0..<20, using: &generator) == 0 { harness.engine.crash(keepsUnacknowledged: false) }
        if Bool.random(using: &generator) {
            let partition = Int.random(in: 0..<count, using: &generator)
            let sequence = harness.next[partition]
            harness.next[partition] += 1
            let row = Row(
                partition: PartitionID(UInt16(partition)), sequence: Sequence(sequence),
                payload: try payload(partition, sequence, UInt8.random(in: 1...255, using: &generator)))
            harness.offered[Resolved.Key(row)] = row
            harness.appender.on(.offered([row]), now: harness.now, into: &harness.effects)
        }
        try carryOut(&harness)
    }

    private func drain(_ harness: inout AppenderHarness) throws {
        while !harness.effects.isEmpty || harness.appender.retryAt != nil {
            if harness.effects.isEmpty, let retryAt = harness.appender.retryAt { wake(&harness, retryAt) }
            try carryOut(&harness)
        }
        #expect(harness.appender.isIdle && harness.offered.isEmpty)
    }

    private func wake(_ harness: inout AppenderHarness, _ moment: MonotonicTime) {
        harness.now = max(harness.now, moment)
        harness.appender.on(.woke, now: harness.now, into: &harness.effects)
    }

    /// Carries out the first effect.
    private func carryOut(_ harness: inout AppenderHarness) throws {
        guard !harness.effects.isEmpty else { return }
        switch harness.effects.removeFirst() {
        case .append(let batch, let rows):
            let outcome = harness.engine.append(session: harness.session, batch: batch, rows: rows)
            harness.appender.on(.finished(outcome), now: harness.now, into: &harness.effects)
        case .look(let partition, let sequence):
            let found = try harness.engine.look(partition, sequence)
            harness.appender.on(
                .looked(partition, sequence, batch: found), now: harness.now, into: &harness.effects)
        case .closed(let partition): Issue.record("nobody gives partition \(partition) up")
        case .resolved(let list):
            for one in list {
                let row = try #require(harness.offered[one.key])
                switch one.resolution {
                case .durable:
                    harness.offered[one.key] = nil
                    harness.durable.append(row)
                case .postponed:
                    #expect(try harness.engine.read(row.partition, rows: [row.sequence]) != [row])
                case .crowded: break
                case .refused, .fenced, .taken, .unknown: Issue.record("nobody else writes: \(one)")
                }
            }
        }
    }

    private func check(_ harness: AppenderHarness, _ count: Int, _ context: String) throws {
        for row in harness.durable {
            #expect(try harness.engine.read(row.partition, rows: [row.sequence]) == [row], "\(context)")
        }
        for partition in 0..<count {
            let rows = try harness.engine.read(PartitionID(UInt16(partition)), from: .zero, bytesMax: .max)
            #expect(rows.map(\.sequence.rawValue) == Array(1..<UInt64(rows.count + 1)), "\(context)")
        }
    }

    @Test("finds damage when a row is read")
    func damage() throws {
        try engine.createPartitions(count: 1, histories: [History(1)])
        let session = try engine.beginSession(node: "n")
        let one = PartitionID(0)
        let barrier = Row(partition: one, sequence: Sequence(1), payload: try payload(0, 1, 5))
        let former = try #require(try engine.partitions().first)
        #expect(try engine.takeOver(one, from: former, by: session, barrier: barrier) == Epoch(1))
        let row = Row(partition: one, sequence: Sequence(2), payload: try payload(0, 2, 5))
        #expect(engine.append(session: session, batch: BatchID(1), rows: [row]) == .rows([.appended]))
        engine.damage(one, Sequence(2), byte: 42, mask: 4)
        #expect(throws: EngineError.self) { try engine.read(one, from: .zero, bytesMax: .max) }
    }

    @Test("leaves a session alone whose lease has moved")
    func movedLease() throws {
        let session = try engine.beginSession(node: "n")
        try engine.renewLease(session, info: [])
        try engine.renewLease(session, info: [])
        #expect(try !engine.fence(session, at: 1), "renewed since")
        #expect(try !engine.fence(SessionID(9), at: 2), "not known")
        #expect(try engine.isAlive(session))
        #expect(try engine.fence(session, at: 2))
        #expect(try !engine.isAlive(session))
        #expect(try engine.fence(session, at: 2), "dead already")
    }

    @Test("does nothing more once it has failed")
    func doesNothing() throws {
        try engine.createPartitions(count: 1, histories: [History(1)])
        let session = try engine.beginSession(node: "n")
        engine.faults = [.fail(afterCommit: true)]
        let row = Row(partition: PartitionID(0), sequence: Sequence(1), payload: try payload(0, 1, 5))
        _ = engine.append(session: session, batch: BatchID(1), rows: [row])
        #expect(engine.failure != nil)
        #expect(throws: EngineError.self) { try engine.partitions() }
    }
}

extension Resolved {
    struct Key: Hashable {
        var partition: PartitionID
        var sequence: Sequence
        init(_ row: Row) { (partition, sequence) = (row.partition, row.sequence) }
        init(_ one: Resolved) { (partition, sequence) = (one.partition, one.sequence) }
    }
    var key: Key { Key(self) }
}
