import EngineContract
import Foundation
import Journal
import Model
import PostgresEngine
import Testing

/// On a real server. Skipped where none is installed.
@Suite(.serialized, .enabled(if: Database.shared != nil, "no PostgreSQL server is installed"))
struct PostgresTests {
    private func database() throws -> Database { try #require(Database.shared) }

    @Test(arguments: EngineContract.rules)
    func postgresKeepsTheContract(rule: EngineContract.Rule) throws {
        try rule.check(try PostgresEngine(try database().make()))
    }

    @Test func leasesMoveWhileTheyAreRenewed() throws {
        let engine = try PostgresEngine(try database().make())
        let first = try engine.beginSession(node: "a")
        let second = try engine.beginSession(node: "b")
        try engine.renewLease(first, info: [1, 2, 3])
        try engine.renewLease(first, info: [1, 2])
        let rows = try engine.sessions()
        #expect(rows.map(\.id) == [first, second] && rows.map(\.counter) == [2, 0])
        #expect(rows[0].info == [1, 2] && rows[0].node == "a")
        try engine.fence(second)
        #expect(try engine.sessions().map(\.id) == [first])
        #expect(throws: EngineError.fenced) { try engine.renewLease(second, info: []) }
    }

    @Test func aPartitionIsGivenUpByItsOwnerAlone() throws {
        let engine = try PostgresEngine(try database().make())
        let owner = try begin(engine)
        let other = try engine.beginSession(node: "b")
        #expect(throws: EngineError.fenced) { try engine.release(p(0), by: other) }
        try engine.release(p(0), by: owner)
        let free = try engine.partitions()[0]
        #expect(free.owner == nil)
        #expect(try engine.take(p(0), from: free, by: other, barrier: try row(0, 2)) == Epoch(2))
        #expect(throws: EngineError.fenced) { try engine.release(p(0), by: owner) }
    }

    /// Four writers append as fast as they can; after the fence has returned, nothing of theirs goes in.
    @Test func nothingGoesInBehindAFence() throws {
        let place = try database().make()
        let engine = try PostgresEngine(place)
        let session = try begin(engine, partitions: 4)
        let group = DispatchGroup()
        for writer in 0..<4 {
            DispatchQueue.global().async(group: group) {
                guard let mine = try? PostgresEngine(place) else { return }
                for sequence in UInt64(2)..<5_000 {
                    guard let next = try? row(writer, sequence) else { return }
                    let outcome = mine.append(
                        session: session, batch: BatchID(UInt64(writer) << 32 | sequence), rows: [next])
                    if outcome == .rows([.fenced]) { return }
                }
            }
        }
        Thread.sleep(forTimeInterval: 0.3)
        try engine.fence(session)
        let last = try (0..<4).map { try engine.lastSequence(p($0)) }
        group.wait()
        #expect(try (0..<4).map { try engine.lastSequence(p($0)) } == last)
        #expect(last.contains { $0 > Sequence(2) }, "somebody wrote before the fence")
    }

    /// The server ends the connection again and again: each append that was called good is there, and what
    /// is unknown is found by looking.
    @Test func brokenConnectionsLoseNothingThatWasAcknowledged() throws {
        let place = try database().make()
        let engine = try PostgresEngine(place)
        let session = try begin(engine, partitions: 1)
        let group = DispatchGroup()
        let isDone = Flag()
        DispatchQueue.global().async(group: group) {
            guard let ender = try? PostgresEngine(place) else { return }
            while !isDone.value {
                Thread.sleep(forTimeInterval: 0.02)
                try? ender.endOthers()
            }
        }
        var unknown = 0
        var sequence: UInt64 = 2
        while sequence < 3_000 {
            let next = try row(0, sequence)
            switch engine.append(session: session, batch: BatchID(sequence), rows: [next]) {
            case .rows([.appended]), .rows([.taken]): sequence += 1
            case .unknown: unknown += 1
            case let other: Issue.record("\(other)")
            }
        }
        isDone.set()
        group.wait()
        #expect(unknown > 0)
        let found = try engine.read(p(0), from: Sequence(2), bytesMax: .max).map(\.sequence.rawValue)
        #expect(found == Array(2..<3_000))
        for place in found where place % 7 == 0 {
            #expect(try engine.look(p(0), Sequence(place)) == BatchID(place))
        }
    }

    @Test func aLockedSessionIsRefusedAndNotWaitedForLong() throws {
        let place = try database().make()
        let engine = try PostgresEngine(place)
        let session = try begin(engine, partitions: 1)
        let holder = try PostgresEngine(place)
        try holder.holdSession(session) {
            guard case .refused = engine.append(session: session, batch: BatchID(9), rows: [try row(0, 2)])
            else {
                Issue.record("the append went in past a lock")
                return
            }
        }
        #expect(
            engine.append(session: session, batch: BatchID(10), rows: [try row(0, 2)]) == .rows([.appended]))
    }

    @Test func aServerThatRestartsIsFoundAgain() throws {
        let database = try database()
        let engine = try PostgresEngine(try database.make())
        let session = try begin(engine, partitions: 1)
        #expect(
            engine.append(session: session, batch: BatchID(1), rows: [try row(0, 2)]) == .rows([.appended]))
        try database.stop("immediate")
        guard case .unknown = engine.append(session: session, batch: BatchID(2), rows: [try row(0, 3)]) else {
            Issue.record("an append without a server")
            return
        }
        #expect(throws: EngineError.self) { try engine.partitions() }
        try database.start()
        #expect(
            engine.append(session: session, batch: BatchID(2), rows: [try row(0, 3)]) == .rows([.appended]))
        #expect(try engine.lastSequence(p(0)) == Sequence(3))
        #expect(engine.failure == nil)
    }

    @Test func whatCannotBeTrustedIsRefusedWithASentence() throws {
        let database = try database()
        let newer = try database.make()
        _ = try PostgresEngine(newer)
        try database.psql(newer, "UPDATE tidecast.meta SET value = '99' WHERE key = 'schema'")
        #expect(throws: EngineError.self) { try PostgresEngine(newer) }

        let damaged = try database.make()
        let engine = try PostgresEngine(damaged)
        _ = try begin(engine, partitions: 1)
        try database.psql(
            damaged, "UPDATE tidecast.journal SET payload = set_byte(payload, 20, get_byte(payload, 20) # 1)")
        #expect(throws: EngineError.self) { try engine.read(p(0), from: Sequence(1), bytesMax: .max) }
        #expect(throws: EngineError.self) { try PostgresEngine("host=/nowhere dbname=x") }
    }
}

// Its value is touched only while the lock is held.
private final class Flag: @unchecked Sendable {
    private var isSet = false
    private let lock = NSLock()
    var value: Bool { lock.withLock { isSet } }
    func set() { lock.withLock { isSet = true } }
}
