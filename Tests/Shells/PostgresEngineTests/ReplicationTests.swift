import EngineContract
import Foundation
import Journal
import Model
import PostgresEngine
import Synchronization
import Testing

/// The meaning of "durable" where commits wait for a standby. Each test has servers of its own.
@Suite("Commits that wait for a standby", .enabled(if: Server.isInstalled, Server.missing))
struct ReplicationTests {
    private let waiting = """
        SELECT count(*) > 0 FROM pg_stat_activity
        WHERE application_name = 'tidecast' AND wait_event = 'SyncRep'
        """

    private func waitForStandby(_ names: String, on other: Other) throws {
        try other.run("ALTER SYSTEM SET synchronous_standby_names = '\(names)'")
        try other.run("SELECT pg_reload_conf()")
    }

    @Test("include appends of no rows")
    func noRows() throws {
        let server = try Server()
        let database = server.connection("postgres")
        let session = try openSession(try PostgresEngine(database))
        let other = try Other(database)
        try waitForStandby("nobody", on: other)
        let isOver = Mutex(false)
        let asking = Running {
            let engine = try PostgresEngine(database)
            // The server takes its new setting over a little later than it says.
            while !isOver.withLock({ $0 }) {
                let outcome = engine.append(session: session, batch: BatchID(1), rows: [])
                guard outcome == .rows([.appended]) else { return outcome }
                guard try engine.isAlive(session) else { return .rows([.fenced]) }
            }
            return .rows([.appended])
        }
        try other.wait(waiting, for: "t")
        #expect(!asking.isDone)
        isOver.withLock { $0 = true }
        try waitForStandby("", on: other)
        #expect(try asking.wait() == .rows([.appended]))
    }

    /// The server then answers success, with a warning that the commit is not replicated.
    @Test(
        "are unknown where the wait is cut short", arguments: ["pg_cancel_backend", "pg_terminate_backend"])
    func cutShort(by function: String) throws {
        let server = try Server()
        let database = server.connection("postgres")
        let session = try openSession(try PostgresEngine(database))
        let other = try Other(database)
        try waitForStandby("nobody", on: other)
        let appending = Running {
            let engine = try PostgresEngine(database)
            var sequence: UInt64 = 2
            while true {
                let next = try row(0, sequence)
                let outcome = engine.append(session: session, batch: BatchID(sequence), rows: [next])
                guard outcome == .rows([.appended]) else {
                    try demand(engine.failure == nil, "the engine gave up")
                    // A statement that is new to the connection: the doubt was not about this one.
                    try demand(try engine.wallClock() != nil, "the database says no time")
                    return (outcome, sequence)
                }
                sequence += 1
            }
        }
        try other.wait(waiting, for: "t")
        try other.run(
            "SELECT \(function)(pid) FROM pg_stat_activity WHERE application_name = 'tidecast'")
        let (outcome, sequence) = try appending.wait()
        #expect(outcome.isUnknown, "\(outcome)")
        try waitForStandby("", on: other)
        var writer = Writer(engine: try PostgresEngine(database), session: session)
        #expect(try writer.engine.look(p(0), Sequence(sequence)) == BatchID(sequence))
        try writer.put(sequence + 1)
    }

    @Test("are there after a failover, and the old primary is not trusted")
    func failover() throws {
        let primary = try Server()
        let standby = try Server(standbyOf: primary)
        let other = try Other(primary.connection("postgres"))
        try waitForStandby("standby", on: other)
        try other.wait("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'", for: "1")
        let database =
            "host=127.0.0.1,127.0.0.1 port=\(primary.port),\(standby.port) user=tidecast dbname=postgres"
        let engine = try PostgresEngine(database)
        let session = try openSession(engine, partitions: 1)
        var writer = Writer(engine: engine, session: session)
        for sequence in UInt64(2)...50 { try writer.put(sequence) }
        #expect(try engine.settings().timeline == 1)
        #expect(engine.lastSettings?.synchronousStandbyNames == "standby")

        try primary.command("stop")
        let lost = engine.append(session: session, batch: BatchID(51), rows: [try row(0, 51)])
        #expect(lost.isUnknown || lost.isRefused)
        let none = engine.append(session: session, batch: BatchID(51), rows: [try row(0, 51)])
        #expect(none.isRefused, "a standby takes no writes")
        try standby.command("promote")
        for sequence in UInt64(51)...60 { try writer.put(sequence) }
        #expect(try engine.read(p(0), from: Sequence(2), bytesMax: .max).count == 59)
        #expect(engine.lastSettings?.timeline == 2)

        // The old primary starts again, and the new one is gone.
        try standby.command("stop")
        try primary.command("start")
        _ = engine.append(session: session, batch: BatchID(61), rows: [try row(0, 61)])
        #expect(engine.append(session: session, batch: BatchID(61), rows: [try row(0, 61)]).isUnknown)
        #expect(engine.failure?.contains("history went back") == true)
    }

    /// Without a synchronous standby a failover may have lost acknowledged records: the engine must write
    /// nothing that this process believes into the new past.
    @Test("are not believed after a failover that may have lost some: the engine gives up")
    func lossyFailover() throws {
        let primary = try Server()
        let standby = try Server(standbyOf: primary)
        let other = try Other(primary.connection("postgres"))
        try waitForStandby("", on: other)
        let database =
            "host=127.0.0.1,127.0.0.1 port=\(primary.port),\(standby.port) user=tidecast dbname=postgres"
        let engine = try PostgresEngine(database)
        var writer = Writer(engine: engine, session: try openSession(engine, partitions: 1))
        try writer.put(2)
        let before = try #require(try engine.past())
        try primary.command("stop")
        try standby.command("promote")
        for sequence in UInt64(3)...4 {
            let outcome = engine.append(
                session: writer.session, batch: BatchID(sequence), rows: [try row(0, sequence)])
            #expect(outcome != .rows([.appended]))
        }
        #expect(engine.failure?.contains("may be lost") == true)
        let next = try PostgresEngine(database)
        #expect(try next.past()?.mayLack(before) == true)
    }

    @Test("end where another database answers under the same name")
    func otherDatabase() throws {
        let one = try Server()
        let two = try Server()
        let engine = try PostgresEngine(
            "host=127.0.0.1,127.0.0.1 port=\(one.port),\(two.port) user=tidecast dbname=postgres")
        let session = try openSession(engine)
        try one.command("stop")
        _ = engine.append(session: session, batch: BatchID(1), rows: [])
        #expect(engine.append(session: session, batch: BatchID(1), rows: []).isUnknown)
        #expect(engine.failure?.contains("another database answers") == true)
        #expect(sentence { _ = try engine.partitions() }.contains("another database answers"))
    }

    @Test("are refused on a server that does not sync, also where it stops later")
    func noSync() throws {
        let server = try Server(settings: ["fsync": "off"])
        let database = server.connection("postgres")
        #expect(sentence { _ = try PostgresEngine(database) }.contains("fsync = off"))
        let other = try Other(database)
        try other.run("ALTER SYSTEM SET fsync = on")
        try other.run("SELECT pg_reload_conf()")
        try other.wait("SHOW fsync", for: "on")
        let engine = try PostgresEngine(database)
        let session = try openSession(engine)
        #expect(try engine.renewLease(session) == 1)
        try other.run("ALTER SYSTEM SET fsync = off")
        try other.run("SELECT pg_reload_conf()")
        try other.wait("SHOW fsync", for: "off")
        let end = Date(timeIntervalSinceNow: 60)
        // Each server process takes the setting over by itself.
        while (try? engine.renewLease(session)) != nil { try demand(Date() < end, "never seen") }
        #expect(engine.failure?.contains("fsync = off") == true)
        #expect(engine.append(session: session, batch: BatchID(1), rows: []).isUnknown)
    }
}
