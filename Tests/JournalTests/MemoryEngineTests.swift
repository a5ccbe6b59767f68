import Journal
import MemoryEngine
import Model
import Testing

/// The appender over the engine in memory, under random faults and crashes. A durable record must never be
/// lost, a postponed record must not be in yet and must go in later, and the journal must have no holes.
@Suite struct AppenderOverMemoryTests {
    private struct World {
        var engine = MemoryEngine()
        var session = SessionID(0)
        var appender: Appender
        var effects: [Appender.Effect] = []
        var next: [UInt64]
        var durable: [Row] = []
        var offered: [Resolved.Place: Row] = [:]
        var now = MonotonicTime(nanoseconds: 0)
    }

    @Test(arguments: 1...60)
    func durableMeansDurable(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let count = 3
        let engine = MemoryEngine()
        try engine.createPartitions(count: count, histories: (0..<count).map { History(UInt64($0)) })
        var world = World(appender: Appender(session: SessionID(0)), next: [])
        world.engine = engine
        for _ in 0..<4 {
            try restart(&world, count)
            for _ in 0..<60 { try step(&world, count, &generator) }
            engine.faults = []
            if Bool.random(using: &generator) { try drain(&world) }
            engine.crash(keepsUnacknowledged: Bool.random(using: &generator))
            try check(world, count, "seed \(seed)")
        }
    }

    private func payload(_ partition: Int, _ sequence: UInt64, _ salt: UInt8) throws -> [UInt8] {
        try RecordCodec.encode(
            header: RecordHeader(
                partition: PartitionID(UInt16(partition)), sequence: Sequence(sequence), epoch: Epoch(1),
                history: History(1)), body: [salt])
    }

    private func restart(_ world: inout World, _ count: Int) throws {
        world.session = try world.engine.beginSession(node: "n")
        world.appender = Appender(session: world.session)
        world.effects = []
        world.offered = [:]
        world.next = []
        for former in try world.engine.partitions() {
            let next = try world.engine.lastSequence(former.id).next
            let barrier = Row(
                partition: former.id, sequence: next,
                payload: try payload(Int(former.id.rawValue), next.rawValue, 0))
            #expect(
                try world.engine.take(former.id, from: former, by: world.session, barrier: barrier) != nil)
            world.durable.append(barrier)
            world.next.append(next.rawValue + 1)
        }
    }

    private func step(_ world: inout World, _ count: Int, _ generator: inout SeededGenerator) throws {
        if Int.random(in: 0..<4, using: &generator) == 0 {
            let faults: [MemoryEngine.Fault?] = [.refuse, .loseReply, .loseRequest, nil]
            world.engine.faults.append(faults[Int.random(in: 0..<4, using: &generator)])
        }
        wake(&world, world.now.advanced(by: .milliseconds(UInt64.random(in: 0...40, using: &generator))))
        // The database fails over, and the appender does not notice.
        if Int.random(in: 0..<20, using: &generator) == 0 { world.engine.crash(keepsUnacknowledged: false) }
        if Bool.random(using: &generator) {
            let partition = Int.random(in: 0..<count, using: &generator)
            let sequence = world.next[partition]
            world.next[partition] += 1
            let row = Row(
                partition: PartitionID(UInt16(partition)), sequence: Sequence(sequence),
                payload: try payload(partition, sequence, UInt8.random(in: 1...255, using: &generator)))
            world.offered[Resolved.Place(row)] = row
            world.appender.on(.offered([row]), now: world.now, into: &world.effects)
        }
        try carryOut(&world)
    }

    private func drain(_ world: inout World) throws {
        while !world.effects.isEmpty || world.appender.retryAt != nil {
            if world.effects.isEmpty, let retryAt = world.appender.retryAt { wake(&world, retryAt) }
            try carryOut(&world)
        }
        #expect(world.appender.isIdle && world.offered.isEmpty)
    }

    private func wake(_ world: inout World, _ moment: MonotonicTime) {
        world.now = max(world.now, moment)
        world.appender.on(.woke, now: world.now, into: &world.effects)
    }

    /// Carries out the first effect.
    private func carryOut(_ world: inout World) throws {
        guard !world.effects.isEmpty else { return }
        switch world.effects.removeFirst() {
        case .append(let batch, let rows):
            let outcome = world.engine.append(session: world.session, batch: batch, rows: rows)
            world.appender.on(.finished(outcome), now: world.now, into: &world.effects)
        case .look(let partition, let sequence):
            let found = try world.engine.look(partition, sequence)
            world.appender.on(.looked(partition, sequence, found), now: world.now, into: &world.effects)
        case .closed(let partition): Issue.record("nobody gives partition \(partition) up")
        case .resolved(let list):
            for one in list {
                let row = try #require(world.offered[one.place])
                switch one.resolution {
                case .durable:
                    world.offered[one.place] = nil
                    world.durable.append(row)
                case .postponed:
                    #expect(try world.engine.read(row.partition, rows: [row.sequence]) != [row])
                case .crowded: break
                case .refused, .fenced, .taken, .unknown: Issue.record("nobody else writes: \(one)")
                }
            }
        }
    }

    private func check(_ world: World, _ count: Int, _ context: String) throws {
        for row in world.durable {
            #expect(try world.engine.read(row.partition, rows: [row.sequence]) == [row], "\(context)")
        }
        for partition in 0..<count {
            let rows = try world.engine.read(PartitionID(UInt16(partition)), from: .zero, bytesMax: .max)
            #expect(rows.map(\.sequence.rawValue) == Array(1..<UInt64(rows.count + 1)), "\(context)")
        }
    }

    @Test func damageIsFoundWhenARowIsRead() throws {
        let engine = MemoryEngine()
        try engine.createPartitions(count: 1, histories: [History(1)])
        let session = try engine.beginSession(node: "n")
        let one = PartitionID(0)
        let barrier = Row(partition: one, sequence: Sequence(1), payload: try payload(0, 1, 5))
        let former = try #require(try engine.partitions().first)
        #expect(try engine.take(one, from: former, by: session, barrier: barrier) == Epoch(1))
        let row = Row(partition: one, sequence: Sequence(2), payload: try payload(0, 2, 5))
        #expect(engine.append(session: session, batch: BatchID(1), rows: [row]) == .rows([.appended]))
        engine.damage(one, Sequence(2), byte: 42, mask: 4)
        #expect(throws: EngineError.self) { try engine.read(one, from: .zero, bytesMax: .max) }
    }

    @Test func aSessionWhoseLeaseHasMovedIsNotFenced() throws {
        let engine = MemoryEngine()
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

    @Test func aFailedEngineDoesNothingMore() throws {
        let engine = MemoryEngine()
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
    struct Place: Hashable {
        var partition: PartitionID
        var sequence: Sequence
        init(_ row: Row) { (partition, sequence) = (row.partition, row.sequence) }
        init(_ one: Resolved) { (partition, sequence) = (one.partition, one.sequence) }
    }
    var place: Place { Place(self) }
}
