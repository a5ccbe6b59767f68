import EngineContract
import Foundation
import Journal
import Model
import Ownership
import PostgresEngine
import Synchronization
import Testing

@Suite("A fence on PostgreSQL", .enabled(if: Server.isInstalled, Server.missing)) struct FenceTests {
    @Test("lets nothing in after it, and what was in was acknowledged")
    func nothingGoesInAfterAFence() throws {
        let (database, engine, session) = try opened(partitions: 4)
        let ready = DispatchSemaphore(value: 0)
        let writers = (0..<4).map { partition in
            Running {
                let engine = try PostgresEngine(database)
                var sequence: UInt64 = 2
                while true {
                    let batch = BatchID(UInt64(partition) << 32 | sequence)
                    let next = try row(partition, sequence)
                    switch engine.append(session: session, batch: batch, rows: [next]) {
                    case .rows([.appended]): sequence += 1
                    case .rows([.fenced]): return sequence - 1
                    case let other: throw Failed(description: "\(other)")
                    }
                    if sequence == 20 { ready.signal() }
                }
            }
        }
        for _ in writers { try demand(ready.wait(timeout: .now() + 120) == .success, "a writer appends") }
        try engine.fence(session)
        let atTheFence = try (0..<4).map { try engine.lastSequence(p($0)).rawValue }
        let acknowledged = try writers.map { try $0.wait() }
        #expect(try (0..<4).map { try engine.lastSequence(p($0)).rawValue } == atTheFence)
        #expect(acknowledged == atTheFence, "what was in was acknowledged, and the other way round")
        for partition in 0..<4 {
            let rows = try engine.read(p(partition), from: Sequence(2), bytesMax: .max)
            #expect(rows.map(\.sequence.rawValue) == Array(2...atTheFence[partition]))
        }
    }

    @Test("leaves the latest of many sessions that a node begins at once")
    func oneLives() throws {
        let database = try Server.shared().makeDatabase()
        let engine = try PostgresEngine(database)
        let beginners = (0..<4).map { _ in
            Running {
                let engine = try PostgresEngine(database)
                return try (0..<5).map { _ in try engine.beginSession(node: "a") }
            }
        }
        let all = try beginners.flatMap { try $0.wait() }.sorted()
        #expect(Set(all).count == 20)
        let living = try all.filter { try engine.isAlive($0) }
        #expect(living.count == 1)
        #expect(try engine.sessions().map(\.id) == living)
        let leases = try Other(database).run("SELECT count(*) FROM tidecast.lease")
        #expect(leases.first?.first.flatMap { Int($0) } ?? 99 < 8, "leases of the long dead are gone")
    }

    @Test("leaves a session alone whose lease has moved")
    func movedLease() throws {
        let engine = try newEngine()
        let session = try openSession(engine)
        _ = try engine.renewLease(session)
        #expect(try engine.renewLease(session) == 2)
        #expect(try !engine.fence(session, at: 1), "renewed since")
        #expect(try !engine.fence(SessionID(99), at: 2), "not known")
        #expect(try engine.isAlive(session))
        #expect(try engine.fence(session, at: 2))
        #expect(try !engine.isAlive(session))
        #expect(try engine.fence(session, at: 2), "dead already")
    }

    /// A fence that finds another counter must not wait for the session's row: each append of the living
    /// session holds the row's lock.
    @Test("takes no lock where it finds another counter")
    func noLock() throws {
        let (database, engine, session) = try opened()
        #expect(try engine.renewLease(session) == 1)
        let append = try Other(database)
        try append.run("BEGIN; SELECT FROM tidecast.session FOR SHARE")
        #expect(try !engine.fence(session, at: 0))
        #expect(throws: EngineError.self, "the row is locked") { try engine.fence(session, at: 1) }
        try append.run("COMMIT")
        #expect(try engine.fence(session, at: 1))
    }

    /// A fence waits for the lease's row, and then looks at the row again.
    @Test(
        "waits for a renewal under way, and spares a session that has renewed",
        arguments: ["COMMIT", "ROLLBACK"])
    func renewalUnderWay(end: String) throws {
        let (database, engine, session) = try opened()
        let renewal = try Other(database)
        let waiting = try Other(database)
        try renewal.run("BEGIN; UPDATE tidecast.lease SET counter = counter + 1")
        let fence = Running { try PostgresEngine(database, options: .patient).fence(session, at: 0) }
        try waiting.waitForALock()
        try renewal.run(end)
        #expect(try fence.wait() == (end == "ROLLBACK"))
        #expect(try engine.isAlive(session) == (end == "COMMIT"))
    }

    /// The renewal waits behind the fence and goes through, but the tables read after it have no such
    /// session.
    @Test("makes a look void whose lease was fenced meanwhile")
    func fencedLook() throws {
        let (database, _, session) = try opened()
        let fence = try Other(database)
        let waiting = try Other(database)
        try fence.run(
            "BEGIN; UPDATE tidecast.session SET alive = false; SELECT FROM tidecast.lease FOR SHARE")
        let look = Running {
            let engine = try PostgresEngine(database, options: .patient)
            let info = Ownership.NodeInfo(isShard: true, isGateway: true, peer: "a:1")
            return try Ownership.Poll(renewing: session, info: info, of: engine).sessions
        }
        try waiting.waitForALock()
        try fence.run("COMMIT")
        #expect(throws: EngineError.fenced) { try look.wait() }
        let counters = try waiting.run("SELECT counter FROM tidecast.lease")
        #expect(counters == [["1"]], "the renewal itself went through")
    }

    @Test("waits for a lock no longer than it is told, and so does an append")
    func lockWait() throws {
        let (database, engine, session) = try opened()
        let other = try Other(database)
        try other.run("BEGIN; SELECT * FROM tidecast.session FOR UPDATE")
        let sentence = "the database did not grant a lock in time"
        let outcome = engine.append(session: session, batch: BatchID(1), rows: [try row(0, 2)])
        #expect(outcome == .refused(sentence))
        #expect(throws: EngineError.refused(sentence)) { try engine.fence(session) }
        #expect(throws: EngineError.refused(sentence)) { try engine.isAlive(session) }
        try other.run("ROLLBACK")
        #expect(engine.failure == nil)
        #expect(try engine.look(p(0), Sequence(2)) == nil)
        let again = engine.append(session: session, batch: BatchID(2), rows: [try row(0, 2)])
        #expect(again == .rows([.appended]))
    }

    @Test("an append that meets another session's unfinished row is refused whole")
    func unfinishedRow() throws {
        let (database, engine, session) = try opened()
        let other = try Other(database)
        try other.run("BEGIN; INSERT INTO tidecast.journal VALUES (0, 2, 77, '')")
        let rows = [try row(0, 2), try row(1, 2)]
        #expect(engine.append(session: session, batch: BatchID(1), rows: rows).isRefused)
        #expect(try engine.look(p(1), Sequence(2)) == nil, "nothing of a refused append is in")
        try other.run("COMMIT")
        let again = engine.append(session: session, batch: BatchID(2), rows: rows)
        #expect(again == .rows([.taken, .appended]))
        #expect(try engine.look(p(0), Sequence(2)) == BatchID(77))
    }

    @Test("is seen by an append that waited behind it")
    func midAppend() throws {
        let (database, engine, session) = try opened()
        let other = try Other(database)
        let waiting = try Other(database)
        // The fence holds its lock. The append waits behind the fence, and then looks at the row again.
        try other.run("BEGIN; UPDATE tidecast.session SET alive = false")
        let append = Running {
            let engine = try PostgresEngine(database, options: .patient)
            return engine.append(session: session, batch: BatchID(1), rows: [try row(0, 2)])
        }
        try waiting.waitForALock()
        try other.run("COMMIT")
        #expect(try append.wait() == .rows([.fenced]))
        #expect(try engine.look(p(0), Sequence(2)) == nil)
    }

    @Test("lets takers race, and each epoch has one owner")
    func takersRace() throws {
        let database = try Server.shared().makeDatabase()
        let engine = try PostgresEngine(database)
        try engine.fence(try openSession(engine, partitions: 1))
        let taken = Mutex<[Epoch: SessionID]>([:])
        let takers = (0..<3).map { index in
            Running {
                let engine = try PostgresEngine(database)
                for round in 0..<15 {
                    let session = try engine.beginSession(node: "n\(index)")
                    let former = try engine.partitions()[0]
                    let next = try engine.lastSequence(p(0)).next.rawValue
                    do {
                        let barrier = try row(0, next, bytes: round)
                        let epoch = try engine.takeOver(p(0), from: former, by: session, barrier: barrier)
                        guard let epoch else { continue }
                        let before = taken.withLock { $0.updateValue(session, forKey: epoch) }
                        try demand(before == nil, "\(epoch) was given twice")
                        _ = engine.append(
                            session: session, batch: BatchID(session.rawValue << 40 | 1),
                            rows: [try row(0, next + 1)])
                    } catch EngineError.refused {
                        continue
                    }
                }
            }
        }
        for taker in takers { try taker.wait() }
        let epochs = taken.withLock { $0.keys.map(\.rawValue).sorted() }
        #expect(epochs == Array(2..<2 + UInt64(epochs.count)))
        #expect(try engine.partitions()[0].epoch.rawValue == epochs.last)
        // The journal has no hole, and each barrier stands in it once.
        let last = try engine.lastSequence(p(0)).rawValue
        let batches = try (1...last).map { try #require(try engine.look(p(0), Sequence($0))) }
        let barriers = batches.filter { $0.rawValue & (1 << 40 - 1) == 0 }
        #expect(barriers.count == epochs.count + 1)
    }
}
