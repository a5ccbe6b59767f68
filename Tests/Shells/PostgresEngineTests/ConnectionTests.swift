import EngineContract
import Foundation
import Journal
import Model
import PostgresEngine
import Synchronization
import Testing

/// Appends one record after the other, as `Appender` does: repeats an append of unknown outcome at the same
/// sequence under the same batch, and then looks.
struct Writer {
    let engine: PostgresEngine
    let session: SessionID
    var unknown = 0
    var unknownAndIn = 0
    var refused = 0

    /// Returns when the record is known to be in; throws where an outcome and the journal disagree.
    mutating func put(_ sequence: UInt64) throws {
        let batch = BatchID(sequence)
        let rows = [try row(0, sequence)]
        var isInDoubt = false
        let end = Date(timeIntervalSinceNow: 60)
        while true {
            try demand(Date() < end, "record \(sequence) does not go in")
            switch engine.append(session: session, batch: batch, rows: rows) {
            case .rows([.appended]): return
            case .rows([.taken]):
                try demand(isInDoubt, "record \(sequence) was taken, and nobody had tried")
                try demand(try look(sequence) == batch, "another's record at \(sequence)")
                unknownAndIn += 1
                return
            case .unknown:
                isInDoubt = true
                unknown += 1
            case .refused:
                refused += 1
                if !isInDoubt {
                    try demand(try look(sequence) == nil, "record \(sequence) was refused and is in")
                }
                usleep(2000)
            case let other: throw Failed(description: "\(other)")
            }
            try demand(engine.failure == nil, engine.failure ?? "")
        }
    }

    private func look(_ sequence: UInt64) throws -> BatchID? {
        let end = Date(timeIntervalSinceNow: 60)
        while true {
            do throws(EngineError) {
                return try engine.look(p(0), Sequence(sequence))
            } catch {
                try demand(Date() < end, "nothing can be looked at: \(error)")
                usleep(2000)
            }
        }
    }
}

/// Appends 2...last, and runs `harm` beside, each time when the writer has come a drawn number of records
/// further.
private func appendThrough(
    _ database: String, last: UInt64, each: ClosedRange<UInt64>,
    harm: @escaping @Sendable (Other) throws -> Void
) throws -> Writer {
    let engine = try PostgresEngine(database)
    var writer = Writer(engine: engine, session: try openSession(engine, partitions: 1))
    let progress = Mutex<UInt64>(0)
    let next = DispatchSemaphore(value: 0)
    let harmer = Running {
        while true {
            next.wait()
            if progress.withLock({ $0 }) > last { return }
            // The server may just be starting again.
            if let other = try? Other(database) { try? harm(other) }
        }
    }
    var random = SeededGenerator(seed: last)
    var due: UInt64 = 2
    for sequence in 2...last {
        if sequence == due {
            due += UInt64.random(in: each, using: &random)
            next.signal()
        }
        try writer.put(sequence)
        progress.withLock { $0 = sequence }
    }
    progress.withLock { $0 = .max }
    next.signal()
    try harmer.wait()
    // The last harm may have been done after the last append: the server is just starting again.
    let rows = try eventually { () throws(EngineError) in
        try engine.read(p(0), from: Sequence(2), bytesMax: .max)
    }
    #expect(try rows == (2...last).map { try row(0, $0) })
    for row in rows { #expect(try engine.look(p(0), row.sequence) == BatchID(row.sequence.rawValue)) }
    return writer
}

/// The value of `body` once the server is there again, within 30 s.
private func eventually<Value>(_ body: () throws(EngineError) -> Value) throws(EngineError) -> Value {
    let end = Date(timeIntervalSinceNow: 30)
    while true {
        do throws(EngineError) {
            return try body()
        } catch {
            guard case .refused = error, Date() < end else { throw error }
            usleep(20_000)
        }
    }
}

@Suite("Connections to PostgreSQL", .enabled(if: Server.isInstalled, Server.missing)) struct ConnectionTests {
    @Test("that are cut in mid-append leave outcomes that the journal bears out")
    func cutMidAppend() throws {
        let writer = try appendThrough(try Server.shared().makeDatabase(), last: 1500, each: 1...20) {
            other in
            try other.run(
                """
                SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE datname = current_database() AND application_name = 'tidecast'
                """)
        }
        print("cut: \(writer.unknown) unknown, \(writer.unknownAndIn) of them in, \(writer.refused) refused")
        #expect(writer.unknown > 0)
    }

    /// A server process that dies makes the whole server start again from its log.
    @Test("to server processes that are killed leave outcomes that the journal bears out")
    func killedProcesses() throws {
        let server = try Server()
        let writer = try appendThrough(server.connection("postgres"), last: 800, each: 60...160) { other in
            let pids = try other.run("SELECT pid FROM pg_stat_activity WHERE application_name = 'tidecast'")
            for pid in pids.compactMap({ $0.first.flatMap { pid_t($0) } }) where pid > 1 {
                kill(pid, SIGKILL)
            }
        }
        print(
            "killed: \(writer.unknown) unknown, \(writer.unknownAndIn) of them in, \(writer.refused) refused")
        #expect(writer.unknown > 0)
    }

    @Test("that end while nothing is asked are made again unseen")
    func idleEnd() throws {
        let (database, engine, session) = try opened()
        let other = try Other(database)
        try endConnections(other)
        let outcome = engine.append(session: session, batch: BatchID(1), rows: [try row(0, 2)])
        // The engine may have read the server's last words already. Otherwise the append hears of the end.
        #expect(outcome == .rows([.appended]) || outcome.isUnknown)
        try endConnections(other)
        #expect(try engine.isAlive(session))
        try endConnections(other)
        #expect(try engine.renewLease(session) == 1)
        #expect(engine.failure == nil)
    }

    /// A server process stands still with its connection open: the append's outcome is unknown, and another
    /// connection settles it.
    @Test("to a frozen server are not waited for without end")
    func frozenServer() throws {
        let database = try Server.shared().makeDatabase()
        let session = try openSession(try PostgresEngine(database))
        var options = PostgresEngine.Options()
        options.silenceMilliseconds = 3000
        let engine = try PostgresEngine(database, options: options)
        var writer = Writer(engine: engine, session: session)
        try writer.put(2)
        let other = try Other(database)
        let processes = """
            FROM pg_stat_activity WHERE application_name = 'tidecast' AND datname = current_database()
            """
        // Wait until only this engine's connection is left: the first engine's may take a moment to end.
        try other.wait("SELECT count(*) \(processes)", for: "1")
        let found = try other.run("SELECT pid \(processes)")
        let process = try #require(found.first?.first.flatMap { pid_t($0) })
        kill(process, SIGSTOP)
        let rows = [try row(0, 3)]
        #expect(engine.append(session: writer.session, batch: BatchID(3), rows: rows).isUnknown)
        kill(process, SIGCONT)
        // The record is in once, by the process that woke up or by the new connection.
        var second = engine.append(session: writer.session, batch: BatchID(3), rows: rows)
        for _ in 0..<10 where second.isUnknown {
            second = engine.append(session: writer.session, batch: BatchID(3), rows: rows)
        }
        #expect(second == .rows([.appended]) || second == .rows([.taken]) || second.isRefused, "\(second)")
        #expect(try engine.isAlive(writer.session))
        #expect(engine.failure == nil)
    }

    @Test("to a server that is gone refuse, and find the server again")
    func goneServer() throws {
        let server = try Server()
        let engine = try PostgresEngine(server.connection("postgres"))
        var writer = Writer(engine: engine, session: try openSession(engine))
        try writer.put(2)
        try server.command("stop")
        let first = engine.append(session: writer.session, batch: BatchID(3), rows: [try row(0, 3)])
        #expect(first.isUnknown || first.isRefused)
        let second = engine.append(session: writer.session, batch: BatchID(3), rows: [try row(0, 3)])
        #expect(second.isRefused, "nothing is asked where nobody answers")
        #expect(sentence { _ = try engine.partitions() }.hasPrefix("cannot reach the database: "))
        #expect(engine.failure == nil)
        try server.command("start")
        try writer.put(3)
        try server.command("restart")
        try writer.put(4)
        #expect(try engine.isAlive(writer.session))
        #expect(try engine.read(p(0), from: Sequence(2), bytesMax: .max).count == 3)
    }

    @Test("that end during a take are made again, and the take is done once")
    func repeatedTake() throws {
        let database = try Server.shared().makeDatabase()
        let engine = try PostgresEngine(database)
        _ = try openSession(engine, partitions: 1)
        let stop = Mutex(false)
        let strike = DispatchSemaphore(value: 0)
        let harmer = Running {
            let other = try Other(database)
            while true {
                strike.wait()
                if stop.withLock({ $0 }) { return }
                try other.run(
                    """
                    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                    WHERE datname = current_database() AND application_name = 'tidecast'
                    """)
            }
        }
        func insist<Value>(_ body: () throws -> Value) throws -> Value {
            let end = Date(timeIntervalSinceNow: 60)
            while true {
                do {
                    return try body()
                } catch EngineError.refused(let reason) {
                    try demand(Date() < end, reason)
                }
            }
        }
        for round in 0..<60 {
            let session = try insist { try engine.beginSession(node: "a") }
            let former = try insist { try engine.partitions()[0] }
            let next = try insist { try engine.lastSequence(p(0)).next.rawValue }
            let barrier = try row(0, next, bytes: 0)
            strike.signal()
            // No other node takes the partition. Whatever happens to answers, this session takes it once.
            let epoch = try insist { try engine.takeOver(p(0), from: former, by: session, barrier: barrier) }
            #expect(epoch == Epoch(UInt64(round) + 2))
        }
        stop.withLock { $0 = true }
        strike.signal()
        try harmer.wait()
        #expect(try engine.lastSequence(p(0)) == Sequence(61))
    }
}
