import EngineContract
import Foundation
import Journal
import Model
import Testing

@testable import PostgresEngine

@Suite("Opening a database on PostgreSQL", .enabled(if: Server.isInstalled, Server.missing))
struct OpeningTests {
    @Test("finds what was written before")
    func reopening() throws {
        let address = try Server.shared().makeDatabase()
        try EngineContract.expectReopened { try PostgresEngine(address) }
    }

    @Test("refuses a newer schema with what to do, also when it connects again")
    func newerSchema() throws {
        let address = try Server.shared().makeDatabase()
        let open = try PostgresEngine(address)
        let other = try Other(address)
        try other.run("UPDATE tidecast.schema SET version = \(Schema.version + 1)")
        let reason = sentence { _ = try PostgresEngine(address) }
        #expect(reason.contains("written by a newer tidecast"), "\(reason)")
        #expect(reason.contains("start a tidecast at least as new"), "\(reason)")
        // An engine that was open before finds out when it connects again.
        try endConnections(other)
        #expect(sentence { _ = try open.partitions() }.contains("written by a newer tidecast"))
        #expect(open.failure == nil)
        try other.run("UPDATE tidecast.schema SET version = \(Schema.version)")
        #expect(try open.partitions().isEmpty)
    }

    @Test("refuses another program's schema, and leaves it alone")
    func foreignSchema() throws {
        let address = try Server.shared().makeDatabase()
        let other = try Other(address)
        try other.run("CREATE SCHEMA tidecast; CREATE TABLE tidecast.theirs (x int)")
        #expect(
            sentence { _ = try PostgresEngine(address) }.contains("is another program's"))
        #expect(try other.run("SELECT * FROM tidecast.theirs").isEmpty)
    }

    @Test("refuses a database of another encoding")
    func encoding() throws {
        let address = try Server.shared().makeDatabase("ENCODING 'LATIN1' LOCALE 'C'")
        #expect(sentence { _ = try PostgresEngine(address) }.contains("ENCODING 'UTF8'"))
    }

    @Test("makes the tables once where many open an empty database at once")
    func manyAtOnce() throws {
        let address = try Server.shared().makeDatabase()
        let openers = (0..<6).map { index in
            Running {
                let engine = try PostgresEngine(address)
                try engine.createPartitions(count: 3, histories: (0..<3).map { _ in History(UInt64(index)) })
            }
        }
        for opener in openers { try opener.wait() }
        let rows = try PostgresEngine(address).partitions()
        #expect(rows.count == 3 && Set(rows.map(\.history)).count == 1)
    }

    @Test("refuses a server that is not there with a sentence")
    func noServer() {
        let nobody = sentence { _ = try PostgresEngine("host=127.0.0.1 port=1 dbname=x") }
        #expect(nobody.hasPrefix("cannot reach the database: "), "\(nobody)")
        let nonsense = sentence { _ = try PostgresEngine("nonsense=1") }
        #expect(nonsense.contains("nonsense"), "\(nonsense)")
        #expect(!nonsense.contains("\n"))
    }

    @Test("keeps commits as durable as asked for, whatever the database's own settings")
    func roleSettings() throws {
        let address = try Server.shared().makeDatabase()
        let other = try Other(address)
        let name = try other.value("SELECT current_database()")
        for setting in ["synchronous_commit = off", "statement_timeout = 1", "search_path = ''"] {
            try other.run("ALTER DATABASE \(name) SET \(setting)")
        }
        let engine = try PostgresEngine(address)
        let settings = try engine.settings()
        #expect(settings.synchronousCommit == "on" && settings.fsync)
        #expect(settings.timeline == 1 && !settings.isInRecovery)
        #expect(settings.serverVersion >= PostgresEngine.serverVersionMin)
        _ = try openSession(engine)
    }

    @Test("says that a standby is missing where one is demanded")
    func missingStandby() throws {
        let address = try Server.shared().makeDatabase()
        var options = PostgresEngine.Options()
        options.demandsStandby = true
        #expect(
            sentence { _ = try PostgresEngine(address, options: options) }.contains(
                "synchronous_standby_names is empty"))
        options.demandsStandby = false
        options.synchronousCommit = .remoteApply
        #expect(try PostgresEngine(address, options: options).settings().synchronousCommit == "remote_apply")
    }
}

/// Ends the connections of all engines to this database.
func endConnections(_ other: Other) throws {
    try other.run(
        """
        SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'tidecast'
        """)
    try other.wait(
        """
        SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'tidecast'
        """, for: "0")
}

/// How the engine judges the settings that the database reports.
@Suite("The settings that a database reports") struct SettingsTests {
    private let good = PostgresSettings(
        synchronousCommit: "on", fsync: true, synchronousStandbyNames: "ANY 1 (a, b)", timeline: 3,
        systemIdentifier: 7, database: 5, serverVersion: 150_018, isInRecovery: false)

    private func changed(_ change: (inout PostgresSettings) -> Void) -> PostgresSettings {
        var settings = good
        change(&settings)
        return settings
    }

    @Test("are refused where commits are less durable than asked for")
    func weakCommits() {
        var options = PostgresEngine.Options()
        options.demandsStandby = true
        #expect(good.weakness(asked: options) == nil)
        #expect(changed { $0.synchronousCommit = "remote_apply" }.weakness(asked: options) == nil)
        for weak in ["off", "local", "remote_write", "else"] {
            let reason = changed { $0.synchronousCommit = weak }.weakness(asked: options)
            #expect(reason?.contains("synchronous_commit is \(weak)") == true)
        }
        #expect(changed { $0.fsync = false }.weakness(asked: options)?.contains("fsync = off") == true)
        #expect(changed { $0.synchronousStandbyNames = "" }.weakness(asked: options) != nil)
    }

    @Test("show another database, an older timeline, and a failover that may lose records")
    func contradictions() {
        #expect(good.contradiction(to: good) == nil)
        #expect(changed { $0.timeline = 4 }.contradiction(to: good) == nil)
        var alone = good
        alone.synchronousStandbyNames = ""
        let lossy = changed { $0.timeline = 4 }.contradiction(to: alone)
        #expect(lossy?.contains("may be lost") == true)
        let back = changed { $0.timeline = 2 }.contradiction(to: good)
        #expect(back?.contains("went back") == true)
        let other = changed { $0.systemIdentifier = 8 }.contradiction(to: good)
        #expect(other?.contains("another database answers") == true)
        let clone = changed { $0.database = 6 }.contradiction(to: good)
        #expect(clone?.contains("another database of the same server answers") == true)
    }
}
