import EngineContract
import Journal
import Model
import Testing

@testable import PostgresEngine

/// A database that acknowledged more than it has: an old copy of its disk, on the same timeline.
@Suite("A database that went back on its timeline", .enabled(if: Server.isInstalled, Server.missing))
struct JournalEndsTests {
    private let address: String
    private let other: Other

    init() throws {
        address = try Server.shared().makeDatabase()
        other = try Other(address)
    }

    /// An engine that has acknowledged records 1 to 4 of partition 0.
    private func engine() throws -> (PostgresEngine, SessionID) {
        let engine = try PostgresEngine(address)
        let session = try openSession(engine)
        for sequence in UInt64(2)...4 {
            let outcome = engine.append(
                session: session, batch: BatchID(sequence), rows: [try row(0, sequence)])
            #expect(outcome == .rows([.appended]))
        }
        return (engine, session)
    }

    private func count() throws -> String {
        try other.value("SELECT count(*) FROM tidecast.journal WHERE partition = 0")
    }

    @Test("gets nothing written behind the hole")
    func hole() throws {
        let (engine, session) = try engine()
        try other.run("DELETE FROM tidecast.journal WHERE partition = 0 AND sequence > 3")
        try endConnections(other)
        let before = try count()
        for _ in 0..<3 {
            let outcome = engine.append(session: session, batch: BatchID(5), rows: [try row(0, 5)])
            #expect(outcome.isUnknown)
        }
        #expect(engine.failure?.contains("went back: it had acknowledged record 4 of partition 0") == true)
        #expect(
            sentence {
                try engine.writeSnapshot(
                    session: session, partition: p(0), covering: Sequence(4), bytes: [1])
            }.contains("went back"))
        #expect(try count() == before)
        #expect(try other.value("SELECT count(*) FROM tidecast.snapshot") == "0")
        // A new process believes the journal that is there.
        #expect(try PostgresEngine(address).lastSequence(p(0)) == Sequence(3))
    }

    @Test("is known to all connections of a process")
    func sharedEnds() throws {
        var options = PostgresEngine.Options()
        options.ends = JournalEnds()
        let one = try PostgresEngine(address, options: options)
        let two = try PostgresEngine(address, options: options)
        let session = try openSession(one)
        #expect(one.append(session: session, batch: BatchID(2), rows: [try row(0, 2)]) == .rows([.appended]))
        try other.run("DELETE FROM tidecast.journal WHERE partition = 0 AND sequence = 2")
        try endConnections(other)
        #expect(sentence { _ = try two.partitions() }.contains("went back"))
    }

    /// A node's note of a loss begins a new generation, and stops processes that wrote nothing and would not
    /// see it.
    @Test("is told to all other nodes by the one that sees it")
    func whoSeesItTellsAllOthers() throws {
        let (engine, session) = try engine()
        let idle = try PostgresEngine(address)
        let before = try #require(try idle.past())
        #expect(before.lossSeen == 0)
        try other.run("DELETE FROM tidecast.journal WHERE partition = 0 AND sequence > 3")
        try endConnections(other)
        // The first append finds the connection lost.
        for _ in 0..<2 {
            #expect(engine.append(session: session, batch: BatchID(5), rows: [try row(0, 5)]).isUnknown)
        }
        #expect(sentence { _ = try idle.partitions() }.contains("as another node has noted"))
        let next = try PostgresEngine(address)
        let after = try #require(try next.past())
        #expect(after.mayLack(before) && after.timeline == before.timeline)
        try endConnections(other)
        #expect(try next.past() == after)
        var options = PostgresEngine.Options()
        options.knownPast = before
        #expect(sentence { _ = try PostgresEngine(address, options: options) }.contains("went back"))
    }

    @Test("is not one whose records were trimmed meanwhile")
    func trimmed() throws {
        let (engine, session) = try engine()
        try other.run("UPDATE tidecast.partition SET floor = 5 WHERE id = 0")
        try other.run("DELETE FROM tidecast.journal WHERE partition = 0")
        try endConnections(other)
        #expect(try engine.lastSequence(p(0)) == Sequence(4))
        #expect(engine.failure == nil)
        _ = session
    }
}
