import Foundation
import Journal
import Model
import PostgresEngine
import Testing

/// Changes of the small tables by compare-and-set, by several processes over several connections.
@Suite("Changes of the catalog on PostgreSQL", .enabled(if: Server.isInstalled, Server.missing))
struct CatalogTests {
    private static func version(_ number: UInt64, _ writer: Int) -> [UInt8] {
        (0..<8).map { UInt8(truncatingIfNeeded: number >> ($0 * 8)) } + [UInt8(writer)]
    }

    private static func number(_ version: [UInt8]?) -> UInt64 {
        (version ?? []).prefix(8).reversed().reduce(0) { $0 << 8 | UInt64($1) }
    }

    /// Adds one to a number and makes entries of that name. Tries again where another writer was faster.
    private static func add(_ engine: PostgresEngine, writer: Int) throws -> UInt64 {
        let end = Date(timeIntervalSinceNow: 60)
        while Date() < end {
            let from = try engine.get(.setting, key: "version")
            let next = number(from) + 1
            var writes = CatalogWrites()
            writes.put(.project, key: "\(next)", value: [UInt8(writer)])
            writes.put(.credential, key: "\(next)", value: [UInt8(writer)])
            let step = CatalogStep(key: "version", from: from, to: version(next, writer))
            if try engine.change(step, writes) { return next }
        }
        throw Failed(description: "never done")
    }

    /// No change may be lost or done by halves, and of two changes with one number only one may be done.
    @Test("of racing writers are done one after the other, each once and whole")
    func racing() throws {
        let address = try Server.shared().makeDatabase()
        let (writers, each) = (4, 40)
        let running = (0..<writers).map { writer in
            Running {
                let engine = try PostgresEngine(address)
                return try (0..<each).map { _ in try CatalogTests.add(engine, writer: writer) }
            }
        }
        var done: [UInt64: Int] = [:]
        for (writer, one) in running.enumerated() {
            for number in try one.wait() { #expect(done.updateValue(writer, forKey: number) == nil) }
        }
        #expect(done.count == writers * each)
        let engine = try PostgresEngine(address)
        #expect(CatalogTests.number(try engine.get(.setting, key: "version")) == UInt64(writers * each))
        for table in [CatalogTable.project, .credential] {
            let entries = try engine.all(table)
            #expect(entries.count == writers * each)
            for entry in entries { #expect(entry.value == [UInt8(done[UInt64(entry.key) ?? 0] ?? 99)]) }
        }
    }

    /// A writer that stands still after its read holds up nobody, and comes too late.
    @Test("of a writer that stands still hold nobody up, and come too late")
    func stoppedWriter() throws {
        let address = try Server.shared().makeDatabase()
        let slow = try PostgresEngine(address)
        let quick = try PostgresEngine(address)
        _ = try CatalogTests.add(quick, writer: 1)
        let from = try slow.get(.setting, key: "version")
        for _ in 0..<3 { _ = try CatalogTests.add(quick, writer: 1) }
        let other = try Other(address)
        // Locks of this database alone: other databases of the server belong to other tests.
        let locks = """
            SELECT count(*) FROM pg_locks AS l JOIN pg_database AS d ON d.oid = l.database
            WHERE l.locktype = 'advisory' AND d.datname = current_database()
            """
        #expect(try other.value(locks) == "0")
        var writes = CatalogWrites()
        writes.put(.project, key: "2", value: [0])
        #expect(
            try !slow.change(
                CatalogStep(key: "version", from: from, to: CatalogTests.version(2, 0)), writes))
        #expect(try slow.get(.project, key: "2") == [1])
        #expect(try CatalogTests.add(slow, writer: 0) == 5)
    }

    /// The connection ends while the change waits at the server.
    @Test("whose answer is lost are done once")
    func lostAnswer() throws {
        let address = try Server.shared().makeDatabase()
        #expect(try CatalogTests.add(try PostgresEngine(address), writer: 1) == 1)
        let other = try Other(address)
        try other.run("BEGIN")
        try other.run("SELECT FROM tidecast.setting WHERE key = 'version' FOR UPDATE")
        let running = Running {
            try CatalogTests.add(try PostgresEngine(address, options: .patient), writer: 1)
        }
        // The watcher is outside the transaction.
        let watcher = try Other(address)
        try watcher.waitForALock()
        let process = try watcher.value("SELECT pid " + Other.waitingForALock)
        try other.run("SELECT pg_terminate_backend(\(process))")
        try other.run("COMMIT")
        #expect(try running.wait() == 2)
        #expect(try PostgresEngine(address).all(.project).map(\.key) == ["1", "2"])
    }

    @Test("that put a secret at once leave one, which all writers believe")
    func oneSecret() throws {
        let address = try Server.shared().makeDatabase()
        let running = (0..<8).map { writer in
            Running {
                try PostgresEngine(address).putIfAbsent(.setting, key: "secret", value: [UInt8(writer)])
            }
        }
        let found = Set(try running.map { try $0.wait() })
        #expect(found.count == 1)
        #expect(found.first == (try PostgresEngine(address).get(.setting, key: "secret")))
    }

    /// Writers begin clusters of two sizes at once on one database: one cluster comes out, whole.
    @Test("that begin clusters of two sizes at once leave one cluster, whole")
    func partitionsAreMadeByOne() throws {
        let address = try Server.shared().makeDatabase()
        let running = [3, 8, 3, 8].map { count in
            Running { () throws -> Int in
                let engine = try PostgresEngine(address)
                let histories = (0..<count).map { _ in History(UInt64(count)) }
                do {
                    try engine.createPartitions(count: count, histories: histories)
                    return count
                } catch EngineError.refused {
                    return 0
                }
            }
        }
        let made = Set(try running.map { try $0.wait() }).subtracting([0])
        #expect(made.count == 1)
        let rows = try PostgresEngine(address).partitions()
        #expect(rows.count == made.first)
        #expect(rows.allSatisfy { $0.history == History(UInt64(rows.count)) && $0.owner == nil })
    }
}
