import EngineContract
import Foundation
import Journal
import Model
import PostgresEngine
import Testing

/// The server's errors, and the outcomes that the engine makes of them. A trigger gives the error of a full
/// disk.
@Suite("An error of PostgreSQL", .enabled(if: Server.isInstalled, Server.missing)) struct RefusalTests {
    private let database: String
    private let engine: PostgresEngine
    private let session: SessionID
    private let other: Other

    init() throws {
        database = try Server.shared().makeDatabase()
        engine = try PostgresEngine(database)
        session = try openSession(engine)
        other = try Other(database)
    }

    private func fail(with state: String, atCommit: Bool = false) throws {
        try other.run(
            """
            CREATE OR REPLACE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION 'planted' USING ERRCODE = '\(state)'; END $$
            """)
        try other.run(
            atCommit
                ? """
                CREATE CONSTRAINT TRIGGER fail AFTER INSERT ON tidecast.journal
                DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.fail()
                """
                : """
                CREATE TRIGGER fail BEFORE INSERT ON tidecast.journal
                FOR EACH ROW EXECUTE FUNCTION public.fail()
                """)
    }

    private func append() throws -> AppendOutcome {
        engine.append(session: session, batch: BatchID(1), rows: [try row(0, 2), try row(1, 2)])
    }

    @Test(
        "rolls all of an append back, and the engine goes on",
        arguments: ["53100", "53200", "53300", "40001", "40P01", "57014", "58030", "26000", "25006"])
    func rolledBack(state: String) throws {
        try fail(with: state)
        let outcome = try append()
        #expect(outcome.isRefused, "\(outcome)")
        if state == "53100" { #expect(outcome == .refused("the database's disk is full")) }
        #expect(try engine.look(p(0), Sequence(2)) == nil)
        #expect(engine.append(session: session, batch: BatchID(2), rows: []) == .rows([.appended]))
        try other.run("DROP TRIGGER fail ON tidecast.journal")
        #expect(try append() == .rows([.appended, .appended]))
    }

    /// The server has sent the rows of its answer before the error.
    @Test("is not taken for success where it comes at the commit itself")
    func commitFails() throws {
        try fail(with: "53100", atCommit: true)
        #expect(try append() == .refused("the database's disk is full"))
        #expect(try engine.look(p(0), Sequence(2)) == nil)
    }

    @Test("leaves the outcome unknown where it leaves the transaction open", arguments: ["40003", "08007"])
    func openTransaction(state: String) throws {
        try fail(with: state)
        #expect(try append().isUnknown)
        #expect(engine.failure == nil)
        try other.run("DROP TRIGGER fail ON tidecast.journal")
        #expect(try append() == .rows([.appended, .appended]))
    }

    @Test("ends the engine where it says that the database is damaged")
    func damaged() throws {
        try fail(with: "XX001")
        #expect(try append().isUnknown)
        #expect(engine.failure == "the database is damaged: planted")
        #expect(sentence { _ = try engine.isAlive(session) } == "the database is damaged: planted")
    }

    @Test("does not meet an ordinary role before it has too many connections")
    func ordinaryRole() throws {
        let name = try other.value("SELECT current_database()")
        try other.run("CREATE ROLE \(name) LOGIN CONNECTION LIMIT 1")
        try other.run("GRANT CREATE ON DATABASE \(name) TO \(name); DROP SCHEMA tidecast CASCADE")
        let plain = database.replacingOccurrences(of: "user=tidecast", with: "user=\(name)")
        let engine = try PostgresEngine(plain)
        let session = try openSession(engine)
        #expect(try engine.renewLease(session) == 1)
        let reason = sentence { _ = try PostgresEngine(plain) }
        #expect(reason.contains("too many connections"), "\(reason)")
        // Another program takes the engine's place while its connection is gone. The engine refuses and asks
        // nothing.
        try endConnections(other)
        let thief = try patiently { try Other(plain) }
        let outcome = engine.append(session: session, batch: BatchID(1), rows: [try row(0, 2)])
        #expect(outcome.isRefused || outcome.isUnknown)
        #expect(engine.append(session: session, batch: BatchID(1), rows: [try row(0, 2)]).isRefused)
        #expect(engine.failure == nil)
        _ = try thief.value("SELECT 1")
    }
}
